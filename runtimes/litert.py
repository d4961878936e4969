"""LiteRT (TensorFlow Lite) on the CPU. TensorFlow's converter makes its file of the printed program with the channels
of images last, the order in which it has all convolutions; arrays go in and out in ONNX's order."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from xbench.converters import UnsupportedOps
from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime, Unavailable
from xbench.runtimes.support.calibration import batches
from xbench.runtimes.tensorflow import TensorFlow

# In a message of the converter about operators that LiteRT has none for.
LACKS = r"'tf\.(\w+)' op is neither a custom op|\btf\.([A-Z]\w+)\("


class LiteRT(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        if options.device != "cpu":
            raise Unavailable("litert: its package on PyPI has no CUDA device")
        layout = "nhwc" if "nhwc" in artifact.layouts else "nchw"
        network = TensorFlow(artifact, replace(options, layout=layout, precision="fp32"))
        self.tensorflow, self.options = network, options

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        ranges = batches(self.options.calibration, inputs, "litert in int8") if self.options.precision == "int8" else ()
        self.form = converted(self.tensorflow, inputs, ranges)
        self.interpreter = Interpreter(model_content=self.form, num_threads=self.options.threads)
        self.interpreter.allocate_tensors()
        self.given = [each["index"] for each in self.interpreter.get_input_details()]
        self.made = [each["index"] for each in self.interpreter.get_output_details()]
        return True

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(np.array(array, order="C") for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        for place, array in zip(self.given, inputs, strict=True):
            self.interpreter.set_tensor(place, array)
        self.interpreter.invoke()
        return self.made

    def wait(self, result: Any) -> None:
        pass  # invoke() returns when the outputs are computed

    def get(self, outputs: Any) -> list[np.ndarray]:
        return [self.interpreter.get_tensor(place) for place in outputs]

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        """LiteRT's own file, for the sizes that it was prepared for."""
        (folder / f"{name}.tflite").write_bytes(self.form)
        return (f"{name}.tflite",)


def converted(network: TensorFlow, inputs: Sequence[np.ndarray], ranges: Sequence[Sequence[np.ndarray]] = ()) -> bytes:
    """LiteRT's form of a network for inputs of these shapes; in int8 if there are batches to find its ranges with.

    Raises:
        UnsupportedOps: it lacks operators of TensorFlow's, all of which it names.
    """
    signature = [tf.TensorSpec(array.shape, array.dtype, f"given_{place}") for place, array in enumerate(inputs)]
    traced = tf.function(lambda *arrays: [tf.identity(each) for each in network.evaluated(*arrays)], autograph=False)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced.get_concrete_function(*signature)], network)
    if ranges:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: iter(ranges)
    try:
        made: bytes = converter.convert()
    except Exception as error:
        if names := ["".join(pair) for pair in re.findall(LACKS, str(error))]:
            raise UnsupportedOps({f"TensorFlow's {name}": 1 for name in names}) from error
        raise RuntimeError(str(error).partition("\n")[0]) from error
    return made
