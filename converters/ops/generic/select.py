"""Reading and writing elements by index."""

import math

import numpy as np


def wrapped(xp, indices, length):
    """Makes indices from the end count from the start."""
    if not xp.is_array(indices):
        return np.asarray(indices) % length
    return xp.where(xp.less(indices, 0), indices + length, indices)


def Gather(xp, x, indices, *, axis=0, padding_idx=None):
    """`padding_idx` is ours (`frontends/pytorch.py`): a row of x that gets no gradient, as in PyTorch's Embedding."""
    y = xp.take(x, wrapped(xp, indices, xp.shape(x)[axis]), axis)
    if padding_idx is None:
        return y
    fixed = xp.expand_dims(xp.equal(indices, padding_idx), (len(xp.shape(indices)),))
    return xp.where(fixed, xp.stop_gradient(y), y)


def GatherElements(xp, x, indices, *, axis=0):
    axis %= len(xp.shape(x))
    flat = _flat(xp, xp.shape(x), indices, axis)
    return xp.reshape(xp.take(xp.reshape(x, (-1,)), xp.reshape(flat, (-1,))), xp.shape(indices))


def GatherND(xp, x, indices, *, batch_dims=0):
    flat, size, rest = _flat_rows(xp, xp.shape(x), indices, batch_dims)
    rows = xp.take(xp.reshape(x, (size, *rest)), xp.reshape(flat, (-1,)))
    return xp.reshape(rows, (*xp.shape(indices)[:-1], *rest))


def _flat(xp, shape, indices, axis):
    """Positions in the flattened array of the `indices` of GatherElements and ScatterElements along an axis."""
    strides = [math.prod(shape[a + 1 :]) for a in range(len(shape))]
    given = xp.shape(indices)
    total = wrapped(xp, indices, shape[axis]) * strides[axis]
    for a, length in enumerate(given):
        if a != axis:
            ramp = np.arange(length).reshape([-1 if b == a else 1 for b in range(len(given))]) * strides[a]
            total = total + (xp.asarray(ramp, total) if xp.is_array(total) else ramp)
    return total


def _flat_rows(xp, shape, indices, batch_dims):
    """For GatherND and ScatterND: the row of the array reshaped to (size, *rest) for each index tuple."""
    depth = xp.shape(indices)[-1]
    heads, rest = shape[: batch_dims + depth], shape[batch_dims + depth :]
    total = None
    for position in range(depth):
        stride = math.prod(heads[batch_dims + position + 1 :])
        column = xp.take(indices, np.asarray(position), -1)
        part = wrapped(xp, column, heads[batch_dims + position]) * stride
        total = part if total is None else total + part
    for a in range(batch_dims):
        ramp = np.arange(shape[a]).reshape([-1 if b == a else 1 for b in range(len(xp.shape(indices)) - 1)])
        ramp = ramp * math.prod(heads[a + 1 :])
        total = total + (xp.asarray(ramp, total) if xp.is_array(total) else ramp)
    return total, math.prod(heads), rest


HOW = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def ScatterElements(xp, x, indices, updates, *, axis=0, reduction="none"):
    flat = _flat(xp, xp.shape(x), indices, axis % len(xp.shape(x)))
    written = xp.scatter(xp.reshape(x, (-1,)), xp.reshape(flat, (-1,)), xp.reshape(updates, (-1,)), HOW[reduction])
    return xp.reshape(written, xp.shape(x))


def TensorScatter(xp, past, update, write_indices=None, *, axis=-2, mode="linear"):
    """The cache `past` with `update` written along an axis, for each sample from its own place on; `circular` wraps
    around at the end."""
    shape, length, axis = xp.shape(update), xp.shape(past)[axis], axis % len(xp.shape(past))
    start = np.zeros(shape[0], np.int64) if write_indices is None else write_indices
    at = xp.reshape(xp.astype(start, "int64"), [-1] + [1] * (len(shape) - 1))
    ramp = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    at = at + xp.asarray(np.broadcast_to(ramp, (1, *shape[1:])).copy(), at)
    return ScatterElements(xp, past, xp.mod(at, length) if mode == "circular" else at, update, axis=axis)


def Scatter(xp, x, indices, updates, *, axis=0):
    return ScatterElements(xp, x, indices, updates, axis=axis)


def ScatterND(xp, x, indices, updates, *, reduction="none"):
    rows, _, rest = _flat_rows(xp, xp.shape(x), indices, 0)
    width = math.prod(rest)
    columns = np.arange(width)
    flat = xp.expand_dims(xp.reshape(rows, (-1,)) * width, (1,))
    flat = flat + xp.asarray(columns.reshape(1, -1), flat)
    written = xp.scatter(xp.reshape(x, (-1,)), xp.reshape(flat, (-1,)), xp.reshape(updates, (-1,)), HOW[reduction])
    return xp.reshape(written, xp.shape(x))


def OneHot(xp, indices, depth, values, *, axis=-1):
    """Indices outside [-depth, depth) give rows of the off value."""
    depth = int(np.asarray(depth).reshape(()))
    rank = len(xp.shape(indices)) + 1
    axis %= rank
    column = xp.expand_dims(indices, (axis,))
    ramp = np.arange(depth).reshape([-1 if a == axis else 1 for a in range(rank)])
    at = xp.where(xp.less(column, 0), column + depth, column)
    off, on = xp.take(values, np.asarray(0)), xp.take(values, np.asarray(1))
    return xp.where(xp.equal(at, xp.asarray(ramp, at)), on, off)


def TopK(xp, x, k, *, axis=-1, largest=1, sorted=1):
    values, indices = xp.top_k(x, int(np.asarray(k).reshape(())), axis % len(xp.shape(x)), bool(largest))
    return values, xp.astype(indices, "int64")


def Compress(xp, x, condition, *, axis=None):
    """The condition decides a shape, so it must be known."""
    chosen = np.flatnonzero(condition)
    return xp.take(xp.reshape(x, (-1,)), chosen) if axis is None else xp.take(x, chosen, axis)


def NonZero(xp, x):
    """Its shape depends on the values, so they must be known."""
    return np.stack(np.nonzero(np.atleast_1d(xp.concrete(x)))).astype(np.int64)


def Unique(xp, x, *, axis=None, sorted=1):
    """Its shapes depend on the values, so they must be known. Returns Y, indices, inverse indices, counts."""
    x = xp.concrete(x)
    y, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    if not sorted:
        order = np.argsort(first, kind="stable")
        y, first, counts = np.take(y, order, axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return y, first.astype(np.int64), inverse.reshape(-1).astype(np.int64), counts.astype(np.int64)
