"""TensorFlow -> ONNX by tf2onnx: a SavedModel's serving signature, or a Keras model.

tf2onnx's own reader of Keras models fails on Keras 3 (tensorflow-onnx#2329); a function made from one works.
"""

from pathlib import Path
from typing import Any

import tensorflow as tf
import tf2onnx

OPSET = 18  # the latest that tf2onnx writes


class BadModel(Exception):
    """A file that TensorFlow or tf2onnx rejects; one line."""


def to_onnx(path: str, file: str) -> None:
    """Writes the model of a `.keras` or `.h5` file or of a SavedModel folder as an ONNX file.

    Raises:
        BadModel: it cannot be read, has no serving signature, or tf2onnx lacks an operator.
    """
    try:
        function, signature = _keras(path) if Path(path).is_file() else _saved_model(path)
        tf2onnx.convert.from_function(function, input_signature=signature, opset=OPSET, output_path=file)
    except BadModel:
        raise
    except Exception as error:  # TensorFlow, Keras and tf2onnx raise many kinds for the same failure
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise BadModel(f"{path} cannot be read as a TensorFlow model: {reason[:200]}") from error


def _keras(path: str) -> tuple[Any, list[Any]]:
    """Keras' safe mode stays on: code in a file is not run."""
    model = tf.keras.models.load_model(path, compile=False, safe_mode=True)
    signature = [tf.TensorSpec(x.shape, x.dtype, name=x.name.partition(":")[0]) for x in model.inputs]

    @tf.function(input_signature=signature)
    def call(*inputs):
        return model(list(inputs) if len(inputs) > 1 else inputs[0], training=False)

    return call, signature


def _saved_model(path: str) -> tuple[Any, list[Any]]:
    loaded = tf.saved_model.load(path)
    if "serving_default" not in loaded.signatures:
        raise BadModel(f"{path} has no signature serving_default")
    serving = loaded.signatures["serving_default"]
    specs = serving.structured_input_signature[1]
    signature = [tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in specs.items()]

    @tf.function(input_signature=signature)
    def call(*inputs):
        return serving(**dict(zip(specs, inputs, strict=True)))

    call._keep = loaded  # the signature does not keep the variables of its model alive
    return call, signature
