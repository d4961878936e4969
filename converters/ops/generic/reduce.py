"""Reductions, positions of extremes, and sums along an axis."""

import numpy as np


def _reduction(function):
    """ONNX's form of a reduction: no axes means all of them, or none with `noop_with_empty_axes`."""

    def operator(xp, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        every = axes is None or len(axes) == 0
        if every and noop_with_empty_axes:
            return function(xp, x, (), True)
        rank = len(xp.shape(x))
        axis = tuple(range(rank)) if every else tuple(sorted(int(a) % rank for a in axes))
        return function(xp, x, axis, bool(keepdims))

    return operator


def _over(function):
    """A reduction; over no axes it is the array itself."""
    return _reduction(lambda xp, x, axis, keep: function(xp, x, axis, keep) if axis else x)


def _of(before, after=lambda xp, y: y):
    """A sum of something elementwise, and something elementwise of the sum."""
    return _reduction(lambda xp, x, axis, keep: after(xp, xp.sum(before(xp, x), axis, keep) if axis else before(xp, x)))


def _max(xp, x, axis, keep):
    return xp.any(x, axis, keep) if xp.type_of(x) == "bool" else xp.max(x, axis, keep)


def _min(xp, x, axis, keep):
    return xp.all(x, axis, keep) if xp.type_of(x) == "bool" else xp.min(x, axis, keep)


def _log_sum_exp(xp, x, axis, keep):
    if not axis:
        return x
    peak = xp.max(x, axis, True)
    peak = xp.where(xp.isinf(peak), 0, peak)
    total = xp.log(xp.sum(xp.exp(x - peak), axis, True)) + peak
    return total if keep else xp.squeeze(total, axis)


ReduceSum = _over(lambda xp, x, axis, keep: xp.sum(x, axis, keep))
ReduceMean = _over(lambda xp, x, axis, keep: xp.mean(x, axis, keep))
ReduceProd = _over(lambda xp, x, axis, keep: xp.prod(x, axis, keep))
ReduceMax = _over(_max)
ReduceMin = _over(_min)
ReduceL1 = _of(lambda xp, x: xp.abs(x))
ReduceSumSquare = _of(lambda xp, x: x * x)
ReduceL2 = _of(lambda xp, x: x * x, lambda xp, y: xp.sqrt(y))
ReduceLogSum = _of(lambda xp, x: x, lambda xp, y: xp.log(y))
ReduceLogSumExp = _reduction(_log_sum_exp)


def _position(xp, x, axis, keepdims, last, function):
    axis %= len(xp.shape(x))
    if last:
        y = xp.shape(x)[axis] - 1 - xp.astype(function(xp.flip(x, axis), axis), "int64")
    else:
        y = xp.astype(function(x, axis), "int64")
    return xp.expand_dims(y, (axis,)) if keepdims else y


def ArgMax(xp, x, *, axis=0, keepdims=1, select_last_index=0):
    return _position(xp, x, axis, keepdims, select_last_index, xp.argmax)


def ArgMin(xp, x, *, axis=0, keepdims=1, select_last_index=0):
    return _position(xp, x, axis, keepdims, select_last_index, xp.argmin)


def CumSum(xp, x, axis, *, exclusive=0, reverse=0):
    axis, rank = int(np.asarray(axis).reshape(())), len(xp.shape(x))
    if not -rank <= axis < rank:  # a tensor, which no reader of the file checks
        raise ValueError(f"CumSum: there is no axis {axis} among {rank}")
    axis %= rank
    x = xp.flip(x, axis) if reverse else x
    y = xp.cumsum(x, axis)
    y = y - x if exclusive else y
    return xp.flip(y, axis) if reverse else y
