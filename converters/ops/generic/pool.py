"""Pooling in every form; frameworks use their own kernels for the ordinary ones.

Here a pooling window is a row of indices into the padded image, made in NumPy, and pooling is a lookup and a reduction.
"""

import math

import numpy as np

from xbench.converters.ops import geometry


def GlobalAveragePool(xp, x):
    return xp.mean(x, tuple(range(2, len(xp.shape(x)))), keepdims=True)


def GlobalMaxPool(xp, x):
    return xp.max(x, tuple(range(2, len(xp.shape(x)))), keepdims=True)


def GlobalLpPool(xp, x, *, p=2):
    return _root(xp, xp.sum(_raised(xp, x, p), tuple(range(2, len(xp.shape(x)))), keepdims=True), p)


def _raised(xp, x, p):
    return x * x if p == 2 else xp.abs(x) if p == 1 else xp.power(xp.abs(x), p)


def _root(xp, x, p):
    return x if p == 1 else xp.sqrt(x) if p == 2 else xp.power(x, 1 / p)


def _positions(lengths, kernel, strides, dilations):
    """Positions of each window's elements, (rank, windows, elements), and the number of windows per axis."""
    rank = len(kernel)
    out = tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(lengths, kernel, strides, dilations, strict=True))
    starts = np.indices(out).reshape(rank, -1, 1) * np.reshape(strides, (rank, 1, 1))
    return starts + np.indices(kernel).reshape(rank, 1, -1) * np.reshape(dilations, (rank, 1, 1)), out


def _windows(xp, x, kernel, strides, dilations, padding, fill):
    """x (N, C, *spatial) as windows (N, C, *out, elements), and the positions of those in the padded image."""
    x = xp.pad(x, [(0, 0), (0, 0), *padding], fill) if np.any(padding) else x
    n, channels, *spatial = xp.shape(x)
    positions, out = _positions(spatial, kernel, strides, dilations)
    index = np.ravel_multi_index(tuple(positions), spatial)
    flat = xp.take(xp.reshape(x, (n, channels, -1)), index.reshape(-1), 2)
    return xp.reshape(flat, (n, channels, *out, -1)), positions


def MaxPool(
    xp,
    x,
    *,
    kernel_shape,
    auto_pad="NOTSET",
    ceil_mode=0,
    dilations=None,
    pads=None,
    storage_order=0,
    strides=None,
    outputs=1,
):
    """The maximum of every window and, with two outputs, its index in all of x; the first of equal ones."""
    spatial = xp.shape(x)[2:]
    strides, dilations, _, padding = geometry.window(
        spatial, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    kind = xp.type_of(x)
    least = -np.inf if "float" in kind else np.iinfo(kind).min
    windows, positions = _windows(xp, x, kernel_shape, strides, dilations, padding, least)
    best = xp.argmax(windows, -1)
    y = xp.squeeze(xp.take_along_axis(windows, xp.expand_dims(best, (-1,)), -1), (-1,))
    return y if outputs == 1 else (y, _origins(xp, best, positions, spatial, padding, storage_order))


def _origins(xp, best, positions, spatial, padding, storage_order):
    """Indices into x flattened of the elements `best` (N, C, *out) of each window."""
    shape, rank = xp.shape(best), len(spatial)
    own = [(p - low).clip(0, n - 1) for p, (low, _), n in zip(positions, padding, spatial, strict=True)]
    table = np.ravel_multi_index(tuple(own), spatial, order="F" if storage_order else "C")
    best = xp.astype(best, "int64")
    first = np.arange(table.shape[0]).reshape(1, 1, *shape[2:]) * table.shape[1]
    images = np.arange(shape[0] * shape[1]).reshape(*shape[:2], *(1,) * rank) * math.prod(spatial)
    flat = xp.take(xp.asarray(table.reshape(-1), best), xp.reshape(xp.add(best, first), (-1,)))
    return xp.add(xp.reshape(flat, shape), images)


def AveragePool(
    xp,
    x,
    *,
    kernel_shape,
    auto_pad="NOTSET",
    ceil_mode=0,
    count_include_pad=0,
    dilations=None,
    pads=None,
    strides=None,
):
    spatial = xp.shape(x)[2:]
    strides, dilations, given, padding = geometry.window(
        spatial, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    counted = given if count_include_pad else [(0, 0)] * len(kernel_shape)
    counts = geometry.window_counts(spatial, kernel_shape, strides, dilations, padding, counted)
    windows, _ = _windows(xp, x, kernel_shape, strides, dilations, padding, 0)
    return xp.sum(windows, -1) / xp.asarray(counts, x)


def LpPool(xp, x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, dilations=None, p=2, pads=None, strides=None):
    """The p-norm of every window; padding counts as zeros."""
    strides, dilations, _, padding = geometry.window(
        xp.shape(x)[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    windows, _ = _windows(xp, _raised(xp, x, p), kernel_shape, strides, dilations, padding, 0)
    return _root(xp, xp.sum(windows, -1), p)


def MaxUnpool(xp, x, indices, output_shape=None, *, kernel_shape, pads=None, strides=None):
    """Puts x at MaxPool's indices, zeros elsewhere.

    The indices are into the shape that inverts the pooling; `output_shape` extends it with zeros at the ends.
    """
    rank = len(kernel_shape)
    strides, pads = strides or (1,) * rank, pads or (0,) * 2 * rank
    shape = (*xp.shape(x)[:2],) + tuple(
        (n - 1) * s + k - low - high
        for n, s, k, low, high in zip(xp.shape(x)[2:], strides, kernel_shape, pads[:rank], pads[rank:], strict=True)
    )
    zeros = xp.asarray(np.zeros(math.prod(shape)), x)
    y = xp.reshape(xp.scatter(zeros, xp.reshape(indices, (-1,)), xp.reshape(x, (-1,))), shape)
    if output_shape is None:
        return y
    return xp.pad(y, [(0, int(n) - own) for n, own in zip(output_shape, shape, strict=True)])


def Col2Im(xp, x, image_shape, block_shape, *, dilations=None, pads=None, strides=None):
    """Adds the columns x (N, C * elements, blocks) up into images (N, C, *image_shape): the transpose of unfolding.

    Every pixel looks up the elements that land on it; there are at most as many as in a block.
    """
    image, block = [int(n) for n in image_shape], [int(n) for n in block_shape]
    rank, elements = len(image), math.prod(block)
    padding = geometry.conv_pads(image, block, strides or (1,) * rank, dilations or (1,) * rank, pads)
    wide = [n + low + high for n, (low, high) in zip(image, padding, strict=True)]
    positions, _ = _positions(wide, block, strides or (1,) * rank, dilations or (1,) * rank)
    target = np.ravel_multi_index(tuple(positions), wide).T.reshape(-1)  # of the elements of x, blocks fastest
    order = np.argsort(target, kind="stable")
    slots = np.empty_like(order)
    slots[order] = np.arange(len(order)) - np.searchsorted(target[order], target[order])
    sources = np.full((math.prod(wide), slots.max(initial=0) + 1), len(target))  # the one after the last is a zero
    sources[target, slots] = np.arange(len(target))
    kept = tuple(slice(low, low + n) for n, (low, _) in zip(image, padding, strict=True))
    sources = sources.reshape(*wide, -1)[kept]
    n, channels = xp.shape(x)[0], xp.shape(x)[1] // elements
    flat = xp.pad(xp.reshape(x, (n, channels, -1)), [(0, 0), (0, 0), (0, 1)])
    return xp.sum(xp.reshape(xp.take(flat, sources.reshape(-1), 2), (n, channels, *sources.shape)), -1)
