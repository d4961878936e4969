"""Operators on shapes: an array's axes, and the order of elements along them."""

import numpy as np

from xbench.converters.ops import geometry
from xbench.converters.ops.generic.types import type_numbered


def Constant(xp, *, value=None, value_int=None, value_ints=None, value_float=None, value_floats=None):
    """Numbers that may become a shape: known while a framework traces, but an array that arithmetic accepts."""
    if value is not None:
        return np.asarray(value)
    integers = value_int if value_ints is None else value_ints
    if integers is not None:
        return np.asarray(integers, np.int64)
    return np.asarray(value_float if value_floats is None else value_floats, np.float32)


def ConstantOfShape(xp, shape, *, value=(0.0,), dtype=None):
    """`dtype` is ours: the type of the value, if it is none of the three of Python's numbers."""
    fill = np.asarray(value).reshape(())
    kept = dtype or {"f": "float32", "i": "int64", "b": "bool"}[fill.dtype.kind]
    return np.full(tuple(int(n) for n in shape), fill, kept)


def Shape(xp, x, *, start=0, end=None):
    return np.asarray(xp.shape(x)[start:end], np.int64)


def Size(xp, x):
    return np.asarray(np.prod(xp.shape(x)), np.int64)


def Range(xp, start, limit, delta):
    start, limit, delta = (np.asarray(v).reshape(()) for v in (start, limit, delta))
    return np.arange(start, limit, delta, start.dtype)


def EyeLike(xp, x, *, dtype=None, k=0):
    rows, columns = xp.shape(x)
    return np.eye(rows, columns, k, xp.type_of(x) if dtype is None else type_numbered(dtype))


def Reshape(xp, x, shape, *, allowzero=0):
    return xp.reshape(x, geometry.new_shape(xp.shape(x), shape, allowzero))


def Flatten(xp, x, *, axis=1):
    return xp.reshape(x, (int(np.prod(xp.shape(x)[:axis])), -1))


def Squeeze(xp, x, axes=None):
    return xp.squeeze(x, None if axes is None else tuple(int(a) for a in axes))


def Unsqueeze(xp, x, axes):
    return xp.expand_dims(x, tuple(int(a) for a in np.atleast_1d(axes)))


def Transpose(xp, x, *, perm=None):
    return xp.transpose(x, perm)


def Expand(xp, x, shape):
    return xp.broadcast_to(x, np.broadcast_shapes(xp.shape(x), tuple(int(n) for n in shape)))


def Concat(xp, *arrays, axis):
    return xp.concatenate(arrays, axis)


def Split(xp, x, split=None, *, axis=0, num_outputs=None):
    return tuple(xp.split(x, geometry.split_sizes(xp.shape(x)[axis], split, num_outputs), axis))


def Slice(xp, x, starts, ends, axes=None, steps=None):
    return xp.getitem(x, geometry.slices(len(xp.shape(x)), starts, ends, axes, steps))


def Tile(xp, x, repeats):
    return xp.tile(x, tuple(int(n) for n in repeats))


def Pad(xp, x, pads, value=None, axes=None, *, mode="constant"):
    """Every mode but `constant` is a lookup of the index each element comes from."""
    widths = geometry.pad_widths(len(xp.shape(x)), pads, axes)
    if mode == "constant":
        return xp.pad(x, widths, 0 if value is None else value)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            x = xp.take(x, geometry.padded_index(xp.shape(x)[axis], before, after, mode), axis)
    return x


def Trilu(xp, x, k=0, *, upper=1):
    keep = np.tri(*xp.shape(x)[-2:], int(k or 0) - (1 if upper else 0), bool)
    return xp.where(~keep if upper else keep, x, xp.asarray(0, x))


def DepthToSpace(xp, x, *, blocksize, mode="DCR"):
    n, c, h, w = xp.shape(x)
    if mode == "DCR":
        y = xp.transpose(xp.reshape(x, (n, blocksize, blocksize, -1, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        y = xp.transpose(xp.reshape(x, (n, -1, blocksize, blocksize, h, w)), (0, 1, 4, 2, 5, 3))
    return xp.reshape(y, (n, c // blocksize**2, h * blocksize, w * blocksize))


def SpaceToDepth(xp, x, *, blocksize, mode="DCR"):
    n, c, h, w = xp.shape(x)
    y = xp.reshape(x, (n, c, h // blocksize, blocksize, w // blocksize, blocksize))
    return xp.reshape(xp.transpose(y, (0, 3, 5, 1, 2, 4)), (n, -1, h // blocksize, w // blocksize))


def CenterCropPad(xp, x, shape, *, axes=None):
    sizes = xp.shape(x)
    widths = [(0, 0)] * len(sizes)
    for axis, target in zip(range(len(sizes)) if axes is None else axes, shape, strict=True):
        more = int(target) - sizes[axis]
        widths[axis] = (more // 2, more - more // 2) if more > 0 else (-(-more // 2), more + -more // 2)
    return xp.pad(x, widths)


def ReverseSequence(xp, x, lengths, *, batch_axis=1, time_axis=0):
    """Reverses the first `lengths[b]` steps of each sequence b."""
    time = np.arange(xp.shape(x)[time_axis]).reshape([-1, 1] if time_axis == 0 else [1, -1])
    lengths = xp.expand_dims(lengths, (time_axis,))
    steps = xp.asarray(time, lengths)
    index = xp.where(xp.less(steps, lengths), lengths - 1 - steps, steps)
    index = xp.reshape(index, xp.shape(index) + (1,) * (len(xp.shape(x)) - 2))
    return xp.take_along_axis(x, xp.broadcast_to(index, xp.shape(x)), time_axis)
