"""Operators of PyTorch that its exporter has no form for, in ONNX's operators. Gradients follow from these.

Indices of equal values may be others than PyTorch's, which says nothing about them.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnxscript import opset18 as op
from onnxscript.function_libs.torch_lib.ops import nn as torch_lib


def translations() -> dict[Any, Callable[..., Any]]:
    aten = torch.ops.aten
    return {
        aten._cdist_forward.default: _distances,
        aten.embedding_bag.default: _bags,
        aten.embedding_bag.padding_idx: _bags,
        aten.atleast_1d.Sequence: lambda tensors: [_of_rank(x, 1) for x in tensors],
        aten.atleast_2d.Sequence: lambda tensors: [_of_rank(x, 2) for x in tensors],
        aten.atleast_3d.Sequence: lambda tensors: [_of_rank(x, 3) for x in tensors],
        aten.avg_pool2d.default: lambda *given, **named: _mean_of_windows(
            torch_lib.aten_avg_pool2d, 2, *given, **named
        ),
        aten.avg_pool3d.default: lambda *given, **named: _mean_of_windows(
            torch_lib.aten_avg_pool3d, 3, *given, **named
        ),
        aten.cumprod.default: _cumulated_product,
        aten.cummax.default: lambda x, dim: _running(op.ReduceMax, op.ArgMax, x, dim, -math.inf),
        aten.cummin.default: lambda x, dim: _running(op.ReduceMin, op.ArgMin, x, dim, math.inf),
        aten.diagonal.default: _diagonal,
        aten.diagonal_copy.default: _diagonal,
        aten.fmax.default: lambda a, b: op.Max(*_numbers(a, b)),
        aten.fmin.default: lambda a, b: op.Min(*_numbers(a, b)),
        aten.hypot.default: lambda a, b: op.Sqrt(op.Add(op.Mul(a, a), op.Mul(b, b))),
        aten.kthvalue.default: lambda x, k, dim=-1, keepdim=False: _ranked(x, k - 1, dim, keepdim),
        aten.masked_select.default: _selected,
        aten.median.default: lambda x: _median(op.Reshape(x, [-1]), math.prod(map(_length, x.shape)), 0, False)[0],
        aten.median.dim: lambda x, dim, keepdim=False: _median(x, _length(x.shape[dim]), dim, keepdim),
        aten.rrelu_with_noise_functional.default: _rectified,
        aten.scatter_reduce.two: _scattered,
        aten.searchsorted.Tensor: _places,
        aten.sort.stable: lambda x, stable=None, dim=-1, descending=False: _sorted(x, dim, descending),
        torch.ops.prims.signbit.default: _is_negative,
    }


_END = np.iinfo(np.int64).max


def _length(size: Any) -> int:
    """The length of an axis.

    Raises:
        NotImplementedError: it is not known.
    """
    if not isinstance(size, int):
        raise NotImplementedError("an operator along the axis of the batch that must know its length")
    return size


def _distances(a, b, p, mode=None):
    """aten::_cdist_forward: the p-norms of differences of rows. Those of equal rows have the gradient 0."""
    apart = op.Abs(op.Sub(op.Unsqueeze(a, [-2]), op.Unsqueeze(b, [-3])))
    if p == 1:
        return op.ReduceSum(apart, [-1], keepdims=0)
    if p == math.inf:
        return op.ReduceMax(apart, [-1], keepdims=0)
    if p == 0:
        return op.ReduceSum(op.Cast(op.Greater(apart, 0.0), to=ir.DataType.FLOAT), [-1], keepdims=0)
    total = op.ReduceSum(op.Mul(apart, apart) if p == 2 else op.Pow(apart, p), [-1], keepdims=0)
    differ = op.Greater(total, 0.0)
    safe = op.Where(differ, total, 1.0)
    return op.Where(differ, op.Sqrt(safe) if p == 2 else op.Pow(safe, 1 / p), 0.0)


def _mean_of_windows(
    pool, rank, x, size, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """aten::avg_pool; the exporter's own form has no divisor."""
    if divisor_override is None:
        return pool(x, size, stride, padding, ceil_mode, count_include_pad)
    if ceil_mode:
        raise NotImplementedError("avg_pool with divisor_override and ceil_mode")
    window = math.prod(size) if len(size) == rank else size[0] ** rank
    return op.Mul(pool(x, size, stride, padding, False, True), window / divisor_override)


def _triangle(x, dim):
    """The axis; x with a copy of it before it; and which numbers of the copy each number of the axis has before it."""
    axis, size = dim % len(x.shape), _length(x.shape[dim])
    sides = [size, size, *[1] * (len(x.shape) - axis - 1)]
    return axis, op.Unsqueeze(x, [axis]), op.Constant(value=ir.tensor(np.tri(size, dtype=bool).reshape(sides)))


def _cumulated_product(x, dim, dtype=None):
    """aten::cumprod, by products over a triangle, which are right for zeros as well."""
    axis, copies, before = _triangle(x, dim)
    return op.ReduceProd(op.Where(before, copies, 1.0), [axis + 1], keepdims=0)


def _running(reduce, argument, x, dim, other):
    """aten::cummax and aten::cummin: values, and the places of the last of equal ones."""
    axis, copies, before = _triangle(x, dim)
    seen = op.Where(before, copies, other)
    return reduce(seen, [axis + 1], keepdims=0), argument(seen, axis=axis + 1, keepdims=0, select_last_index=1)


def _numbers(a, b):
    """Two numbers, each in the place of the other if that is NaN: a discarded NaN would still be in gradients."""
    return op.Where(op.IsNaN(a), b, a), op.Where(op.IsNaN(b), a, b)


def _median(x, size, dim, keepdim):
    return _ranked(x, (size - 1) // 2, dim, keepdim)


def _ranked(x, place, dim, keepdim):
    """The value of a place in ascending order along an axis, and its index."""
    axis = dim % max(1, len(x.shape or (0,)))
    sorted_ = op.TopK(x, [place + 1], axis=axis, largest=0)
    chosen = [op.Slice(each, [place], [place + 1], [axis]) for each in sorted_]
    return tuple(chosen if keepdim else (op.Squeeze(each, [axis]) for each in chosen))


NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}
REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _scattered(x, dim, index, source, reduce, include_self=True):
    """aten::scatter_reduce; the exporter's own form takes a mean for an assignment (torch 2.13). A place that nothing
    goes to keeps its number."""
    if x.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        raise NotImplementedError("scatter_reduce of integers")
    axis = dim % max(1, len(x.shape))
    if list(source.shape) != list(index.shape):
        source = op.Slice(source, [0] * len(index.shape), op.Shape(index), list(range(len(index.shape))))
    nothing, ones = op.Mul(x, 0.0), op.Add(op.Mul(source, 0.0), 1.0)
    count = op.ScatterElements(nothing, index, ones, axis=axis, reduction="add")
    reached = op.Greater(count, 0.0)
    start = x if include_self else op.Where(reached, NEUTRAL[reduce], x)
    result = op.ScatterElements(start, index, source, axis=axis, reduction=REDUCTIONS[reduce])
    if reduce != "mean":
        return result
    return op.Div(result, op.Add(count, 1.0) if include_self else op.Where(reached, count, 1.0))


def _places(sequence, x, out_int32=False, right=False, side=None, sorter=None):
    """aten::searchsorted: how many numbers of a sorted sequence come before each number of x."""
    if sorter is not None:
        raise NotImplementedError("searchsorted with a sorter")
    compare = op.LessOrEqual if right or side == "right" else op.Less
    row = sequence if len(sequence.shape) == 1 else op.Unsqueeze(sequence, [-2])
    before = compare(row, op.Unsqueeze(x, [-1]))
    kind = ir.DataType.INT32 if out_int32 else ir.DataType.INT64
    return op.ReduceSum(op.Cast(before, to=kind), [-1], keepdims=0)


def _is_negative(x):
    """prims::signbit: of -0 as well."""
    return op.Less(op.Where(op.Equal(x, 0.0), op.Reciprocal(x), x), 0.0)


def _bags(weight, indices, offsets, scale=False, mode=0, sparse=False, factors=None, include_last=False, padding=None):
    """aten::_embedding_bag: sum, mean or maximum of rows of a table, of which a bag has those from its offset to the
    next one; the exporter's own form is a loop without gradient, and forgets the padding."""
    count = op.Shape(indices)
    ends = op.Concat(op.Slice(offsets, [1], [_END], [0]), count, axis=0)
    if include_last:
        offsets, ends = (op.Slice(each, [0], [-1], [0]) for each in (offsets, ends))
    places = op.Range(0, op.Squeeze(count, [0]), 1)
    low, high = (op.Unsqueeze(op.Cast(each, to=ir.DataType.INT64), [1]) for each in (offsets, ends))
    member = op.And(op.GreaterOrEqual(places, low), op.Less(places, high))
    if padding is not None and padding >= 0:
        member = op.And(member, op.Not(op.Equal(indices, op.CastLike(padding, indices))))
    rows, ones = op.Gather(weight, indices), op.CastLike(member, weight)
    sizes = op.ReduceSum(ones, [1], keepdims=1)
    if mode == 2:
        largest = op.ReduceMax(op.Where(op.Unsqueeze(member, [2]), rows, -math.inf), [1], keepdims=0)
        result = op.Where(op.Greater(sizes, 0.0), largest, 0.0)
    else:
        result = op.MatMul(ones, rows if factors is None else op.Mul(rows, op.Unsqueeze(factors, [1])))
        result = op.Div(result, op.Max(sizes, 1.0)) if mode == 1 else result
    return result, op.Identity(offsets), op.Identity(offsets), op.Identity(offsets)  # aten has four results


def _of_rank(x, rank):
    """aten::atleast_1d and its like: the exporter's own form is a loop over a sequence."""
    has = len(x.shape)
    axes = {0: range(rank), 1: {1: (), 2: (0,), 3: (0, 2)}[rank], 2: () if rank < 3 else (2,)}.get(has, ())
    return op.Unsqueeze(x, [*axes]) if len(axes) else op.Identity(x)


def _diagonal(x, offset=0, dim1=0, dim2=1):
    """aten::diagonal, by its places; the exporter's own form is a sum of products, NaN where any number is infinite."""
    rank = len(x.shape)
    axes = [dim1 % rank, dim2 % rank]
    first, second = max(-offset, 0), max(offset, 0)
    others = [axis for axis in range(rank) if axis not in axes]
    flat = op.Reshape(op.Transpose(x, perm=[*others, *axes]), [*[0] * len(others), -1])
    rows, columns = (x.shape[axis] for axis in axes)
    if isinstance(rows, int) and isinstance(columns, int):
        count = max(min(rows - first, columns - second), 0)
        known = np.arange(count, dtype=np.int64) * (columns + 1) + first * columns + second
        places = op.Constant(value=ir.tensor(known))
    else:  # similarities of all samples with all samples
        rows, columns = (op.Gather(op.Shape(x), axis) for axis in axes)
        count = op.Max(op.Min(op.Sub(rows, first), op.Sub(columns, second)), 0)
        start = op.Add(op.Mul(columns, first), second)
        places = op.Add(op.Mul(op.Range(0, count, 1), op.Add(columns, 1)), start)
    return op.Gather(flat, places, axis=len(others))


def _selected(x, mask):
    """aten::masked_select; both broadcast."""
    shape = op.Shape(op.Or(op.Equal(x, x), mask))
    return op.GatherND(op.Expand(x, shape), op.Transpose(op.NonZero(op.Expand(mask, shape)), perm=[1, 0]))


def _rectified(x, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    """aten::rrelu in evaluation.

    Raises:
        NotImplementedError: in training it draws a slope for each number.
    """
    if training:
        raise NotImplementedError("rrelu in training draws its slopes: other numbers at every call")
    return op.LeakyRelu(x, alpha=(lower + upper) / 2), op.Identity(noise)


def _sorted(x, dim, descending):
    """aten::sort, stable: of equal numbers TopK takes the first one first."""
    axis = dim % max(1, len(x.shape or (0,)))
    values, places = op.TopK(x, op.Gather(op.Shape(x), [axis]), axis=axis, largest=int(descending))
    return values, places
