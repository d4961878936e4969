"""Arrays of bfloat16 for ONNX Runtime, whose Python interface takes and gives none."""

import ctypes
import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime

BFLOAT16 = "tensor(bfloat16)"


def value(array: np.ndarray, always: bool) -> Any:
    """An array as a session takes it: itself, or a value of ONNX Runtime's own, as for bfloat16 `always`."""
    if array.dtype.name == "bfloat16":
        bits, kind = array.view(np.uint16), onnx.TensorProto.BFLOAT16
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, kind)
    return onnxruntime.OrtValue.ortvalue_from_numpy(array) if always else array


def array(value: Any) -> np.ndarray:
    """A copy of a value of ONNX Runtime's own, which returns none of bfloat16."""
    if value.data_type() != BFLOAT16:
        return np.array(value.numpy())
    shape = tuple(value.shape())
    memory = (ctypes.c_uint16 * math.prod(shape)).from_address(value.data_ptr())
    return np.array(memory, np.uint16).reshape(shape).view(ml_dtypes.bfloat16)
