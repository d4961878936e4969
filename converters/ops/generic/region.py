"""Regions of interest: pooling over boxes of an image, and which of many boxes to keep."""

import itertools

import numpy as np

from xbench.converters.ops.generic.sample import column, linear_taps, pixels


def _sides(xp, boxes, axis):
    """Start and end, (R, 1), of boxes (R, 4) = x1, y1, x2, y2 along the height (axis 0) or the width (axis 1)."""
    rows = xp.reshape(boxes, (1, -1, 4))
    return tuple(xp.reshape(column(xp, rows, which), (-1, 1)) for which in (1 - axis, 3 - axis))


def RoiAlign(
    xp,
    x,
    rois,
    batch_indices,
    *,
    coordinate_transformation_mode="half_pixel",
    mode="avg",
    output_height=1,
    output_width=1,
    sampling_ratio=0,
    spatial_scale=1.0,
):
    """Mean or maximum of samples in each bin of boxes rois (R, 4) = x1, y1, x2, y2 of images x (N, C, H, W).

    Returns (R, C, output_height, output_width). With sampling_ratio 0 the number of samples depends on the values of
    `rois`, so they must be known. ONNX's maximum is that of the weighted pixels, not of their sums.
    """
    half, known = coordinate_transformation_mode == "half_pixel", None if sampling_ratio else xp.concrete(rois)
    boxes = xp.asarray(rois, x) * spatial_scale - (0.5 if half else 0.0)
    axes, counts, useds = [], [], []
    for axis, bins in enumerate((output_height, output_width)):
        start, end = _sides(xp, boxes, axis)
        size = (end - start if half else xp.maximum(end - start, 1.0)) / bins
        count = np.full(xp.shape(size), sampling_ratio)
        if known is not None:
            width = (known[:, 3 - axis] - known[:, 1 - axis])[:, None] * spatial_scale
            count = np.ceil((width if half else width.clip(1)) / bins).astype(int).clip(0)
        taps, used = _samples(xp, start, size, bins, count, xp.shape(x)[2 + axis])
        broadcast = (2,) if axis == 0 else (1,)
        axes.append([tuple(xp.expand_dims(part, broadcast) for part in tap) for tap in taps])
        counts.append(count)
        useds.append(np.expand_dims(used, broadcast))
    images = xp.reshape(xp.astype(batch_indices, "int64"), (-1, 1, 1))
    parts = []
    for (row, height), (place, width) in itertools.product(*axes):
        corner = pixels(xp, x, images, [xp.astype(row, "int64"), xp.astype(place, "int64")])
        parts.append(corner * xp.expand_dims(height * width, (3,)))
    bins = (len(counts[0]), output_height, -1, output_width, useds[1].shape[2] // output_width, xp.shape(x)[1])
    total, used = (counts[0] * counts[1]).reshape(-1, 1, 1, 1), (useds[0] & useds[1])[..., None]
    if mode == "avg":
        values = xp.reshape(parts[0] + parts[1] + parts[2] + parts[3], bins)
        y = xp.sum(values, (2, 4)) / xp.asarray(np.maximum(total, 1), x)
    else:
        values = xp.maximum(xp.maximum(parts[0], parts[1]), xp.maximum(parts[2], parts[3]))
        values = values if used.all() else xp.where(used, values, xp.asarray(-np.inf, values))
        y = xp.max(xp.reshape(values, bins), (2, 4))
        y = y if total.all() else xp.where(total > 0, y, xp.asarray(0.0, y))
    return xp.transpose(y, (0, 3, 1, 2))


def _samples(xp, start, size, bins, count, length):
    """The samples of every bin along an axis: neighbours and weights (R, bins * most), and which are in use.

    start, size: of the first bin of each region, (R, 1); count: the samples in a bin of each region, (R, 1).
    """
    index = np.arange(max(count.max(initial=0), 1))
    used = np.broadcast_to(index < count[:, :, None], (len(count), bins, len(index))).reshape(len(count), -1)
    at = np.arange(bins)[:, None] + (index + 0.5) / np.maximum(count, 1)[:, :, None]
    at = start + size * xp.asarray(at.reshape(len(count), -1), size)
    inside = xp.logical_and(xp.logical_and(xp.greater_equal(at, -1), xp.less_equal(at, length)), used)
    taps = linear_taps(xp, xp.minimum(xp.maximum(at, 0), length - 1))
    return [(xp.minimum(tap, length - 1), xp.where(inside, weight, 0)) for tap, weight in taps], used


def MaxRoiPool(xp, x, rois, *, pooled_shape, spatial_scale=1.0):
    """Maximum of each bin of boxes rois (R, 5) = image, x1, y1, x2, y2, in whole pixels of x (N, C, H, W).

    Returns (R, C, *pooled_shape); a bin without a pixel gives 0.
    """
    image, boxes = xp.split(xp.asarray(rois, x), [1, 4], 1)
    boxes = xp.floor(boxes * spatial_scale + 0.5)
    y = xp.take(x, xp.reshape(xp.astype(image, "int64"), (-1,)), 0)
    nothing = xp.asarray(-np.inf, y)
    for axis, bins in enumerate(pooled_shape):
        start, end = _sides(xp, boxes, axis)
        size = xp.maximum(end - start + 1, 1.0) / bins
        pixel = xp.asarray(np.arange(xp.shape(x)[2 + axis]).reshape(1, -1), size)
        parts = []
        for place in range(bins):
            low, high = start + xp.floor(size * place), start + xp.ceil(size * (place + 1))
            member = xp.logical_and(xp.greater_equal(pixel, low), xp.less(pixel, high))
            member = xp.expand_dims(member, (1, 3) if axis == 0 else (1, 2))
            parts.append(xp.max(xp.where(member, y, nothing), 2 + axis, keepdims=True))
        y = xp.concatenate(parts, 2 + axis)
    return xp.where(xp.equal(y, nothing), xp.asarray(0.0, y), y)


def NonMaxSuppression(
    xp, boxes, scores, max_output_boxes_per_class=None, iou_threshold=None, score_threshold=None, *, center_point_box=0
):
    """Which boxes (N, P, 4) with scores (N, classes, P) to keep: rows of image, class, box, (kept, 3).

    Its shape depends on the values, so they must be known.
    """
    boxes, scores = xp.concrete(boxes), xp.concrete(scores)
    if center_point_box:
        corners = np.concatenate([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], -1)
    else:  # any two opposite corners
        first, second = boxes[..., :2], boxes[..., 2:]
        corners = np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)
    most, limit, least = (
        otherwise if given is None or not np.size(given) else np.asarray(given).reshape(-1)[0]
        for given, otherwise in (
            (max_output_boxes_per_class, 0),
            (iou_threshold, np.float32(0)),
            (score_threshold, -np.inf),
        )
    )
    kept = [
        (image, label, box)
        for image, rows in enumerate(scores)
        for label, row in enumerate(rows)
        for box in _suppressed(corners[image], row, int(most), limit, least)
    ]
    return np.array(kept, np.int64).reshape(-1, 3)


def _suppressed(corners, scores, most, limit, least):
    """The boxes of one class that are kept, best first: none overlaps a better one by more than the limit."""
    area = np.prod(corners[:, 2:] - corners[:, :2], 1)
    order = np.argsort(-scores, kind="stable")
    order, kept = order[scores[order] > least], []
    while len(order) and len(kept) < most:
        best, order = order[0], order[1:]
        kept.append(best)
        low, high = np.maximum(corners[best, :2], corners[order, :2]), np.minimum(corners[best, 2:], corners[order, 2:])
        shared = np.prod(np.maximum(high - low, 0), 1)
        union = area[best] + area[order] - shared
        order = order[~((shared > 0) & (shared / np.where(union > 0, union, 1) > limit))]
    return kept
