"""Quantisation, and arithmetic on quantised integers: sums in int32, which are exact in every framework."""

import math

import numpy as np

from xbench.converters.ops import geometry
from xbench.converters.ops.generic.types import LARGEST, rounded, type_numbered


def _kind(xp, value):
    """The type of a scale; a Python number means a float32."""
    return xp.type_of(value) if hasattr(value, "dtype") else "float32"


def _spread(xp, v, x, axis, block_size):
    """A scale or zero point in a shape that broadcasts with x: one per tensor, per index of `axis`, or per block."""
    shape, rank = xp.shape(v), len(xp.shape(x))
    if math.prod(shape) == 1:
        return xp.reshape(v, (1,) * rank)
    if block_size:
        return xp.take(v, np.arange(xp.shape(x)[axis]) // block_size, axis % rank)
    return xp.reshape(v, tuple(-1 if a == axis % rank else 1 for a in range(rank)))


def _saturated(xp, y, name):
    """Rounded floats as integers of a type, saturated to its range."""
    if not name.startswith(("int", "uint")):
        raise NotImplementedError(f"quantisation to {name}")
    limits = np.iinfo(name)
    return xp.astype(xp.minimum(xp.maximum(y, float(limits.min)), float(limits.max)), name)


def _quantized(xp, x, scale, zero_point, name, saturate=1):
    y = xp.quotient(x, scale)
    if name in LARGEST:  # whose zero point is zero
        return rounded(xp, y, name, saturate)
    y = xp.rint(y)
    return _saturated(xp, y if zero_point is None else y + zero_point, name)


def QuantizeLinear(xp, x, scale, zero_point=None, *, axis=1, block_size=0, output_dtype=0, precision=0, saturate=1):
    """saturate(round(x / scale) + zero_point), ties to even; in uint8 by default."""
    name = xp.type_of(zero_point) if zero_point is not None else type_numbered(output_dtype or 2)
    x = xp.astype(x, _kind(xp, scale))
    scale = _spread(xp, xp.asarray(scale, x), x, axis, block_size)
    if zero_point is not None:
        zero_point = _spread(xp, xp.astype(zero_point, xp.type_of(x)), x, axis, block_size)
    return _quantized(xp, x, scale, zero_point, name, saturate)


def DequantizeLinear(xp, x, scale, zero_point=None, *, axis=1, block_size=0, output_dtype=0):
    """(x - zero_point) * scale, in the type of the scale."""
    name = type_numbered(output_dtype) if output_dtype else _kind(xp, scale)
    y = xp.astype(x, name)
    if zero_point is not None:
        y = y - _spread(xp, xp.astype(zero_point, name), x, axis, block_size)
    return y * _spread(xp, xp.asarray(scale, y), x, axis, block_size)


def DynamicQuantizeLinear(xp, x):
    """Quantises to uint8 by the range of x, widened to hold zero. Returns y, its scale and its zero point."""
    low, high = xp.minimum(xp.min(x), 0), xp.maximum(xp.max(x), 0)
    scale = (high - low) / 255
    safe = xp.where(xp.equal(scale, 0), 1, scale)
    zero_point = xp.minimum(xp.maximum(xp.rint(-low / safe), 0), 255)
    return _quantized(xp, x, safe, zero_point, "uint8"), scale, xp.astype(zero_point, "uint8")


# ***** products *****


def _centred(xp, x, zero_point, shape=None):
    """x - zero_point in int32; a vector of zero points is laid out by `shape`."""
    x = xp.astype(x, "int32")
    if zero_point is None:
        return x
    return x - _vector(xp, xp.astype(zero_point, "int32"), shape)


def _vector(xp, v, shape):
    return xp.reshape(v, shape) if shape and len(xp.shape(v)) == 1 else v


def _requantized(xp, total, factors, scale, zero_point):
    """Sums in units of the product of `factors`, as the integers of an output with its own scale and zero point."""
    y = xp.astype(total, "float32")
    ratio = math.prod(xp.asarray(factor, y) for factor in factors) / xp.asarray(scale, y)
    return _saturated(xp, xp.rint(y * ratio) + xp.astype(zero_point, "float32"), xp.type_of(zero_point))


def MatMulInteger(xp, a, b, a_zero_point=None, b_zero_point=None):
    """Zero points are one per matrix, per row of a, or per column of b. The result is int32."""
    return xp.matmul(_centred(xp, a, a_zero_point, (-1, 1)), _centred(xp, b, b_zero_point))


def QLinearMatMul(xp, a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point):
    total = MatMulInteger(xp, a, b, a_zero_point, b_zero_point)
    return _requantized(xp, total, (_vector(xp, a_scale, (-1, 1)), b_scale), y_scale, y_zero_point)


# ***** convolutions *****


def _convolved(xp, x, w, group, *, auto_pad="NOTSET", dilations=None, kernel_shape=None, pads=None, strides=None):
    """The convolution of integers: one matrix product with the patches of x under the kernel.

    x (batch, channels, ...), w (features, channels / group, ...). Frameworks' own kernels sum in floating point.
    """
    kernel, n = xp.shape(w)[2:], len(xp.shape(w)) - 2
    strides, dilations = strides or (1,) * n, dilations or (1,) * n
    padding = geometry.conv_pads(xp.shape(x)[2:], kernel, strides, dilations, pads, auto_pad)
    x = xp.pad(x, [(0, 0), (0, 0), *padding])
    (batch, channels, *size), features = xp.shape(x), xp.shape(w)[0]
    out = [(m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(size, kernel, strides, dilations, strict=True)]
    patches = []
    for position in np.ndindex(*kernel):
        starts = [p * d for p, d in zip(position, dilations, strict=True)]
        ends = [a + (m - 1) * s + 1 for a, m, s in zip(starts, out, strides, strict=True)]
        window = tuple(slice(*bounds) for bounds in zip(starts, ends, strides, strict=True))
        patches.append(xp.getitem(x, (slice(None), slice(None), *window)))
    depth = channels // group * math.prod(kernel)
    columns = xp.reshape(xp.stack(patches, 2), (batch, group, depth, math.prod(out)))
    y = xp.matmul(xp.reshape(w, (group, features // group, depth)), columns)
    return xp.reshape(y, (batch, features, *out))


def ConvInteger(xp, x, w, x_zero_point=None, w_zero_point=None, *, group=1, **attributes):
    """Zero points are one per tensor, or per feature of w; padding is x's zero point. The result is int32."""
    column = (-1,) + (1,) * (len(xp.shape(w)) - 1)
    return _convolved(xp, _centred(xp, x, x_zero_point), _centred(xp, w, w_zero_point, column), group, **attributes)


def QLinearConv(
    xp, x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, bias=None, *, group=1, **attributes
):
    """The bias is int32 in units of x_scale * w_scale."""
    total = ConvInteger(xp, x, w, x_zero_point, w_zero_point, group=group, **attributes)
    column = (-1,) + (1,) * (len(xp.shape(w)) - 2)
    total = total if bias is None else total + xp.reshape(bias, column)
    return _requantized(xp, total, (x_scale, _vector(xp, w_scale, column)), y_scale, y_zero_point)
