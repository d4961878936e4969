"""ONNX operators in PyTorch, named as ONNX names them: arrays by position, attributes by keyword.

It runs ONNX files that come without an `nn.Module`, eagerly or under `torch.compile`, in any floating type: in float64
this table is the oracle for such files. Operators that compute shapes work in NumPy when all they are given is NumPy.
"""

import functools
import operator

import numpy as np
import torch
import torch.nn.functional as F

from xbench.converters import _shared, geometry

DTYPES = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
}


def _known(*arrays):
    """Whether every operand is plain Python or NumPy, so that the result is arithmetic on shapes."""
    return not any(isinstance(a, torch.Tensor) for a in arrays)


def _tensors(*arrays):
    """The operands as tensors of one type and device; Python and NumPy scalars take the type of the first tensor."""
    like = next(a for a in arrays if isinstance(a, torch.Tensor))
    return [
        a if isinstance(a, torch.Tensor) else torch.as_tensor(a, dtype=like.dtype, device=like.device) for a in arrays
    ]


# ***** elementwise: what the framework has under another name or the same *****

ROWS = {
    **_shared.ROWS,
    "Sqrt": torch.sqrt,
    "Exp": torch.exp,
    "Log": torch.log,
    "Abs": torch.abs,
    "Floor": torch.floor,
    "Erf": torch.erf,
    "Tanh": torch.tanh,
    "Sigmoid": torch.sigmoid,
    "HardSwish": F.hardswish,
    "Relu": torch.relu,
    "Equal": operator.eq,
    "Not": torch.logical_not,
    "Where": torch.where,
    "MatMul": torch.matmul,
    "LeakyRelu": lambda x, *, alpha=0.01: F.leaky_relu(x, alpha),
    "Einsum": lambda *arrays, equation: torch.einsum(equation, *arrays),
    "Softmax": lambda x, *, axis=-1: torch.softmax(x, axis),
    "LogSoftmax": lambda x, *, axis=-1: torch.log_softmax(x, axis),
    "Transpose": lambda x, *, perm=None: x.permute(perm or tuple(reversed(range(x.ndim)))),
}


def Div(a, b):
    if _known(a, b):
        return a // b if np.issubdtype(np.result_type(a), np.integer) else a / b
    a, b = _tensors(a, b)
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def Pow(a, b):
    a, b = _tensors(a, b)
    return torch.pow(a, b).to(a.dtype)


def HardSigmoid(x, *, alpha=0.2, beta=0.5):
    return torch.clamp(alpha * x + beta, 0, 1)


def Gelu(x, *, approximate="none"):
    return F.gelu(x, approximate=approximate)


def Clip(x, low=None, high=None):
    return x if low is None and high is None else torch.clamp(x, low, high)


def Min(*arrays):
    return functools.reduce(torch.minimum, _tensors(*arrays))


def Max(*arrays):
    return functools.reduce(torch.maximum, _tensors(*arrays))


def And(a, b):
    return torch.logical_and(*_tensors(a, b))


def Or(a, b):
    return torch.logical_or(*_tensors(a, b))


def Cast(x, *, to, saturate=1):
    if _known(x):
        return np.asarray(x).astype(_shared.DTYPES[to])
    # ONNX's float is the working precision, so that the same text runs in float64 as the oracle.
    return x.to(torch.get_default_dtype() if to == 1 else DTYPES[to])


def Dropout(x, ratio=0.5, training=False, *, seed=0, rng=None):
    return F.dropout(x, ratio) if training and rng is not None else x


# ***** matrix products *****


def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    a, b = a.T if transA else a, b if transB else b.T
    if alpha == beta == 1 and c is not None and c.ndim == 1:
        return F.linear(a, b, c)
    y = alpha * F.linear(a, b)
    return y if c is None else y + beta * c


# ***** convolution and pooling *****


def _padded(x, pads, value=0.0):
    """Pads the spatial axes; returns the array as it is where there is nothing to pad."""
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


def MaxPool(
    x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, dilations=None, pads=None, storage_order=0, strides=None
):
    strides, dilations, _, padding = geometry.window(
        x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel_shape) - 1]
    return pool(_padded(x, padding, -torch.inf), kernel_shape, strides, 0, dilations)


def AveragePool(
    x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=None, pads=None, strides=None
):
    strides, dilations, given, padding = geometry.window(
        x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    if any(d != 1 for d in dilations):
        raise NotImplementedError("AveragePool with dilations")
    counted = given if count_include_pad else [(0, 0)] * len(kernel_shape)
    counts = geometry.window_counts(x.shape[2:], kernel_shape, strides, dilations, padding, counted)
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel_shape) - 1]
    y = pool(_padded(x, padding), kernel_shape, strides)
    scale = np.prod(kernel_shape) / counts
    return y if (scale == 1).all() else y * torch.as_tensor(scale, dtype=x.dtype, device=x.device)


def GlobalAveragePool(x):
    return x.mean(tuple(range(2, x.ndim)), keepdim=True)


def GlobalMaxPool(x):
    return x.amax(tuple(range(2, x.ndim)), keepdim=True)


# ***** normalisation *****


def BatchNormalization(x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=0, unbiased=0):
    """Returns y and the running mean and variance, which change in training. ONNX's momentum is 1 - PyTorch's."""
    if not training_mode:
        return F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon), mean, var
    new_mean, new_var, n = mean.clone(), var.clone(), x.numel() // x.shape[1]
    y = F.batch_norm(x, new_mean, new_var, scale, bias, True, 1 - momentum, epsilon)
    if not unbiased:  # PyTorch stored n / (n - 1) times the batch variance
        new_var = var * momentum + (new_var - var * momentum) * ((n - 1) / n)
    return y, new_mean, new_var


def LayerNormalization(x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1):
    return F.layer_norm(x, x.shape[axis % x.ndim :], scale, bias, epsilon)


# ***** reductions *****


def _reduce(function):
    def operator(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        if not axes and noop_with_empty_axes:
            return x
        return function(x, dim=tuple(axes) if axes else tuple(range(x.ndim)), keepdim=bool(keepdims))

    return operator


def _prod(x, dim, keepdim):
    for axis in sorted((d % x.ndim for d in dim), reverse=True):
        x = torch.prod(x, axis, keepdim)
    return x


ReduceMean = _reduce(torch.mean)
ReduceSum = _reduce(torch.sum)
ReduceMax = _reduce(torch.amax)
ReduceMin = _reduce(torch.amin)
ReduceProd = _reduce(_prod)


def ArgMax(x, *, axis=0, keepdims=1, select_last_index=0):
    return torch.argmax(x, axis, keepdim=bool(keepdims))


# ***** shape and selection *****


def Reshape(x, shape, *, allowzero=0):
    return x.reshape(geometry.new_shape(x.shape, shape, allowzero))


def Flatten(x, *, axis=1):
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


def Squeeze(x, axes=None):
    if _known(x):
        return np.squeeze(x, None if axes is None else tuple(axes))
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def Unsqueeze(x, axes):
    if _known(x):
        return np.expand_dims(x, tuple(axes))
    rank = x.ndim + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = x.unsqueeze(axis)
    return x


def Concat(*arrays, axis):
    return np.concatenate(arrays, axis) if _known(*arrays) else torch.cat(_tensors(*arrays), axis)


def Split(x, split=None, *, axis=0, num_outputs=None):
    return torch.split(x, geometry.split_sizes(x.shape[axis], split, num_outputs), axis)


def Slice(x, starts, ends, axes=None, steps=None):
    cut = geometry.slices(x.ndim, starts, ends, axes, steps)
    for axis, part in enumerate(cut):
        if not _known(x) and part.step is not None and part.step < 0:  # tensors have no negative steps
            index = torch.arange(*part.indices(x.shape[axis]), device=x.device)
            x, cut = x.index_select(axis, index), (*cut[:axis], slice(None), *cut[axis + 1 :])
    return x[cut]


def Gather(x, indices, *, axis=0):
    if _known(x, indices):
        return np.take(x, indices, axis)
    if not isinstance(indices, torch.Tensor):
        indices = torch.as_tensor(indices, device=x.device)
    if axis == 0 and x.ndim == 2:
        return F.embedding(torch.where(indices < 0, indices + x.shape[0], indices), x)
    flat = torch.where(indices < 0, indices + x.shape[axis], indices).reshape(-1)
    return x.index_select(axis, flat).reshape(*x.shape[:axis], *indices.shape, *x.shape[axis % x.ndim + 1 :])


def Expand(x, shape):
    return x.expand(np.broadcast_shapes(tuple(x.shape), tuple(int(n) for n in shape)))


def Tile(x, repeats):
    return x.repeat(*(int(n) for n in repeats))


def Pad(x, pads, value=0, axes=None, *, mode="constant"):
    widths = geometry.pad_widths(x.ndim, pads, axes)
    flat = [n for pair in reversed(widths) for n in pair]
    if mode == "constant":
        return F.pad(x, flat, value=value or 0)
    while flat and not any(flat[-2:]):  # the other modes pad trailing axes only
        flat = flat[:-2]
    return F.pad(x, flat, mode={"edge": "replicate", "reflect": "reflect", "wrap": "circular"}[mode])


def Trilu(x, k=0, *, upper=1):
    return (torch.triu if upper else torch.tril)(x, int(k or 0))


# ***** recurrent: PyTorch's fused kernels, gates put back in PyTorch's order *****


def _weights(w, r, b, order):
    def gates(a):
        parts = a.chunk(len(order))
        return torch.cat([parts[i] for i in order])

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


def LSTM(x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, *, hidden_size=None, direction="forward"):
    """x: (time, batch, input). ONNX's gates are i, o, f, c and PyTorch's i, f, c, o. Returns Y, Y_h, Y_c."""
    if lengths is not None or p is not None or direction == "reverse":
        raise NotImplementedError("LSTM with sequence lengths, peepholes or in reverse")
    flat, both = _weights(w, r, b, (0, 2, 3, 1)), direction == "bidirectional"
    state = (_zeros(x, r) if h0 is None else h0, _zeros(x, r) if c0 is None else c0)
    y, h, c = torch._VF.lstm(x, state, flat, b is not None, 1, 0.0, torch.is_grad_enabled(), both, False)
    return _stacked(y, 1 + both), h, c


def GRU(x, w, r, b=None, lengths=None, h0=None, *, hidden_size=None, direction="forward", linear_before_reset=0):
    """x: (time, batch, input). ONNX's gates are z, r, h and PyTorch's r, z, h. Returns Y, Y_h."""
    if lengths is not None or direction == "reverse" or not linear_before_reset:
        raise NotImplementedError("GRU with sequence lengths, in reverse or with linear_before_reset=0")
    flat, both = _weights(w, r, b, (1, 0, 2)), direction == "bidirectional"
    state = _zeros(x, r) if h0 is None else h0
    y, h = torch._VF.gru(x, state, flat, b is not None, 1, 0.0, torch.is_grad_enabled(), both, False)
    return _stacked(y, 1 + both), h


def cross_entropy(logits, labels):
    """Mean cross entropy of logits (..., classes) with integer labels (...)."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


TABLE = {
    **ROWS,
    **{name: f for name, f in globals().items() if name[0].isupper() and name not in ("F", "DTYPES", "ROWS")},
}
