"""ONNX operators in JAX: its own kernels, and for all others the operators of `ops/generic/` in JAX's arrays.

Normalisations subtract the mean once and take the variance of the result: `jnp.var` subtracts it again, also in the
gradient, which made that of ViT-S/16 1.25 times slower on a CPU.
"""

import jax
import jax.numpy as jnp
from jax import lax

from xbench.converters.ops import geometry
from xbench.converters.ops.arrays import jax as arrays
from xbench.converters.ops.generic import normalize, operators, pool

# ***** elementwise *****


def Relu(x):
    return jax.nn.relu(x)  # whose gradient at zero is zero, that of a maximum one half


def Gelu(x, *, approximate="none"):
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def Softplus(x):
    return jax.nn.softplus(x)


def Softmax(x, *, axis=-1):
    return jax.nn.softmax(x, axis=axis)


def LogSoftmax(x, *, axis=-1):
    return jax.nn.log_softmax(x, axis=axis)


# ***** matrix products *****


def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    """For many matrices (..., rows, in) one product of all rows: else XLA sums b's gradient over two axes, slowly."""
    if a.ndim > 2:
        y = Gemm(a.reshape(-1, a.shape[-1]), b, c, alpha=alpha, beta=beta, transB=transB)
        return y.reshape(*a.shape[:-1], -1)
    y = jnp.matmul(a.T if transA else a, b.T if transB else b)
    y = y if alpha == 1 else alpha * y
    return y if c is None else y + (c if beta == 1 else beta * c)


def ScaledDotProductAttention(q, k, v, mask=None, *, scale=1.0):
    """Softmax(scale * q k^T + mask) v of (batch, heads, length, width)."""
    scores = jnp.matmul(q * scale, k.swapaxes(-1, -2))
    return jnp.matmul(jax.nn.softmax(scores if mask is None else scores + mask), v)


# ***** convolution and pooling *****


def _layout(n, channels_last):
    image = "NHWD"[: n + 1] + "C" if channels_last else "NCHWD"[: n + 2]
    return image, "OIHWD"[: n + 2], image


def _spatial(x, channels_last):
    """The lengths of an image's spatial axes."""
    return x.shape[1:-1] if channels_last else x.shape[2:]


def _in_layout(channels_last, other, spatial):
    """A value per axis of an image, in the order of its axes; `other` is that of the batch and of the channels."""
    return (other, *spatial, other) if channels_last else (other, other, *spatial)


def _column(v, x, channels_last):
    """One number per channel, to be broadcast with an image x."""
    return v if channels_last else v.reshape(-1, *(1,) * (x.ndim - 2))


def Conv(
    x,
    w,
    b=None,
    *,
    auto_pad="NOTSET",
    channels_last=0,
    dilations=None,
    group=1,
    kernel_shape=None,
    pads=None,
    strides=None,
):
    n = x.ndim - 2
    strides, dilations = strides or (1,) * n, dilations or (1,) * n
    padding = geometry.conv_pads(_spatial(x, channels_last), w.shape[2:], strides, dilations, pads, auto_pad)
    layout = _layout(n, channels_last)
    y = lax.conv_general_dilated(
        x, w, strides, padding, rhs_dilation=dilations, dimension_numbers=layout, feature_group_count=group
    )
    return y if b is None else y + _column(b, y, channels_last)


def ConvTranspose(
    x,
    w,
    b=None,
    *,
    auto_pad="NOTSET",
    channels_last=0,
    dilations=None,
    group=1,
    kernel_shape=None,
    output_padding=None,
    output_shape=None,
    pads=None,
    strides=None,
):
    """A convolution with the kernel reversed, over the input spread out by the strides."""
    n = x.ndim - 2
    strides, dilations = strides or (1,) * n, dilations or (1,) * n
    crops = geometry.transpose_crops(
        _spatial(x, channels_last), w.shape[2:], strides, dilations, pads, auto_pad, output_padding, output_shape
    )
    reach = [d * (k - 1) for k, d in zip(w.shape[2:], dilations, strict=True)]
    padding = [(r - low, r - high) for r, (low, high) in zip(reach, crops, strict=True)]
    grouped = w.reshape(group, w.shape[0] // group, *w.shape[1:]).swapaxes(1, 2)
    kernel = jnp.flip(grouped.reshape(-1, w.shape[0] // group, *w.shape[2:]), tuple(range(2, n + 2)))
    layout = _layout(n, channels_last)
    y = lax.conv_general_dilated(x, kernel, (1,) * n, padding, strides, dilations, layout, feature_group_count=group)
    return y if b is None else y + _column(b, y, channels_last)


def _reduce_window(x, start, function, kernel, strides, dilations, padding, channels_last):
    window, steps, gaps = (_in_layout(channels_last, 1, each) for each in (kernel, strides, dilations))
    pads = _in_layout(channels_last, (0, 0), padding)
    return lax.reduce_window(x, start, function, window, steps, pads, None, gaps)


def MaxPool(x, *, outputs=1, **attributes):
    if outputs > 1 or max(attributes.get("dilations", (1,))) > 1 or not jnp.issubdtype(x.dtype, jnp.floating):
        return pool.MaxPool(arrays, x, outputs=outputs, **attributes)
    return _max_pool(x, **attributes)


def _max_pool(
    x,
    kernel_shape,
    auto_pad="NOTSET",
    ceil_mode=0,
    channels_last=0,
    dilations=None,
    pads=None,
    storage_order=0,
    strides=None,
):
    strides, dilations, _, padding = geometry.window(
        _spatial(x, channels_last), kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    return _reduce_window(x, -jnp.inf, lax.max, kernel_shape, strides, dilations, padding, channels_last)


def AveragePool(
    x,
    *,
    kernel_shape,
    auto_pad="NOTSET",
    ceil_mode=0,
    channels_last=0,
    count_include_pad=0,
    dilations=None,
    pads=None,
    strides=None,
):
    spatial = _spatial(x, channels_last)
    strides, dilations, given, padding = geometry.window(
        spatial, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    counted = given if count_include_pad else [(0, 0)] * len(kernel_shape)
    counts = geometry.window_counts(spatial, kernel_shape, strides, dilations, padding, counted)
    total = _reduce_window(x, 0.0, lax.add, kernel_shape, strides, dilations, padding, channels_last)
    return total / (counts[..., None] if channels_last else counts).astype(x.dtype)


# ***** normalisation *****


def BatchNormalization(
    x, scale, bias, mean, var, *, channels_last=0, epsilon=1e-5, momentum=0.9, training_mode=0, unbiased=0
):
    """Returns y and the running mean and variance, which change in training. ONNX's momentum is 1 - PyTorch's."""
    if training_mode:
        channel = x.ndim - 1 if channels_last else 1
        axes, n = tuple(a for a in range(x.ndim) if a != channel), x.size // x.shape[channel]
        batch_mean = x.mean(axes)
        centred = x - _column(batch_mean, x, channels_last)
        batch_var = (centred * centred).mean(axes)
        kept = lax.stop_gradient(batch_var) * (n / (n - 1) if unbiased and n > 1 else 1)
        running = (
            mean * momentum + lax.stop_gradient(batch_mean) * (1 - momentum),
            var * momentum + kept * (1 - momentum),
        )
    else:
        centred, batch_var, running = x - _column(mean, x, channels_last), var, (mean, var)
    factor = _column(scale * lax.rsqrt(batch_var + epsilon), x, channels_last)
    return centred * factor + _column(bias, x, channels_last), *running


def LayerNormalization(x, scale, bias=None, *, outputs=1, **attributes):
    if outputs > 1:
        return normalize.LayerNormalization(arrays, x, scale, bias, outputs=outputs, **attributes)
    return _layer_norm(x, scale, bias, **attributes)


def _layer_norm(x, scale, bias, axis=-1, epsilon=1e-5, stash_type=1):
    axes = tuple(range(axis % x.ndim, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    y = centred * (lax.rsqrt((centred * centred).mean(axes, keepdims=True) + epsilon) * scale)
    return y if bias is None else y + bias


def cross_entropy(logits, labels):
    """Mean cross entropy of logits (..., classes) with integer labels (...)."""
    logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -picked.mean()


def mean_squared_error(y, target):
    return jnp.square(y - target).mean()


def own_loss(y, target):
    """A loss that the network computes itself."""
    return y.mean()


def binary_cross_entropy(logits, target):
    """Mean over all logits; targets lie between 0 and 1."""
    return (jax.nn.softplus(logits) - logits * target).mean()


TABLE = operators(arrays, globals())
