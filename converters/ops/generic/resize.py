"""Resampling along axes. Resize is separable: every axis is a lookup (nearest) or a matrix product (linear, cubic)."""

import math

import numpy as np

# Coordinates are float64, except to choose one element: then float32, in which ONNX Runtime rounds.
COORDINATES = {"nearest": np.float32, "linear": np.float64, "cubic": np.float64}


def Resize(xp, x, roi=None, scales=None, sizes=None, *, mode="nearest", extrapolation_value=0.0, **attributes):
    """Resizes the axes (all of them if None) of x by `scales` or to `sizes`; `roi` is the part that is cropped."""
    shape = xp.shape(x)
    y = x if mode == "nearest" or "float" in xp.type_of(x) else xp.astype(x, "float32")
    beyond = np.zeros((), bool)
    for axis, index, matrix, outside in resampled(shape, roi, scales, sizes, mode=mode, **attributes):
        y = _weighted(xp, y, matrix, axis) if index is None else _picked(xp, y, index, axis)
        beyond = beyond | outside.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    y = xp.where(np.broadcast_to(beyond, xp.shape(y)), xp.asarray(extrapolation_value, y), y) if beyond.any() else y
    return y if xp.type_of(y) == xp.type_of(x) else _rounded(xp, y, xp.type_of(x))


def resampled(
    shape,
    roi=None,
    scales=None,
    sizes=None,
    *,
    mode="nearest",
    antialias=0,
    axes=None,
    coordinate_transformation_mode="half_pixel",
    cubic_coeff_a=-0.75,
    exclude_outside=0,
    keep_aspect_ratio_policy="stretch",
    nearest_mode="round_prefer_floor",
):
    """The axes that change: each with the index of every new element (mode nearest) or None, with the matrix (new
    length, old length) or None, and with whether the new elements are outside of their source."""
    axes = [axis % len(shape) for axis in (range(len(shape)) if axes is None else axes)]
    lengths = np.array([shape[axis] for axis in axes])
    sizes, scales = _targets(lengths, scales, sizes, keep_aspect_ratio_policy)
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    starts, ends = np.split(np.asarray(roi, np.float64), 2) if crop else (0 * lengths, 1 + 0 * lengths)
    for axis, length, size, scale, start, end in zip(axes, lengths, sizes, scales, starts, ends, strict=True):
        if scale == 1 and size == length and (start, end) == (0, 1):
            continue
        at = _coordinates(
            np.arange(size, dtype=COORDINATES[mode]), length, scale, coordinate_transformation_mode, start, end
        )
        outside = ((at < 0) | (at > length - 1)) & crop
        if mode == "nearest":
            yield axis, _nearest(at, nearest_mode).clip(0, length - 1), None, outside
        else:
            stretch = min(scale, 1.0) if antialias else 1.0
            yield axis, None, _weights(at, length, mode, cubic_coeff_a, stretch, exclude_outside), outside


def Upsample(xp, x, scales, *, mode="nearest"):
    return Resize(xp, x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def _targets(lengths, scales, sizes, policy):
    """The new length of every axis, and its ratio to the old one."""
    if sizes is None or not np.size(sizes):
        new = np.floor(np.asarray(scales, np.float32) * lengths.astype(np.float32))
        return new.astype(int).tolist(), np.asarray(scales, np.float64).tolist()
    ratios = np.asarray(sizes) / lengths
    if policy != "stretch":
        ratios = np.full_like(ratios, ratios.min() if policy == "not_larger" else ratios.max())
        sizes = np.floor(ratios * lengths + 0.5)
    return [int(n) for n in sizes], ratios.tolist()


def _coordinates(y, length, scale, mode, start, end):
    """The coordinate on the old axis of each element y of the new axis, by ONNX's coordinate_transformation_mode."""
    width = float(scale * length)  # not an integer if `scales` are given; ONNX means this one
    if mode == "align_corners":
        return y * (length - 1) / (width - 1) if width != 1 else 0 * y
    if mode == "asymmetric":
        return y / scale
    if mode == "tf_crop_and_resize":
        span = (end - start) * (length - 1)
        return start * (length - 1) + (y * span / (width - 1) if width != 1 else 0 * y + span / 2)
    if mode == "pytorch_half_pixel" and len(y) == 1:
        return 0 * y
    offset = length / 2 * (1 - len(y) / width) if mode == "half_pixel_symmetric" else 0.0
    return offset + (y + 0.5) / scale - 0.5


def _nearest(at, mode):
    rounding = {
        "round_prefer_floor": lambda: np.ceil(at - 0.5),
        "round_prefer_ceil": lambda: np.floor(at + 0.5),
        "floor": lambda: np.floor(at),
        "ceil": lambda: np.ceil(at),
    }
    return rounding[mode]().astype(np.int64)


def _picked(xp, x, index, axis):
    """The elements of x at `index` along an axis; an equal number of copies of each is a broadcast, not a lookup."""
    shape = xp.shape(x)
    if copies := copied(index, shape[axis]):
        wide = xp.broadcast_to(xp.expand_dims(x, (axis + 1,)), (*shape[: axis + 1], copies, *shape[axis + 1 :]))
        return xp.reshape(wide, (*shape[:axis], len(index), *shape[axis + 1 :]))
    return xp.take(x, index, axis)


def copied(index, length):
    """The number of copies of each element, if an index makes only such copies; else 0."""
    copies = len(index) // length
    return copies if np.array_equal(index, np.repeat(np.arange(length), copies)) else 0


def cubic_weight(distance, a):
    """Keys' cubic kernel, for NumPy arrays."""
    d = np.abs(distance)
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _weights(at, length, mode, a, stretch, exclude_outside):
    """The matrix (new length, old length) of an axis. Elements beyond the ends are those at the ends, or excluded."""
    reach = (2 if mode == "cubic" else 1) / stretch
    taps = np.floor(at - reach)[:, None] + np.arange(math.ceil(2 * reach) + 2)
    distance = (taps - at[:, None]) * stretch
    weights = cubic_weight(distance, a) if mode == "cubic" else np.maximum(1 - np.abs(distance), 0)
    if exclude_outside:
        weights = np.where((taps >= 0) & (taps < length), weights, 0)
    total = weights.sum(1, keepdims=True)
    matrix = np.zeros((len(at), length))
    where = (np.arange(len(at))[:, None], taps.clip(0, length - 1).astype(int))
    np.add.at(matrix, where, weights / np.where(total == 0, 1, total))
    return matrix


def _weighted(xp, x, matrix, axis):
    """The matrix applied to an axis of x."""
    shape = xp.shape(x)
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    if after == 1:
        y = xp.matmul(xp.reshape(x, (before, shape[axis])), xp.asarray(matrix.T, x))
    else:
        y = xp.matmul(xp.asarray(matrix, x), xp.reshape(x, (before, shape[axis], after)))
    return xp.reshape(y, (*shape[:axis], len(matrix), *shape[axis + 1 :]))


def _rounded(xp, y, kind):
    """Integers of a type, from numbers that may exceed its range."""
    limits = np.iinfo(kind)
    return xp.astype(xp.minimum(xp.maximum(xp.rint(y), limits.min), limits.max), kind)
