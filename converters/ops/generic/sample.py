"""Reading images between their pixels: at a grid of points, and at a convolution's offsets."""

import itertools
import math

import numpy as np

from xbench.converters.ops import geometry


def pixels(xp, x, images, indices):
    """Elements of images x (N, C, *spatial) as (M, P, C); indices are images (M, 1) and one (M, P) per axis."""
    channels, *spatial = xp.shape(x)[1:]
    rows = xp.reshape(xp.transpose(x, (0, *range(2, 2 + len(spatial)), 1)), (-1, channels))
    flat = images
    for index, length in zip(indices, spatial, strict=True):
        flat = xp.add(index, xp.multiply(flat, length))
    return xp.take(rows, flat)


def column(xp, a, which):
    """The elements at a position of the last axis of (M, P, K), as (M, P)."""
    every = slice(None)
    return xp.reshape(xp.getitem(a, (every, every, slice(which, which + 1))), xp.shape(a)[:2])


def linear_taps(xp, p):
    """Neighbours of positions p, integers in p's type, and their weights."""
    low = xp.floor(p)
    return [(low, 1 - (p - low)), (low + 1, p - low)]


def _cubic_taps(xp, p):
    a, low = -0.75, xp.floor(p)

    def near(d):
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d):
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    f = p - low
    return [(low - 1, far(1 + f)), (low, near(f)), (low + 1, near(1 - f)), (low + 2, far(2 - f))]


def _nearest_taps(xp, p):
    nearest = xp.rint(p)  # halves round to the even pixel
    return [(nearest, xp.asarray(np.ones(xp.shape(p)), p))]


TAPS = {
    "nearest": _nearest_taps,
    "linear": linear_taps,
    "bilinear": linear_taps,
    "cubic": _cubic_taps,
    "bicubic": _cubic_taps,
}


def _inside(xp, index, weight, length, padding, align_corners):
    """Maps a neighbour that may be outside to an existing pixel: zero, one of the border, or a reflection."""
    if padding == "reflection":
        period, last = (2 * (length - 1), 0) if align_corners else (2 * length, 1)
        index = xp.mod(index, max(period, 1))
        index = xp.minimum(index, period - last - index)
    elif padding == "zeros":
        weight = xp.where(xp.logical_and(xp.greater_equal(index, 0), xp.less(index, length)), weight, 0)
    return xp.astype(xp.minimum(xp.maximum(index, 0), length - 1), "int64"), weight


def sampled(xp, x, positions, mode, padding, align_corners=0):
    """Images x (N, C, *spatial) at positions, one (N, P) in pixels for each axis; returns (N, P, C)."""
    spatial, images = xp.shape(x)[2:], np.arange(xp.shape(x)[0])[:, None]
    axes = [
        [_inside(xp, index, weight, length, padding, align_corners) for index, weight in TAPS[mode](xp, p)]
        for p, length in zip(positions, spatial, strict=True)
    ]
    total = 0
    for corner in itertools.product(*axes):
        weight = math.prod(weight for _, weight in corner)
        values = pixels(xp, x, images, [index for index, _ in corner])
        total = total + values * xp.expand_dims(xp.asarray(weight, values), (2,))
    return total


def GridSample(xp, x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    """x (N, C, *spatial) read at grid (N, *out, rank), whose last axis counts from the innermost axis, from -1 to 1."""
    kind = xp.type_of(x)
    x = x if "float" in kind else xp.astype(x, "float32")
    n, channels, *spatial = xp.shape(x)
    out, rank = xp.shape(grid)[1:-1], len(spatial)
    points = xp.reshape(xp.asarray(grid, x), (n, math.prod(out), rank))
    positions = []
    for axis, length in enumerate(spatial):
        at = column(xp, points, rank - 1 - axis) + 1
        positions.append(at * ((length - 1) / 2) if align_corners else (at * length - 1) * 0.5)
    y = xp.transpose(sampled(xp, x, positions, mode, padding_mode, align_corners), (0, 2, 1))
    y = xp.reshape(y, (n, channels, *out))
    return y if xp.type_of(y) == kind else xp.astype(y, kind)


def AffineGrid(xp, theta, size, *, align_corners=0):
    """The points that theta (N, r, r + 1) maps an evenly spaced grid to: (N, *spatial, r) for size (N, C, *spatial)."""
    spatial = [int(n) for n in size[2:]]
    lines = []
    for n in spatial:
        ends = 1 if align_corners else 1 - 1 / n
        lines.append(np.linspace(-ends, ends, n) if n > 1 else np.zeros(1))
    axes = np.meshgrid(*lines, indexing="ij")
    points = np.stack([*reversed(axes), np.ones(spatial)], -1).reshape(-1, len(spatial) + 1)
    y = xp.matmul(xp.asarray(points, theta), xp.transpose(theta, (0, 2, 1)))
    return xp.reshape(y, (int(size[0]), *spatial, len(spatial)))


def DeformConv(
    xp,
    x,
    w,
    offset,
    b=None,
    mask=None,
    *,
    dilations=None,
    group=1,
    kernel_shape=None,
    offset_group=1,
    pads=None,
    strides=None,
):
    """A convolution that reads x shifted by `offset`, linearly between pixels, times `mask`.

    x (N, C, *spatial), w (M, C / group, *kernel), offset (N, offset_group * K * rank, *out), mask without rank.
    """
    n, channels, *spatial = xp.shape(x)
    kernel, out, rank = xp.shape(w)[2:], xp.shape(offset)[2:], len(spatial)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    padding = geometry.conv_pads(spatial, kernel, strides, dilations, pads)
    taps, points, images = math.prod(kernel), math.prod(out), n * offset_group
    moved = xp.reshape(offset, (images, taps, rank, points))
    within, starts = np.indices(kernel).reshape(rank, taps, 1), np.indices(out).reshape(rank, 1, points)
    positions = []
    for axis in range(rank):
        at = starts[axis] * strides[axis] - padding[axis][0] + within[axis] * dilations[axis]
        every = slice(None)
        own = xp.reshape(xp.getitem(moved, (every, every, slice(axis, axis + 1), every)), (images, taps, points))
        positions.append(xp.reshape(own + xp.asarray(at, own), (images, taps * points)))
    own = channels // offset_group
    read = sampled(xp, xp.reshape(x, (images, own, *spatial)), positions, "linear", "zeros")
    if mask is not None:
        read = read * xp.reshape(mask, (images, taps * points, 1))
    read = xp.transpose(xp.reshape(read, (images, taps, points, own)), (0, 3, 1, 2))
    columns = xp.reshape(read, (n, group, channels // group * taps, points))
    weights = xp.reshape(w, (group, xp.shape(w)[0] // group, -1))
    y = xp.reshape(xp.matmul(weights, columns), (n, xp.shape(w)[0], *out))
    return y if b is None else y + xp.reshape(b, (-1, *(1,) * rank))
