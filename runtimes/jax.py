"""JAX: the printed program under `jax.jit`, compiled ahead of the first call; else operator by operator."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xbench.converters.artifact import Artifact
from xbench.converters.autodiff.loss import loss_of
from xbench.converters.autodiff.optimizer import Functions, by_slot, slots, update
from xbench.converters.codegen import standalone
from xbench.converters.ops import jax as ops
from xbench.converters.passes.kernels import inverse, kernel_orders, linear_orders, reordered
from xbench.runtimes import Options, Trainer, Unavailable
from xbench.runtimes.support.eager import NOT_COMPILED, compiled


def _pick(numbers, count):
    return jnp.asarray(numbers, count.dtype)[count.astype("int32") - 1]


FUNCTIONS = Functions(jnp.sum, jnp.minimum, jnp.expm1, _pick)
# Of matrix products, whose default is TF32 or bfloat16 if the device has it.
PRECISION = {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "BF16_BF16_F32", "fp16": "F16_F16_F32"}


def _device(kind: str) -> Any:
    try:
        return jax.local_devices(backend=kind)[0]  # of several processes, this one's
    except RuntimeError as error:
        raise Unavailable("this jax sees no CUDA device: pip install 'jax[cuda13]'") from error


def _compiled(function, donated, *arguments):
    made = jax.jit(function, donate_argnums=donated)
    return compiled(lambda: made.lower(*arguments).compile(), function)


class Jax(Trainer):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        jax.config.update("jax_default_matmul_precision", PRECISION[options.precision])
        if options.extra.get("optimize") == "off":
            jax.config.update("jax_disable_most_optimizations", True)
        self.device = _device("cuda" if options.device == "cuda" else "cpu")
        self.artifact, self.options, self.rule = artifact, options, artifact.info["optimizer"]
        if options.trains:
            self.loss = loss_of(ops, artifact.info["loss"])
        self.program = artifact.program(options.layout)
        self.apply, self.orders = self._bound()
        self.undone = inverse(self.orders)
        self.shapes: list[Any] = []
        self.reset()

    def _bound(self) -> tuple[Any, dict[str, tuple[int, ...]]]:
        """The function of the printed program, and the order of axes in which parameters are kept."""
        linear = {} if self.options.trains else linear_orders(self.program)
        return self.program.bind(ops.TABLE), kernel_orders(self.program) | linear

    def reset(self) -> None:
        # A step donates its arrays, so they must not share memory with the NumPy originals.
        # Kernels of convolutions, and matrices if nothing is trained, are kept in XLA's order of axes.
        kept = reordered(self.program.params, self.orders)
        self.params = jax.device_put(kept, self.device, may_alias=False)
        self.state = jax.device_put(self.program.state, self.device, may_alias=False)
        self.memory: Any = {}
        if self.options.mode == "step":
            zeros = jax.tree.map(jnp.zeros_like, self.params)
            self.memory = {slot: jax.tree.map(jnp.copy, zeros) for slot in slots(self.rule)}
        self.count, self.key = jax.device_put((np.float32(0), jax.random.key(0)), self.device)

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        self.rng = self.key, jax.device_put(np.float32(dropout), self.device)
        shapes = [array.shape for array in (*inputs, labels)]
        if shapes == self.shapes:
            return False
        self.shapes, given = shapes, self.put(inputs)
        if self.options.mode == "forward":
            self.answer = _compiled(self._forward, (), self.params, self.state, *given)
            return True
        memory = () if self.options.mode == "gradient" else (self.memory,)
        arguments = (self.params, self.state, *memory, self.count, self.rng, given, self.put([labels])[0])
        body, donated = (self._step, (0, 1, 2, 3)) if memory else (self._drawn, ())
        self.call = _compiled(body, donated, *arguments)
        self.answer = self._forward if self.call == body else jax.jit(self._forward)
        return True

    def tuned(self) -> str | None:
        return NOT_COMPILED if self.answer == self._forward else None

    def _as_onnx(self, params):
        """Kernels in ONNX's order, as the program reads them; XLA moves no data for it."""
        return reordered(params, self.undone, jnp.transpose)

    def _forward(self, params, state, *inputs):
        return self.apply(self._as_onnx(params), state, *inputs)[0]

    def _loss(self, params, state, rng, inputs, labels):
        outputs, changed = self.apply(self._as_onnx(params), state, *inputs, training=True, rng=rng)
        return self.loss(outputs, labels), changed

    def _differentiated(self, params, state, rng, inputs, labels):
        return jax.value_and_grad(self._loss, has_aux=True)(params, state, rng, inputs, labels)

    def _drawn(self, params, state, count, rng, inputs, labels):
        """Loss and gradients, and the number of the next call: each has another dropout mask."""
        rng = jax.random.fold_in(rng[0], count.astype("int32")), rng[1]
        (loss, _), grads = self._differentiated(params, state, rng, inputs, labels)
        return loss, grads, count + 1

    def _step(self, params, state, memory, count, rng, inputs, labels):
        rng = jax.random.fold_in(rng[0], count.astype("int32")), rng[1]
        (value, changed), grads = self._differentiated(params, state, rng, inputs, labels)
        params, memory = update(self.rule, count + 1, params, grads, memory, FUNCTIONS)
        return value, params, {**state, **changed}, memory, count + 1

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        narrow = [a.astype(np.int32) if a.dtype == np.int64 else a for a in arrays]  # JAX has no int64 by default
        return tuple(jax.device_put(narrow, self.device))

    def forward(self, *inputs: Any) -> Any:
        return self.answer(self.params, self.state, *inputs)

    def gradients(self, inputs: Sequence[Any], labels: Any) -> tuple[Any, Any]:
        loss, grads, self.count = self.call(self.params, self.state, self.count, self.rng, inputs, labels)
        return loss, grads

    def step(self, inputs: Sequence[Any], labels: Any) -> Any:
        arguments = (self.params, self.state, self.memory, self.count, self.rng, inputs, labels)
        loss, self.params, self.state, self.memory, self.count = self.call(*arguments)
        return loss, self.params, self.state

    def wait(self, result: Any) -> None:
        jax.block_until_ready(result)

    def get(self, outputs: Any) -> list[np.ndarray]:
        return list(jax.device_get(list(outputs)))  # all at once: one after the other waits for the GPU every time

    def fetch(self, result: Any) -> tuple[float, dict[str, np.ndarray]]:
        loss, grads = result
        return float(loss), self._named_as_onnx(grads)

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        return standalone.write(self.program, "jax", name, folder, self.artifact.info["loss"])

    def placed(self) -> dict[str, int]:
        kinds = [device.platform for array in {**self.params, **self.state}.values() for device in array.devices()]
        return dict(Counter("cuda" if kind == "gpu" else kind for kind in kinds))

    def weights(self) -> dict[str, np.ndarray]:
        return self._named_as_onnx({**self.params, **self.state})

    def optimizer_state(self) -> dict[str, np.ndarray]:
        return by_slot({slot: self._named_as_onnx(kept) for slot, kept in self.memory.items()})

    def _named_as_onnx(self, arrays) -> dict[str, np.ndarray]:
        """Parameters, or arrays of their shape, on the host in ONNX's order."""
        return reordered(jax.device_get(dict(arrays)), self.undone)
