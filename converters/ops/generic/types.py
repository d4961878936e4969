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
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
}
# Types that no framework computes in.
NAMES = {21: "uint4", 22: "int4", 23: "float4", 24: "float8e8m0", 25: "uint2", 26: "int2"}
LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0}
# The largest float32 that is rounded to that.
LAST = {"float8_e4m3fn": 464.0, "float8_e4m3fnuz": 247.99998, "float8_e5m2": 61439.996, "float8_e5m2fnuz": 61439.996}
# ONNX's zero-dimensional constants are printed as Python numbers; alone they are arrays of these types.
PYTHON_TYPES = {bool: np.bool_, int: np.int64, float: np.float32}


def type_numbered(number: int) -> str:
    """
    Raises:
        NotImplementedError: no framework computes in this type.
    """
    if number not in TYPES:
        raise NotImplementedError(f"the type {NAMES.get(number, number)}")
    return str(TYPES[number])


def rounded(xp: Any, x: Any, name: str, saturate: int) -> Any:
    """Floats as floats of 8 bits. What is too large for them, infinity too, becomes the largest; if they do not
    `saturate`, infinity where the type has it, and else no number."""
    x, most = xp.asarray(x), LARGEST[name]
    y = xp.minimum(xp.maximum(x, -most), most)
    if not saturate:
        beyond = xp.where(xp.less(x, 0), -np.inf, np.inf) if name == "float8_e5m2" else np.nan
        y = xp.where(xp.greater(xp.abs(x), LAST[name]), xp.asarray(beyond, x), y)
    return xp.astype(y, name)


def typed(value: Any) -> Any:
    """A Python number as the array it represents."""
    return np.asarray(value, PYTHON_TYPES[type(value)]) if type(value) in PYTHON_TYPES else value
