"""Keras 3: a functional model of its own layers, on TensorFlow (`keras`) or on JAX (`keras:backend=jax`).

The model is called without state of its own (`stateless_call`), inside the step that the backend's own runtime
compiles: that runtime has the arrays, in Keras's order of axes, and trains.
"""

import os
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime, Unavailable

BACKENDS = ("tensorflow", "jax")


def make(artifact: Artifact, options: Options) -> Runtime:
    """The runtime of the backend that its word names.

    Raises:
        Unavailable: another backend.
    """
    backend = options.extra.get("backend", BACKENDS[0])
    if backend not in BACKENDS:
        raise Unavailable(f"keras has no backend {backend} here: it is one of {', '.join(BACKENDS)}")
    os.environ["KERAS_BACKEND"] = backend  # which it reads when it is imported
    base = _on_tensorflow() if backend == "tensorflow" else _on_jax()
    return type("Keras", (_Layers, base), {"__abstractmethods__": frozenset()})(artifact, options)


class _Layers:
    """The part of Keras in a runtime of a backend: the function that it calls, and the order of the arrays."""

    artifact: Artifact
    program: Any
    shapes: list[Any]
    dropout: bool | None = None
    _seed: Callable[[Any], Any]  # a state of dropout's generator, new in every step

    def _bound(self) -> tuple[Callable[..., Any], dict[str, tuple[int, ...]]]:
        from xbench.runtimes.support.keras_layers import built

        self.program = self.artifact.program("nhwc")
        inputs = [(item["shape"], item["dtype"]) for item in self.artifact.info["inputs"]]
        self.model, self.made = built(self.program, inputs)
        names = {id(variable): name for name, variable in self.made.variables.items()}
        self.trained = [names[id(variable)] for variable in self.model.trainable_variables]
        self.others = [names.get(id(variable)) for variable in self.model.non_trainable_variables]
        return self._call, self.made.orders

    def _call(self, params: Any, state: Any, *inputs: Any, training: bool = False, rng: Any = None) -> Any:
        """The model, called as the program; dropout's seeds are the only state that is not the program's."""
        trained = [params[name] for name in self.trained]
        others = [state[name] if name else self._seed(rng) for name in self.others]
        outputs, new = self.model.stateless_call(trained, others, list(inputs), training=training)
        changed = {name: value for name, value in zip(self.others, new, strict=True) if name} if training else {}
        return tuple(outputs) if isinstance(outputs, list | tuple) else (outputs,), changed

    def _as_onnx(self, params: Any) -> Any:
        return params

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        if dropout != self.dropout:
            self.dropout, self.shapes = dropout, []  # the rate is compiled in
            for layer, rate in self.made.dropouts:
                layer.rate = rate if dropout else 0
        return bool(super().prepare(inputs, labels, dropout))  # type: ignore[misc]

    def versions(self) -> dict[str, str]:
        return {name: metadata.version(name) for name in ("keras",)}

    def save(self, folder: Any, name: str) -> tuple[str, ...]:
        """In Keras's own form, with the weights of the artifact."""
        for own, variable in self.made.variables.items():
            array = {**self.program.params, **self.program.state}[own]
            variable.assign(np.transpose(array, self.made.orders[own]) if own in self.made.orders else array)
        self.model.save(folder / f"{name}.keras")
        return (f"{name}.keras",)


def _on_tensorflow() -> type:
    import tensorflow as tf

    from xbench.runtimes.tensorflow import TensorFlow

    class OnTensorFlow(TensorFlow):
        def _seed(self, rng):
            return tf.cast(tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32), tf.uint32)

    return OnTensorFlow


def _on_jax() -> type:
    import jax
    import jax.numpy as jnp

    from xbench.runtimes.jax import Jax

    class OnJax(Jax):
        def _seed(self, rng):
            return jnp.zeros(2, "uint32") if rng is None else jax.random.key_data(rng[0])

    return OnJax
