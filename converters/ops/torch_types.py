"""PyTorch's types by NumPy's names. ONNX's float is the default type, so that the same text runs in float64; within
`lifted` so are its floats of 16 bits."""

import contextlib
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import torch

_NAMES = """
    bool bfloat16 complex64 complex128 float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64
    float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz
"""
TYPES = {name: getattr(torch, name) for name in _NAMES.split()}
HALVES = ("float16", "bfloat16")
_LIFTED = [False]


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """Within the context floats of 16 bits are of the default type, and rounded if the text casts to them."""
    before, _LIFTED[0] = _LIFTED[0], True
    try:
        yield
    finally:
        _LIFTED[0] = before


def type_named(name):
    alike = name == "float32" or (_LIFTED[0] and name in HALVES)
    return torch.get_default_dtype() if alike else TYPES[name]


def cast(x, name):
    """The tensor in the type of this name; if that is lifted, rounded to it."""
    if _LIFTED[0] and name in HALVES:
        x = x.to(TYPES[name])
    return x.to(type_named(name))


def from_numpy(x):
    """A tensor of the array's own type, which NumPy may have only from ml_dtypes."""
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    if x.dtype.name.startswith("float8"):
        return torch.from_numpy(x.view(np.uint8)).view(TYPES[x.dtype.name])
    return torch.as_tensor(x)


def to_numpy(x):
    """The array of a tensor; a result that depends on shapes alone is one already."""
    if not isinstance(x, torch.Tensor):
        return np.asarray(x)
    x = x.detach().cpu()
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    if x.is_floating_point() and x.element_size() == 1:
        return x.view(torch.uint8).numpy().view(getattr(ml_dtypes, str(x.dtype).removeprefix("torch.")))
    return x.numpy()
