"""The gradient of GridSample: every point returns its gradient to its neighbours by their weights; that of the grid is
the slope of the weights times what they met."""

import functools
import itertools
import math

import onnx_ir as ir

from xbench.converters.autodiff.gradient.ops import dims


def GridSample(op, node, dy):
    x, grid = node.inputs
    channels, *spatial = dims(x)[1:]
    out = dims(grid)[1:-1]
    if None in (channels, *spatial, *out):
        raise NotImplementedError("the gradient of GridSample of an image or at points whose number is not known")
    places, taps = math.prod(out), _taps(op, node, grid, spatial, math.prod(out))
    g, rows = op.reshape(dy, [None, channels, places]), op.reshape(x, [None, channels, math.prod(spatial)])
    indices, shares, slopes = [], [], [[] for _ in spatial]
    for corner in itertools.product(*taps):
        flat = functools.reduce(op.Add, (op.Mul(i, s) for (i, _, _), s in zip(corner, _strides(spatial), strict=True)))
        indices.append(op.Expand(op.Unsqueeze(flat, [1]), [1, channels, 1]))
        weights = [weight for _, weight, _ in corner]
        shares.append(op.Mul(g, op.Unsqueeze(_product(op, weights), [1])))
        met = op.ReduceSum(op.Mul(g, op.GatherElements(rows, indices[-1], axis=2)), [1], keepdims=0)
        for axis, (_, _, slope) in enumerate(corner):
            if slope is not None:
                slopes[axis].append(_product(op, [met, slope, *weights[:axis], *weights[axis + 1 :]]))
    zeros = op.reshape(op.zeros_like(x), [None, channels, math.prod(spatial)])
    joined = (op.Concat(*parts, axis=2) if len(parts) > 1 else parts[0] for parts in (indices, shares))
    dx = op.reshape_like(op.ScatterElements(zeros, *joined, axis=2, reduction="add"), x)
    return [dx, _of_grid(op, node, grid, slopes, spatial)]


def _of_grid(op, node, grid, slopes, spatial):
    """The gradient of the points, whose last axis counts from the innermost axis of the image."""
    if not slopes[0]:
        return None
    columns = []
    for parts, length in zip(slopes, spatial, strict=True):
        pixels = (length - 1 if node.attributes.get_int("align_corners", 0) else length) / 2
        columns.append(op.Unsqueeze(op.Mul(functools.reduce(op.Add, parts), pixels), [2]))
    return op.reshape_like(op.Concat(*columns[::-1], axis=2) if len(columns) > 1 else columns[0], grid)


def _strides(spatial):
    return [math.prod(spatial[axis + 1 :]) for axis in range(len(spatial))]


def _product(op, factors):
    return functools.reduce(op.Mul, factors)


def _taps(op, node, grid, spatial, places):
    """For every axis the neighbours of all points: their index, weight and its slope (None: flat), each (N, places)."""
    mode, padding = (node.attributes.get_string(n, d) for n, d in (("mode", "linear"), ("padding_mode", "zeros")))
    corners, last, taps = node.attributes.get_int("align_corners", 0), len(spatial) + 1, []
    for axis, length in enumerate(spatial):
        column = len(spatial) - 1 - axis
        at = op.reshape(op.Slice(grid, [column], [column + 1], [last]), [None, places])
        pixels = (length - 1 if corners else length) / 2
        p = op.Add(op.Mul(at, pixels), (length - 1) / 2)
        taps.append([_inside(op, *tap, length, padding, corners) for tap in _MODES[mode](op, p)])
    return taps


def _linear(op, p):
    low = op.Floor(p)
    f = op.Sub(p, low)
    return [(low, op.Sub(1.0, f), op.value(-1.0)), (op.Add(low, 1.0), f, op.value(1.0))]


def _nearest(op, p):
    return [(op.Round(p), op.Add(op.Mul(p, 0.0), 1.0), None)]  # halves round to the even pixel


def _cubic(op, p):
    """Keys, 1981, with a = -0.75: two polynomials of the distance, and their slopes."""
    a, low = -0.75, op.Floor(p)
    f = op.Sub(p, low)
    near, far = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
    taps = [(-1.0, far, op.Add(1.0, f), 1), (0.0, near, f, 1), (1.0, near, op.Sub(1.0, f), -1)]
    taps.append((2.0, far, op.Sub(2.0, f), -1))
    neighbours = []
    for place, terms, d, sign in taps:
        slope = [sign * 3 * terms[0], sign * 2 * terms[1], sign * terms[2]]
        neighbours.append((op.Add(low, place), _polynomial(op, terms, d), _polynomial(op, slope, d)))
    return neighbours


def _polynomial(op, terms, d):
    """Horner, highest power first."""
    value = op.value(float(terms[0]))
    for term in terms[1:]:
        value = op.Add(op.Mul(value, d), float(term))
    return value


_MODES = {"linear": _linear, "bilinear": _linear, "nearest": _nearest, "cubic": _cubic, "bicubic": _cubic}


def _inside(op, index, weight, slope, length, padding, corners):
    """Maps a neighbour to an existing pixel: beyond the image is nothing, the border, or a reflection."""
    at = op.Cast(index, to=ir.DataType.INT64)
    if padding == "reflection":
        period, last = (2 * (length - 1), 0) if corners else (2 * length, 1)
        at = op.Mod(at, max(period, 1))
        at = op.Min(at, op.Sub(period - last, at))
    elif padding == "zeros":
        there = op.And(op.GreaterOrEqual(at, 0), op.Less(at, length))
        weight = op.Where(there, weight, 0.0)
        slope = None if slope is None else op.Where(there, slope, 0.0)
    return op.Min(op.Max(at, 0), length - 1), weight, slope
