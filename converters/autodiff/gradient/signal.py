"""Gradients of Fourier transforms: a transform is linear, and its adjoint is the other one without its scale."""

import numpy as np

from xbench.converters.autodiff.gradient.ops import dims, rank
from xbench.converters.codegen.printer import constant


def DFT(op, node, dy):
    x = node.inputs[0]
    axis = _number(node, 2, -2) % rank(x)
    inverse, onesided = node.attributes.get_int("inverse", 0), node.attributes.get_int("onesided", 0)
    size, parts = dims(x)[axis], dims(x)[-1]
    length = _number(node, 1, None if size is None else 2 * (size - 1) if inverse and onesided else size)
    if size is None or length is None or parts is None:
        raise NotImplementedError("the gradient of a DFT over an axis whose length is computed")
    options = {"onesided": 1} if inverse and onesided else {"inverse": 1 - inverse}
    dx = op.DFT(dy, np.array(length), np.array(axis), **options)
    dx = op.Mul(dx, _weights(length, rank(x) - axis) / length if inverse and onesided else _scale(length, inverse))
    if parts == 1:
        dx = op.Slice(dx, [0], [1], [-1])
    return [_resized(op, dx, axis, length // 2 + 1 if inverse and onesided else length, size), None, None]


def _number(node, index, default):
    """A number among the inputs, which must be known while the graph is written."""
    if index >= len(node.inputs) or node.inputs[index] is None:
        return default
    array = constant(node.inputs[index])
    if array is None:
        raise NotImplementedError(f"the gradient of a DFT whose {node.inputs[index].name} is computed")
    return int(array.reshape(()))


def _scale(length, inverse):
    """Only the inverse divides by the length."""
    return 1 / length if inverse else float(length)


def _weights(length, trailing):
    """How often each value of half a spectrum is in the spectrum of a real signal, along the first of the last axes."""
    weights = np.full(length // 2 + 1, 2.0, np.float32)
    weights[0] = 1
    if length % 2 == 0:
        weights[-1] = 1
    return weights.reshape(-1, *[1] * (trailing - 1))


def _resized(op, dx, axis, length, size):
    """The gradient of the padding or cutting to the length of the transform."""
    if size < length:
        return op.Slice(dx, [0], [size], [axis])
    return op.Pad(dx, [0, size - length], None, [axis]) if size > length else dx
