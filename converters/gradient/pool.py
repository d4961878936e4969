"""Gradients of poolings: to the place of the maximum, or to every place of a window alike."""

import numpy as np

from xbench.converters import geometry
from xbench.converters.gradient.ops import dims, rank


def MaxPool(op, node, dy, *_):
    """To the first of the largest elements of a window, as in PyTorch; windows that overlap add up."""
    x, flat = node.inputs[0], [-1]
    if len(node.outputs) < 2:
        node.resize_outputs(2)
        node.outputs[1].name = f"{node.outputs[0].name}_places"
        node.attributes.pop("storage_order", None)
    elif node.attributes.get_int("storage_order", 0):
        raise NotImplementedError("the gradient of MaxPool that tells its places column by column")
    zeros, places = op.Reshape(op.zeros_like(x), flat), op.Reshape(node.outputs[1], flat)
    return [op.reshape_like(op.ScatterElements(zeros, places, op.Reshape(dy, flat), axis=0, reduction="add"), x)]


def AveragePool(op, node, dy):
    """A transposed convolution with ones."""
    x, get = node.inputs[0], node.attributes.get_ints
    channels, *space = dims(x)[1:]
    if None in space:
        raise NotImplementedError("the gradient of AveragePool of an image whose size is not known")
    kernel = list(get("kernel_shape"))
    strides, dilations, given, padding = geometry.window(
        space, kernel, get("strides", None), get("dilations", None), get("pads", None),
        node.attributes.get_string("auto_pad", "NOTSET"), node.attributes.get_int("ceil_mode", 0),
    )  # fmt: skip
    counted = given if node.attributes.get_int("count_include_pad", 0) else [(0, 0)] * len(kernel)
    counts = geometry.window_counts(space, kernel, strides, dilations, padding, counted)
    share = op.Div(dy, np.asarray(counts, op.floating.numpy()))
    pads = [int(low) for low, _ in padding] + [int(high) for _, high in padding]
    sizes = zip(space, kernel, dims(dy)[2:], strides, dilations, padding, strict=True)
    rest = [n + low + high - ((count - 1) * s + d * (k - 1) + 1) for n, k, count, s, d, (low, high) in sizes]
    ones = np.ones((channels, 1, *kernel), op.floating.numpy())
    extra = {"output_padding": [int(n) for n in rest]} if any(rest) else {}
    where = {"strides": list(map(int, strides)), "dilations": list(map(int, dilations)), "pads": pads}
    return [op.ConvTranspose(share, ones, group=channels, **where, **extra)]


def GlobalAveragePool(op, node, dy):
    (x,) = node.inputs
    return [op.expand_like(op.Div(dy, op.count(x, list(range(2, rank(x))))), x)]


def GlobalMaxPool(op, node, dy):
    """PyTorch's (amax): where several elements are the largest, each has an equal share."""
    (x,), axes = node.inputs, list(range(2, rank(node.inputs[0])))
    chosen = op.Cast(op.Equal(x, node.outputs[0]), to=op.floating)
    return [op.Mul(chosen, op.Div(dy, op.ReduceSum(chosen, axes)))]
