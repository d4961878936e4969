"""Gradients of poolings: to the place of the maximum, or a share to every place of a window."""

import math
from typing import NamedTuple

import numpy as np

from xbench.converters.autodiff.gradient.ops import dims, rank
from xbench.converters.autodiff.gradient.places import Parts
from xbench.converters.codegen.printer import constant
from xbench.converters.ops import geometry


class _Window(NamedTuple):
    """How a pooling moves over its image, axis by axis; `rest` is the part of a padded axis that no window reaches."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    given: list[tuple[int, int]]
    padding: list[tuple[int, int]]
    rest: list[int]

    @property
    def pads(self):
        return [low for low, _ in self.padding] + [high for _, high in self.padding]


def _window(node):
    x, get = node.inputs[0], node.attributes.get_ints
    space, out, kernel = dims(x)[2:], dims(node.outputs[0])[2:], [int(n) for n in get("kernel_shape")]
    if None in space:
        raise NotImplementedError(f"the gradient of {node.op_type} of an image whose size is not known")
    auto, ceil = node.attributes.get_string("auto_pad", "NOTSET"), node.attributes.get_int("ceil_mode", 0)
    window = geometry.window(space, kernel, get("strides", None), get("dilations", None), get("pads", None), auto, ceil)
    strides, dilations = ([int(n) for n in each] for each in window[:2])
    given, padding = ([(int(low), int(high)) for low, high in each] for each in window[2:])
    sizes = zip(space, padding, out, strides, dilations, kernel, strict=True)
    rest = [n + low + high - ((count - 1) * s + d * (k - 1) + 1) for n, (low, high), count, s, d, k in sizes]
    return _Window(kernel, strides, dilations, given, padding, rest)


def MaxPool(op, node, dy, *_):
    """To the first of the largest elements of a window, as in PyTorch; windows that overlap add up.

    Each place of the window that has the maximum takes the gradient that earlier ones left. MaxPool's own second
    output would give the place, but runtimes lack it or run it slowly: OpenVINO takes thirty times as long.
    """
    x, y, window = node.inputs[0], node.outputs[0], _window(node)
    n = rank(x) - 2
    ends = [0, 0]
    image = op.Pad(x, [*ends, *window.pads[:n], *ends, *window.pads[n:]], -math.inf) if any(window.pads) else x
    sizes = [size + low + high for size, (low, high) in zip(dims(x)[2:], window.padding, strict=True)]
    taken, left, parts = {}, dy, Parts(op, image, 2, sizes, window.strides)
    for place in np.ndindex(*window.kernel):
        starts = [i * d for i, d in zip(place, window.dilations, strict=True)]
        met = parts.met(starts, dims(y)[2:])
        taken[tuple(starts)] = op.Mul(left, op.Cast(op.Equal(met, y), to=op.floating))
        left = op.Sub(left, taken[tuple(starts)])
    return [_put_back(op, taken, x, dims(y)[2:], window)]


def _put_back(op, parts, x, out, window):
    """Assembles an image from parts, each of which belongs to every `strides`-th place from its own on.

    Parts whose places differ by multiples of the strides are added up, each moved by its strides; the sums are
    `strides` apart, and are interleaved.
    """
    n, strides = len(out), window.strides
    shifts = {start: [i // s for i, s in zip(start, strides, strict=True)] for start in parts}
    more = [max(shift[axis] for shift in shifts.values()) for axis in range(n)]
    sums = {}
    for start, part in parts.items():
        low = shifts[start]
        pads = [0, 0, *low, 0, 0, *(m - i for m, i in zip(more, low, strict=True))]
        moved = op.Pad(part, pads, 0.0) if any(pads) else part
        phase = tuple(i % s for i, s in zip(start, strides, strict=True))
        sums[phase] = op.Add(sums[phase], moved) if phase in sums else moved
    coarse = [count + m for count, m in zip(out, more, strict=True)]
    zero = None if len(sums) == math.prod(strides) else op.Mul(next(iter(sums.values())), 0.0)
    stacked = op.Concat(*(sums.get(phase, zero) for phase in np.ndindex(*strides)), axis=1)
    sizes = [count * s for count, s in zip(coarse, strides, strict=True)]
    if strides == [strides[0]] * 2:
        image = op.DepthToSpace(stacked, blocksize=strides[0])
    else:
        apart = op.reshape(stacked, [None, *strides, dims(x)[1], *coarse])
        woven = [axis for i in range(n) for axis in (n + 2 + i, 1 + i)]
        image = op.reshape(op.Transpose(apart, perm=[0, n + 1, *woven]), [None, dims(x)[1], *sizes])
    lows = [low for low, _ in window.padding]
    ends = [low + size for low, size in zip(lows, dims(x)[2:], strict=True)]
    return _cut(op, image, lows, ends, sizes)


def _cut(op, image, lows, ends, sizes):
    """The part of an image between two corners; zero beyond its end."""
    beyond = [max(0, end - size) for end, size in zip(ends, sizes, strict=True)]
    if any(beyond):
        image = op.Pad(image, [0, 0, *[0] * len(lows), 0, 0, *beyond], 0.0)
    if not any(lows) and ends == [size + more for size, more in zip(sizes, beyond, strict=True)]:
        return image
    return op.Slice(image, lows, ends, list(range(2, 2 + len(lows))))


def AveragePool(op, node, dy):
    """A transposed convolution with ones."""
    x, window = node.inputs[0], _window(node)
    channels, *space = dims(x)[1:]
    counted = window.given if node.attributes.get_int("count_include_pad", 0) else [(0, 0)] * len(space)
    counts = geometry.window_counts(space, window.kernel, window.strides, window.dilations, window.padding, counted)
    return [_to_windows(op, op.Div(dy, np.asarray(counts, op.floating.numpy())), channels, window)]


def _to_windows(op, share, channels, window):
    """Gives every element of a window its share, and adds up where windows overlap."""
    ones = np.ones((channels, 1, *window.kernel), op.floating.numpy())
    extra = {"output_padding": window.rest} if any(window.rest) else {}
    where = {"strides": window.strides, "dilations": window.dilations, "pads": window.pads}
    return op.ConvTranspose(share, ones, group=channels, **where, **extra)


def LpPool(op, node, dy):
    x, p = node.inputs[0], node.attributes.get_int("p", 2)
    shares = _to_windows(op, _over_norm(op, dy, node.outputs[0], p), dims(x)[1], _window(node))
    return [op.Mul(_to_power(op, x, p), shares)]


def GlobalLpPool(op, node, dy):
    x, p = node.inputs[0], node.attributes.get_int("p", 2)
    return [op.Mul(_to_power(op, x, p), _over_norm(op, dy, node.outputs[0], p))]


def _over_norm(op, dy, norm, p):
    """dy / norm^(p - 1); dy itself where the norm is zero."""
    if p == 1:
        return dy
    safe = op.Where(op.Greater(norm, 0.0), norm, 1.0)
    return op.Div(dy, safe if p == 2 else op.Pow(safe, float(p - 1)))


def _to_power(op, x, p):
    """sign(x) |x|^(p - 1), the slope of |x|^p / p."""
    if p < 3:
        return op.Sign(x) if p == 1 else x
    return op.Mul(op.Sign(x), op.Pow(op.Abs(x), float(p - 1)))


def Col2Im(op, node, dy):
    """Every block reads what was added to its places: unfolding, one slice for each element of a block."""
    x, image, block = node.inputs[0], *(constant(value) for value in node.inputs[1:])
    if image is None or block is None:
        raise NotImplementedError("the gradient of Col2Im whose image or block is computed")
    n, get = len(block), node.attributes.get_ints
    strides, dilations = (list(get(name, [1] * n)) for name in ("strides", "dilations"))
    padding = geometry.conv_pads(image, block, strides, dilations, get("pads", None))
    lows, highs = ([int(each[side]) for each in padding] for side in (0, 1))
    spans = [int(size) + low + high for size, low, high in zip(image, lows, highs, strict=True)]
    reach = [span - d * (int(k) - 1) for span, d, k in zip(spans, dilations, block, strict=True)]
    wide = op.Pad(dy, [0, 0, *lows, 0, 0, *highs], 0.0) if any(lows + highs) else dy
    met = []
    for place in np.ndindex(*map(int, block)):
        starts = [i * d for i, d in zip(place, dilations, strict=True)]
        ends = [start + size for start, size in zip(starts, reach, strict=True)]
        met.append(op.Unsqueeze(op.Slice(wide, starts, ends, list(range(2, n + 2)), strides), [2]))
    return [op.reshape_like(met[0] if len(met) == 1 else op.Concat(*met, axis=2), x)]


def GlobalAveragePool(op, node, dy):
    (x,) = node.inputs
    return [op.expand_like(op.Div(dy, op.count(x, list(range(2, rank(x))))), x)]


def GlobalMaxPool(op, node, dy):
    """As PyTorch's amax: if several elements are the largest, each has an equal share."""
    (x,), axes = node.inputs, list(range(2, rank(node.inputs[0])))
    chosen = op.Cast(op.Equal(x, node.outputs[0]), to=op.floating)
    return [op.Mul(chosen, op.Div(dy, op.ReduceSum(chosen, axes)))]
