"""The numbers of onnx.TensorProto, NumPy's names for them, and the types of what is printed as a Python number."""

from typing import Any

import numpy as np

TYPES: dict[Any, Any] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
}
# ONNX's zero-dimensional constants are printed as Python numbers; alone they are arrays of these types.
PYTHON_TYPES = {bool: np.bool_, int: np.int64, float: np.float32}


def typed(value: Any) -> Any:
    """A Python number as the array it represents."""
    return np.asarray(value, PYTHON_TYPES[type(value)]) if type(value) in PYTHON_TYPES else value
