"""ONNX operators in PyTorch: its own kernels, and for all others those of `ops/generic/` in PyTorch's arrays.

It runs ONNX files that come without an `nn.Module`, eagerly or under `torch.compile`, in any floating type: in float64
this table is the oracle for such files.
"""

import numpy as np
import torch
import torch.nn.functional as F

from xbench.converters.ops import geometry
from xbench.converters.ops.arrays import torch as arrays
from xbench.converters.ops.generic import elementwise, normalize, operators, pool, recurrent

# ***** elementwise *****


def Relu(x):
    return torch.relu(x)


def LeakyRelu(x, *, alpha=0.01):
    return F.leaky_relu(x, alpha)


def HardSwish(x):
    return F.hardswish(x)


def Gelu(x, *, approximate="none"):
    return F.gelu(x, approximate=approximate)


def Softplus(x):
    return F.softplus(x)


def Softmax(x, *, axis=-1):
    return torch.softmax(x, axis)


def LogSoftmax(x, *, axis=-1):
    return torch.log_softmax(x, axis)


def Clip(x, low=None, high=None):
    """ReLU6 and similar as one kernel: a minimum of a maximum made MobileNetV2's gradient 1.8 times slower."""
    if isinstance(low, float) and isinstance(high, float) and arrays.is_array(x) and x.is_floating_point():
        return F.hardtanh(x, low, high)
    return elementwise.Clip(arrays, x, low, high)


def Dropout(x, ratio=0.5, training=False, *, seed=0, rng=None, outputs=1):
    if outputs > 1:
        return normalize.Dropout(arrays, x, ratio, training, seed=seed, rng=rng, outputs=outputs)
    return F.dropout(x, ratio) if training and rng is not None else x


# ***** matrix products *****


def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    a, b = a.T if transA else a, b if transB else b.T
    if alpha == beta == 1 and c is not None and c.ndim == 1:
        return F.linear(a, b, c)
    y = alpha * F.linear(a, b)
    return y if c is None else y + beta * c


def ScaledDotProductAttention(q, k, v, mask=None, *, scale=1.0):
    """Softmax(scale * q k^T + mask) v of (batch, heads, length, width), in a kernel without a matrix of scores."""
    return F.scaled_dot_product_attention(q, k, v, mask, scale=scale)


# ***** convolution and pooling *****


def _padded(x, pads, value=0.0):
    """Pads the spatial axes; returns the array unchanged if there is nothing to pad."""
    flat = [n for pair in reversed(pads) for n in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


def Conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    n = x.ndim - 2
    strides, dilations = strides or (1,) * n, dilations or (1,) * n
    padding = geometry.conv_pads(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    conv = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    if all(low == high for low, high in padding):
        return conv(x, w, b, strides, [low for low, _ in padding], dilations, group)
    return conv(_padded(x, padding), w, b, strides, 0, dilations, group)


def ConvTranspose(
    x,
    w,
    b=None,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    output_padding=None,
    output_shape=None,
    pads=None,
    strides=None,
):
    n = x.ndim - 2
    strides, dilations = strides or (1,) * n, dilations or (1,) * n
    crops = geometry.transpose_crops(
        x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad, output_padding, output_shape
    )
    conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    steps = zip(crops, strides, dilations, strict=True)
    if all(0 <= low - high < max(s, d) and low >= 0 for (low, high), s, d in steps):
        low, more = [low for low, _ in crops], [low - high for low, high in crops]
        return conv(x, w, b, strides, low, more, group, dilations)
    y = _padded(conv(x, w, None, strides, 0, 0, group, dilations), [(-low, -high) for low, high in crops])
    return y if b is None else y + b.reshape(-1, *(1,) * n)


def MaxPool(x, *, outputs=1, **attributes):
    if outputs > 1 or not x.is_floating_point():
        return pool.MaxPool(arrays, x, outputs=outputs, **attributes)
    return _max_pool(x, **attributes)


def _max_pool(
    x, kernel_shape, auto_pad="NOTSET", ceil_mode=0, dilations=None, pads=None, storage_order=0, strides=None
):
    strides, dilations, _, padding = geometry.window(
        x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    kernel = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel_shape) - 1]
    return kernel(_padded(x, padding, -torch.inf), kernel_shape, strides, 0, dilations)


def AveragePool(x, **attributes):
    if max(attributes.get("dilations", (1,))) > 1:
        return pool.AveragePool(arrays, x, **attributes)
    return _average_pool(x, **attributes)


def _average_pool(
    x, kernel_shape, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=None, pads=None, strides=None
):
    strides, dilations, given, padding = geometry.window(
        x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    counted = given if count_include_pad else [(0, 0)] * len(kernel_shape)
    counts = geometry.window_counts(x.shape[2:], kernel_shape, strides, dilations, padding, counted)
    kernel = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel_shape) - 1]
    y = kernel(_padded(x, padding), kernel_shape, strides)
    scale = np.prod(kernel_shape) / counts
    return y if (scale == 1).all() else y * torch.as_tensor(scale, dtype=x.dtype, device=x.device)


# ***** normalisation *****


def BatchNormalization(x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=0, unbiased=0):
    """Returns y and the running mean and variance, which change in training. ONNX's momentum is 1 - PyTorch's."""
    if not training_mode:
        return F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon), mean, var
    mean, var, n = mean.detach(), var.detach(), x.numel() // x.shape[1]
    new_mean, new_var = mean.clone(), var.clone()
    y = F.batch_norm(x, new_mean, new_var, scale, bias, True, 1 - momentum, epsilon)
    if not unbiased:  # PyTorch stored n / (n - 1) times the batch variance
        new_var = var * momentum + (new_var - var * momentum) * ((n - 1) / n)
    return y, new_mean, new_var


def LayerNormalization(x, scale, bias=None, *, outputs=1, **attributes):
    if outputs > 1:
        return normalize.LayerNormalization(arrays, x, scale, bias, outputs=outputs, **attributes)
    return _layer_norm(x, scale, bias, **attributes)


def _layer_norm(x, scale, bias, axis=-1, epsilon=1e-5, stash_type=1):
    return F.layer_norm(x, x.shape[axis % x.ndim :], scale, bias, epsilon)


# ***** recurrent: PyTorch's fused kernels, gates put back in PyTorch's order *****


def _weights(w, r, b, order, gate_order=None):
    """PyTorch's flat list; `order` is the position of its gates in ONNX's, `gate_order` of ONNX's in these weights."""
    order = order if gate_order is None else tuple(gate_order[i] for i in order)

    def gates(a):
        parts = a.chunk(len(order))
        return a if order == tuple(range(len(order))) else torch.cat([parts[i] for i in order])

    flat = []
    for d in range(w.shape[0]):
        flat += [gates(w[d]), gates(r[d])]
        flat += [gates(half) for half in b[d].chunk(2)] if b is not None else []
    return flat


def _stacked(y, directions):
    time, batch, width = y.shape
    return y.reshape(time, batch, directions, width // directions).transpose(1, 2)


def _zeros(x, r):
    return x.new_zeros(r.shape[0], x.shape[1], r.shape[2])


def LSTM(x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, *, direction="forward", **attributes):
    """x: (time, batch, input). ONNX's gates are i, o, f, c and PyTorch's i, f, c, o. Returns Y, Y_h, Y_c."""
    if direction == "reverse" or not recurrent.is_plain("LSTM", lengths, p, **attributes):
        return recurrent.LSTM(arrays, x, w, r, b, lengths, h0, c0, p, direction=direction, **attributes)
    flat = _weights(w, r, b, (0, 2, 3, 1), attributes.get("gate_order"))
    both = direction == "bidirectional"
    state = (_zeros(x, r) if h0 is None else h0, _zeros(x, r) if c0 is None else c0)
    y, h, c = torch._VF.lstm(x, state, flat, b is not None, 1, 0.0, torch.is_grad_enabled(), both, False)
    return _stacked(y, 1 + both), h, c


def GRU(x, w, r, b=None, lengths=None, h0=None, *, direction="forward", **attributes):
    """x: (time, batch, input). ONNX's gates are z, r, h and PyTorch's r, z, h. Returns Y, Y_h."""
    plain = recurrent.is_plain("GRU", lengths, **attributes)
    if direction == "reverse" or not plain or not attributes.get("linear_before_reset"):
        return recurrent.GRU(arrays, x, w, r, b, lengths, h0, direction=direction, **attributes)
    flat = _weights(w, r, b, (1, 0, 2), attributes.get("gate_order"))
    both = direction == "bidirectional"
    state = _zeros(x, r) if h0 is None else h0
    y, h = torch._VF.gru(x, state, flat, b is not None, 1, 0.0, torch.is_grad_enabled(), both, False)
    return _stacked(y, 1 + both), h


def cross_entropy(logits, labels):
    """Mean cross entropy of logits (..., classes) with integer labels (...)."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def mean_squared_error(y, target):
    return F.mse_loss(y, target)


def own_loss(y, target):
    """A loss that the network computes itself."""
    return y.mean()


def binary_cross_entropy(logits, target):
    """Mean over all logits; targets lie between 0 and 1."""
    return F.binary_cross_entropy_with_logits(logits, target)


TABLE = operators(arrays, globals())
