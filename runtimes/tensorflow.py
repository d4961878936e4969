"""TensorFlow: the printed program as a `tf.function` with fixed shapes, else operator by operator; `tensorflow:xla`
compiles it with XLA."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from xbench.converters.artifact import Artifact
from xbench.converters.autodiff.loss import loss_of
from xbench.converters.autodiff.optimizer import Functions, by_slot, slots, update
from xbench.converters.codegen import standalone
from xbench.converters.ops import tensorflow as ops
from xbench.converters.passes.kernels import inverse, kernel_orders, linear_orders, reordered
from xbench.runtimes import Options, Trainer, Unavailable
from xbench.runtimes.support.eager import NOT_COMPILED, compiled


def _pick(numbers, count):
    return tf.gather(tf.constant(numbers, count.dtype), tf.cast(count, tf.int32) - 1)


FUNCTIONS = Functions(tf.reduce_sum, tf.minimum, tf.math.expm1, _pick)


def _rewrites(options: Options) -> dict[str, bool]:
    """Options of TensorFlow's own graph optimizer."""
    on_cpu = options.device == "cpu"
    names = {
        "bf16": "auto_mixed_precision_onednn_bfloat16",
        "fp16": "auto_mixed_precision_cpu" if on_cpu else "auto_mixed_precision",
    }
    rewrites = {names[options.precision]: True} if options.precision in names else {}
    return rewrites | ({"disable_meta_optimizer": True} if options.extra.get("grappler") == "off" else {})


def _arguments(names: Sequence[str]) -> list[str]:
    """The names of inputs, made valid for a TensorFlow signature: letters, digits and `_`, a letter first."""
    words: list[str] = []
    for name in names:
        word = re.sub(r"\W", "_", name, flags=re.ASCII)
        word = word if word[:1].isalpha() and word != "self" else f"v_{word}"
        while word in words:
            word += "_"
        words.append(word)
    return words


class TensorFlow(Trainer):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(options.threads)
        tf.config.threading.set_inter_op_parallelism_threads(options.threads)
        tf.config.experimental.enable_tensor_float_32_execution(options.precision == "tf32")  # the default on GPUs
        tf.config.optimizer.set_experimental_options(_rewrites(options))
        if options.device == "cuda" and not tf.config.list_physical_devices("GPU"):
            raise Unavailable("this tensorflow sees no GPU: pip install 'tensorflow[and-cuda]'")
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        self.device = "/GPU:0" if options.device == "cuda" else "/CPU:0"
        self.artifact, self.options, self.program = artifact, options, artifact.program(options.layout)
        self.rule = artifact.info["optimizer"]
        if options.trains:
            self.loss = loss_of(ops, artifact.info["loss"])
        self.apply, self.orders = self._bound()
        self.undone = inverse(self.orders)
        trains, step = options.trains, options.mode == "step"
        with tf.device(self.device):
            self.params = {name: tf.Variable(a, trainable=trains) for name, a in self._initial().items()}
            self.state = {name: tf.Variable(a, trainable=False) for name, a in self.program.state.items()}
            self.memory: dict[str, dict[str, Any]] = {
                slot: {name: tf.Variable(tf.zeros_like(v), trainable=False) for name, v in self.params.items()}
                for slot in (slots(self.rule) if step else ())
            }
            self.count = tf.Variable(0.0, trainable=False)
            self.active = tf.Variable(0.0, trainable=False)  # dropout
        self.shapes: list[Any] = []

    def _bound(self) -> tuple[Any, dict[str, tuple[int, ...]]]:
        """The function of the printed program, and the order of axes in which parameters are kept."""
        linear = {} if self.options.trains else linear_orders(self.program)
        return self.program.bind(ops.TABLE), kernel_orders(self.program) | linear

    def _initial(self) -> dict[str, np.ndarray]:
        """The parameters, kernels of convolutions in TensorFlow's order of axes, in which they are kept."""
        return reordered(self.program.params, self.orders)

    def reset(self) -> None:
        initial = {**self._initial(), **self.program.state}
        for name, variable in {**self.params, **self.state}.items():
            variable.assign(initial[name])
        for variable in (v for slot in self.memory.values() for v in slot.values()):
            variable.assign(tf.zeros_like(variable))
        self.count.assign(0.0)

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        self.active.assign(float(dropout))
        shapes = [array.shape for array in (*inputs, labels)]
        if shapes == self.shapes:
            return False
        self.shapes, self.batches = shapes, tuple(array.shape[0] for array in inputs[:1] if array.ndim)
        body = {"forward": self.evaluated, "gradient": self._gradients, "step": self._step}[self.options.mode]
        arrays = [*inputs] if self.options.mode == "forward" else [*inputs, labels]
        signature = [tf.TensorSpec(array.shape, array.dtype) for array in arrays]
        xla = "xla" in self.options.extra
        with tf.device(self.device):
            traced = tf.function(body, autograph=False, jit_compile=xla or None)
            eager = None if xla else self._eager(body)  # what XLA is asked for, it does or refuses
            self.call = compiled(lambda: traced.get_concrete_function(*signature), eager)
        self.eager = self.call is eager
        if self.options.mode == "forward":
            self.answer = self.call
        elif self.eager:
            self.answer = self._eager(self.evaluated)
        else:  # traced at its first call
            self.answer = tf.function(
                self.evaluated, signature[: len(inputs)], autograph=False, jit_compile=xla or None
            )
        return True

    def tuned(self) -> str | None:
        return NOT_COMPILED if self.eager else None

    def _eager(self, function):
        def call(*arrays):
            with tf.device(self.device):
                return function(*arrays)

        return call

    def _values(self) -> tuple[dict[str, Any], dict[str, Any]]:
        read = {name: tf.convert_to_tensor(v) for name, v in {**self.params, **self.state}.items()}
        return {name: read[name] for name in self.params}, {name: read[name] for name in self.state}

    def _as_onnx(self, params):
        """Kernels in ONNX's order, as the program reads them; operators turn them back, and TensorFlow cancels both."""
        return reordered(params, self.undone, tf.transpose)

    def evaluated(self, *inputs: Any) -> Any:
        """The outputs as TensorFlow's tensors, for tracing."""
        params, state = self._values()
        return self.apply(self._as_onnx(params), state, *inputs)[0]

    def _gradients(self, *arrays):
        params, state = self._values()
        loss, grads, _ = self._differentiated(params, state, arrays)
        return loss, grads

    def _differentiated(self, params, state, arrays):
        *inputs, labels = arrays
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(params)
            rng = 1, tf.convert_to_tensor(self.active)
            outputs, changed = self.apply(self._as_onnx(params), state, *inputs, training=True, rng=rng)
            loss = self.loss(outputs, labels)
        grads = tape.gradient(loss, params, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        # The gradient of a lookup is a list of rows; an optimizer that keeps momentum needs all of them.
        return loss, {name: tf.convert_to_tensor(g) for name, g in grads.items()}, changed

    def _step(self, *arrays):
        params, state = self._values()
        loss, grads, changed = self._differentiated(params, state, arrays)
        count = self.count.assign_add(1.0)
        memory = {slot: {n: tf.convert_to_tensor(v) for n, v in kept.items()} for slot, kept in self.memory.items()}
        params, memory = update(self.rule, count, params, grads, memory, FUNCTIONS)
        for name, value in params.items():
            self.params[name].assign(value)
        for slot, kept in memory.items():
            for name, value in kept.items():
                self.memory[slot][name].assign(value)
        for name, value in changed.items():
            self.state[name].assign(value)
        return loss

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        with tf.device(self.device):
            return tuple(tf.constant(array) for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        return self.answer(*inputs)

    def gradients(self, inputs: Sequence[Any], labels: Any) -> tuple[Any, Any]:
        return self.call(*inputs, labels)

    def step(self, inputs: Sequence[Any], labels: Any) -> Any:
        return (self.call(*inputs, labels),)

    def wait(self, result: Any) -> None:
        if self.options.device == "cuda":
            tf.test.experimental.sync_devices()

    def get(self, outputs: Any) -> list[np.ndarray]:
        return [value.numpy() if tf.is_tensor(value) else np.asarray(value) for value in outputs]

    def fetch(self, result: Any) -> tuple[float, dict[str, np.ndarray]]:
        loss, grads = result
        return float(loss), self._named_as_onnx(grads)

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        """A Python file with its weights, and a SavedModel, for any batch if the model allows it."""
        files = standalone.write(self.program, "tensorflow", name, folder, self.artifact.info["loss"])
        module = tf.Module(name)
        module.params, module.state = list(self.params.values()), list(self.state.values())
        inputs = self.artifact.info["inputs"]
        words = _arguments([item["name"] for item in inputs])
        for batch in (None, *self.batches):
            shapes = [[batch if n == "batch" else n for n in item["shape"]] for item in inputs]
            signature = [tf.TensorSpec(s, i["dtype"], w) for s, i, w in zip(shapes, inputs, words, strict=True)]
            module.forward = tf.function(self._named, signature, autograph=False)
            try:
                module.forward.get_concrete_function()
                break
            except (TypeError, ValueError, NotImplementedError):  # a required shape is unknown
                continue
        tf.saved_model.save(module, str(folder / "saved_model"), signatures=module.forward)
        return (*files, "saved_model")

    def _named(self, *inputs):
        return dict(zip(self.artifact.info["outputs"], self.evaluated(*inputs), strict=True))

    def placed(self) -> dict[str, int]:
        kinds = [tf.DeviceSpec.from_string(v.device).device_type for v in {**self.params, **self.state}.values()]
        return dict(Counter("cuda" if kind == "GPU" else kind.lower() for kind in kinds))

    def weights(self) -> dict[str, np.ndarray]:
        return self._named_as_onnx({**self.params, **self.state})

    def optimizer_state(self) -> dict[str, np.ndarray]:
        return by_slot({slot: self._named_as_onnx(kept) for slot, kept in self.memory.items()})

    def _named_as_onnx(self, tensors) -> dict[str, np.ndarray]:
        """Parameters, or arrays of their shape, on the host in ONNX's order."""
        return reordered({name: t.numpy() for name, t in tensors.items()}, self.undone)
