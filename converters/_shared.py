"""Operators that read the same in every framework, because arrays everywhere share Python's operators and indexing."""

import operator
from typing import Any

import numpy as np

from xbench.converters import geometry


def Shape(x: Any, *, start: int = 0, end: int | None = None) -> np.ndarray:
    return np.asarray(tuple(np.shape(x) if isinstance(x, np.ndarray) else x.shape)[start:end], np.int64)


def ConstantOfShape(shape: Any, *, value: Any = None) -> np.ndarray:
    filled = np.zeros(1, np.float32) if value is None else np.asarray(value)
    return np.full(tuple(int(n) for n in shape), filled.reshape(())[()])


def Slice(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    return x[geometry.slices(len(x.shape), starts, ends, axes, steps)]


ROWS = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Neg": operator.neg,
    "Reciprocal": lambda x: 1 / x,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Identity": lambda x: x,
    "Range": np.arange,
    "Shape": Shape,
    "ConstantOfShape": ConstantOfShape,
    "Slice": Slice,
}
