"""The five networks written by hand in each framework's own style, for `tools/measure/conversion_tax.py`.

One file per framework, with its usual name. Each makes a `Network`, which steps like a runtime of xbench. Layers have
the module paths of the PyTorch network as names, so one rule per kind of layer loads all weights. There is no dropout:
none of the five needs it in evaluation, and in training its rate is 0 on both sides.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
# How the two biases of each LSTM gate in PyTorch map to a framework's single one: weights add up; gradients are equal,
# so either is right.
Both = Callable[[np.ndarray, np.ndarray], np.ndarray]


def either(ih: np.ndarray, hh: np.ndarray) -> np.ndarray:
    return (ih + hh) / 2


class Network(ABC):
    """A hand-written network, compiled as its framework is meant to be used."""

    @abstractmethod
    def put(self, inputs: Sequence[np.ndarray], labels: np.ndarray) -> tuple[tuple[Any, ...], Any]:
        """Inputs in the layout the framework prefers, and labels, on the device."""

    @abstractmethod
    def forward(self, *inputs: Any) -> Any:
        """The logits, complete."""

    @abstractmethod
    def gradients(self, inputs: Sequence[Any], labels: Any) -> Any:
        """Loss and dense gradients of all parameters in training mode, complete."""

    @abstractmethod
    def pairs(self, result: Any, gradients: Arrays) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Each gradient of `result` by name, with the one in PyTorch's layout that must equal it."""

    @abstractmethod
    def parameters(self) -> int:
        """Number of trainable scalars."""


def channels_last(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if array.ndim == 4 else array


def kernel(weight: np.ndarray) -> np.ndarray:
    """Height, width, in, out: HWIO in TensorFlow and JAX."""
    return weight.transpose(2, 3, 1, 0)


def attention(source: Arrays, name: str, heads: int) -> dict[str, np.ndarray]:
    """The fused projection split, each part with an axis for the heads."""
    weight, bias = source[f"{name}.qkv.weight"], source[f"{name}.qkv.bias"]
    width = weight.shape[1]
    arrays = {}
    for part, w, b in zip(("query", "key", "value"), np.split(weight, 3), np.split(bias, 3), strict=True):
        arrays[f"{part}.kernel"], arrays[f"{part}.bias"] = w.T.reshape(width, heads, -1), b.reshape(heads, -1)
    arrays["output.kernel"] = source[f"{name}.out.weight"].T.reshape(heads, -1, width)
    arrays["output.bias"] = source[f"{name}.out.bias"]
    return arrays
