"""Operators that read the same in every framework, because arrays everywhere share Python's operators and indexing."""

import operator
from typing import Any

import numpy as np

from xbench.converters import geometry

# The numbers of onnx.TensorProto, by the names NumPy and every framework here share.
DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
}


def Constant(*, value_ints: Any) -> np.ndarray:
    """Integers that may become a shape: known while a framework traces, and yet an array that arithmetic accepts."""
    return np.asarray(value_ints, np.int64)


def Shape(x: Any, *, start: int = 0, end: int | None = None) -> np.ndarray:
    return np.asarray(tuple(np.shape(x) if isinstance(x, np.ndarray) else x.shape)[start:end], np.int64)


def ConstantOfShape(shape: Any, *, value: Any = None) -> np.ndarray:
    (fill,) = value or (0.0,)
    return np.full(tuple(int(n) for n in shape), fill, np.float32 if isinstance(fill, float) else None)


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
    "Constant": Constant,
    "Shape": Shape,
    "ConstantOfShape": ConstantOfShape,
    "Slice": Slice,
}
