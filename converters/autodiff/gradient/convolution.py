"""Gradients of convolutions: a transposed convolution for the image, a convolution over the batch for the kernel."""

import math
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from xbench.converters.autodiff.gradient.ops import dims, names, rank
from xbench.converters.autodiff.gradient.places import Parts
from xbench.converters.ops import geometry

# Kernels of up to this number of places: their gradient is one matrix product, which copies the image once per place.
# A convolution with a kernel as large as the image takes ONNX Runtime three times as long if the kernel is 3 by 3;
# if it is 7 by 7 as long, and OpenVINO 2 % longer for a step of ResNet-50.
PATCHES = 49
LARGE = 256  # places from which an image is a product by itself
MARGIN = 1.5  # this multiple of a result's places may be multiplied to copy less


class _Window(NamedTuple):
    """How a convolution moves over its image; `rest` is the part of a padded axis that no window reaches."""

    strides: list[int]
    dilations: list[int]
    group: int
    pads: list[int]  # ONNX's: the lower ends of all axes, then the upper
    rest: list[int]

    @property
    def attributes(self):
        return {"strides": self.strides, "dilations": self.dilations, "group": self.group, "pads": self.pads}


def _window(strides, dilations, group, padding, image, kernel, out):
    """The window, from the spatial lengths of a convolution's image, kernel and result."""
    padding = [tuple(map(int, each)) for each in padding]
    sizes = zip(image, kernel, out, strides, dilations, padding, strict=True)
    rest = [n + low + high - ((count - 1) * s + d * (k - 1) + 1) for n, k, count, s, d, (low, high) in sizes]
    return _Window(strides, dilations, group, [low for low, _ in padding] + [high for _, high in padding], rest)


def _given(node):
    n = rank(node.inputs[0]) - 2
    strides, dilations = (list(node.attributes.get_ints(name, [1] * n)) for name in ("strides", "dilations"))
    return strides, dilations, node.attributes.get_int("group", 1)


def _space(x):
    space = dims(x)[2:]
    if None in space:
        raise NotImplementedError(f"the gradient of a convolution of {x.name}, whose size is not known")
    return space


def Conv(op, node, dy):
    x, w, bias = [*node.inputs, None][:3]
    strides, dilations, group = _given(node)
    pads, auto = node.attributes.get_ints("pads", None), node.attributes.get_string("auto_pad", "NOTSET")
    padding = geometry.conv_pads(_space(x), _space(w), strides, dilations, pads, auto)
    window = _window(strides, dilations, group, padding, _space(x), _space(w), _space(dy))
    extra = {"output_padding": window.rest} if any(window.rest) else {}
    dx = op.ConvTranspose(dy, w, **window.attributes, **extra)
    return [dx, _kernel(op, x, dy, w, window), None if bias is None else _places_sum(op, dy)]


def ConvTranspose(op, node, dy):
    """The convolution whose image gradient this operator is."""
    x, w, bias = [*node.inputs, None][:3]
    strides, dilations, group = _given(node)
    get = node.attributes.get_ints
    crops = geometry.transpose_crops(
        _space(x), _space(w), strides, dilations, get("pads", None), node.attributes.get_string("auto_pad", "NOTSET"),
        get("output_padding", None), get("output_shape", None),
    )  # fmt: skip
    reached, crops = _reached(op, dy, crops)
    window = _window(strides, dilations, group, crops, _space(reached), _space(w), _space(x))
    dx = op.Conv(reached, w, **window.attributes)
    return [dx, _kernel(op, reached, x, w, window), bias and _places_sum(op, dy)]


def _reached(op, dy, crops):
    """The part of the output of a ConvTranspose that its kernel reaches, and the crops of that: the numbers beyond it,
    which `output_padding` makes, are the bias alone."""
    if min(map(min, crops)) >= 0:
        return dy, crops
    begin = [max(-low, 0) for low, _ in crops]
    end = [size - max(-high, 0) for size, (_, high) in zip(_space(dy), crops, strict=True)]
    reached = op.Slice(dy, begin, end, [*range(2, rank(dy))])
    reached.shape = ir.Shape([*names(dy)[:2], *(high - low for low, high in zip(begin, end, strict=True))])
    return reached, [(max(low, 0), max(high, 0)) for low, high in crops]


def _places_sum(op, dy):
    return op.ReduceSum(dy, [0, *range(2, rank(dy))], keepdims=0)


def _kernel(op, image, out, w, window):
    """The kernel's gradient: products of the image and the result's gradient, summed over the batch and all places."""
    if math.prod(_space(w)) > PATCHES:
        return _of_windows(op, image, out, w, window)
    if math.prod(_space(w)) == window.group == 1 and not any(window.pads) and math.prod(_space(out)) < LARGE:
        return _of_pixels(op, image, out, w, window)
    return (_of_rows if _rows_pay(image, out, w, window) else _of_patches)(op, image, out, w, window)


def _of_pixels(op, image, out, w, window):
    """One product for a kernel of one place: the channels of both in all pixels of the batch, channels last."""
    n = rank(image) - 2
    met = Parts(op, image, 2, _space(image), window.strides).met([0] * n, _space(out))
    rows, columns = (op.Transpose(v, perm=[0, *range(2, n + 2), 1]) for v in (met, out))
    rows, columns = (op.reshape(v, [None, c]) for v, c in ((rows, dims(w)[1]), (columns, dims(w)[0])))
    return op.reshape_like(op.MatMul(op.Transpose(columns, perm=[1, 0]), rows), w)


def _padded(image, window):
    """The spatial lengths of a padded image."""
    n = rank(image) - 2
    return [size + window.pads[i] + window.pads[n + i] for i, size in enumerate(_space(image))]


def _with_pads(op, image, window):
    n = rank(image) - 2
    return op.Pad(image, [0, 0, *window.pads[:n], 0, 0, *window.pads[n:]], 0.0) if any(window.pads) else image


def _rows_pay(image, out, w, window):
    """Whether `_of_rows` applies and copies less than `_of_patches`, which copies an image twice per place."""
    if rank(image) != 4 or set(window.strides) != {1}:
        return False
    (tall, wide), channels = _space(w), dims(w)[1] * window.group
    places, padded = math.prod(_space(out)), math.prod(_padded(image, window))
    less = (wide + 1) * channels + (tall + 2) * dims(w)[0] < 2 * tall * wide * channels
    return less and places >= LARGE and wide * window.dilations[1] <= padded <= MARGIN * places


def _of_rows(op, image, out, w, window):
    """One matrix product per image for all places of the kernel, each of which is a distance: the image and the
    result's gradient are flat, in rows as long as those of the padded image.

    Place (i, j) multiplies the image moved back by j and the gradient moved on by i rows. So the image is copied
    once for each j, and the gradient once for each i: concatenated copies, cut at another length than their own,
    are moved copies. The part of a copy that reaches into its neighbour's row meets zeros.
    """
    (tall, wide), (outputs, inputs), (rows, columns) = _space(w), dims(w)[:2], _space(out)
    (height, width), (down, right), lead = _padded(image, window), window.dilations, [None, window.group]
    length = height * width + right  # of a row of either operand
    flat = op.reshape(_with_pads(op, image, window), [None, inputs * window.group, height * width])
    back = op.Concat(*[flat] * wide, op.Slice(flat, [0], [wide * right], [2]), axis=2)
    out = op.Pad(out, [0, 0, 0, 0, 0, 0, height + down - rows, width - columns], 0.0)
    flat = op.reshape(out, [None, outputs, (height + down) * width])
    gap, rest = op.Slice(flat, [rows * width], [rows * width + right], [2]), length - (tall - 1) * down * width
    on = op.Concat(*[flat, gap] * (tall - 1), op.Slice(flat, [0], [rest], [2]), axis=2)
    back = op.reshape(back, [*lead, inputs * wide, length])
    on = op.reshape(on, [*lead, outputs // window.group * tall, length])
    gradient = op.ReduceSum(op.MatMul(on, op.Transpose(back, perm=[0, 1, 3, 2])), [0], keepdims=0)
    gradient = op.Transpose(op.reshape(gradient, [outputs, tall, inputs, wide]), perm=[0, 2, 1, 3])
    return op.reshape_like(gradient, w)


def _of_patches(op, image, out, w, window):
    """One matrix product per group: the result's gradient by what each place of the kernel met of the image.

    Large images are multiplied one by one and the products added up; small ones in one product for the batch.
    """
    n, outputs, inputs, space = rank(image) - 2, dims(w)[0], dims(w)[1], _space(out)
    padded, image = _padded(image, window), _with_pads(op, image, window)
    if alone := math.prod(space) >= LARGE:
        lead, batch, places = [None, window.group], [], math.prod(space)
    else:
        lead, batch, places = [window.group], [None], None
        image, out = (op.Transpose(v, perm=[1, 0, *range(2, n + 2)]) for v in (image, out))
    rows = op.reshape(image, [*lead, inputs, 1, *batch, *padded])
    parts = Parts(op, rows, 4, padded, window.strides)
    starts = (np.multiply(place, window.dilations).tolist() for place in np.ndindex(*_space(w)))
    met = [parts.met(start, space) for start in starts]
    patches = op.reshape(_joined(op, met, len(lead) + 1), [*lead, inputs * len(met), places])
    columns = op.reshape(out, [*lead, outputs // window.group, places])
    product = op.MatMul(columns, op.Transpose(patches, perm=[*range(len(lead)), len(lead) + 1, len(lead)]))
    return op.reshape_like(op.ReduceSum(product, [0], keepdims=0) if alone else product, w)


def _joined(op, parts, axis):
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


def _of_windows(op, image, out, w, window):
    """A convolution that sums over the batch, with the result's gradient as the kernel; strides and dilations are
    swapped."""
    n = rank(image) - 2
    swap = [1, 0, *range(2, n + 2)]
    rows = op.Transpose(image, perm=swap) if window.group == 1 else _grouped(op, image, window.group)
    attributes = window.attributes | {"strides": window.dilations, "dilations": window.strides}
    gradient = op.Conv(rows, op.Transpose(out, perm=swap), **attributes)
    if any(window.rest):
        gradient = op.Slice(gradient, [0] * n, _space(w), list(range(2, n + 2)))
    return op.Transpose(gradient, perm=swap)


def _grouped(op, image, group):
    """(N, group * c, ...) -> (c, group * N, ...): the images of a group become the channels of one."""
    _, channels, *space = dims(image)
    apart = op.reshape(image, [None, group, channels // group, *space])
    turned = op.Transpose(apart, perm=[2, 1, 0, *range(3, 3 + len(space))])
    return op.reshape(turned, [channels // group, None, *space])
