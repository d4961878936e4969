"""ONNX operators in JAX, named as ONNX names them: arrays by position, attributes by keyword.

Arithmetic on shapes must stay outside the trace, so operators that compute shapes work in NumPy when all they are given
is NumPy (`_numpy`). Opset versions differ only where the meaning differs.
"""

import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from xbench.converters import _shared, geometry


def _numpy(*arrays):
    """NumPy when every operand is known at trace time, else jax.numpy."""
    known = (np.ndarray, np.generic, int, float, bool, tuple, list)
    return np if all(isinstance(a, known) for a in arrays) else jnp


# ***** elementwise: what the framework has under another name or the same *****

ROWS = {
    **_shared.ROWS,
    "Sqrt": jnp.sqrt,
    "Exp": jnp.exp,
    "Log": jnp.log,
    "Abs": jnp.abs,
    "Floor": jnp.floor,
    "Erf": lax.erf,
    "Tanh": jnp.tanh,
    "Sigmoid": jax.nn.sigmoid,
    "Equal": operator.eq,
    "MatMul": jnp.matmul,
    "LeakyRelu": lambda x, *, alpha=0.01: jnp.where(x >= 0, x, alpha * x),
    "Einsum": lambda *arrays, equation: jnp.einsum(equation, *arrays),
    "Softmax": lambda x, *, axis=-1: jax.nn.softmax(x, axis=axis),
    "LogSoftmax": lambda x, *, axis=-1: jax.nn.log_softmax(x, axis=axis),
    "Transpose": lambda x, *, perm=None: x.transpose(perm),
}


def Div(a, b):
    whole = _numpy(a, b).issubdtype(_numpy(a, b).result_type(a), np.integer)
    return lax.div(*jnp.broadcast_arrays(a, b)) if whole and _numpy(a, b) is jnp else a // b if whole else a / b


def Pow(a, b):
    return _numpy(a, b).power(a, b).astype(a.dtype)


def HardSigmoid(x, *, alpha=0.2, beta=0.5):
    return jnp.clip(alpha * x + beta, 0, 1)


def HardSwish(x):
    return x * HardSigmoid(x, alpha=1 / 6)


def Relu(x):
    return jnp.maximum(x, 0)


def Gelu(x, *, approximate="none"):
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def Clip(x, low=None, high=None):
    x = x if low is None else jnp.maximum(x, low)
    return x if high is None else jnp.minimum(x, high)


def Min(*arrays):
    return jax.tree.reduce(_numpy(*arrays).minimum, arrays)


def Max(*arrays):
    return jax.tree.reduce(_numpy(*arrays).maximum, arrays)


def Not(x):
    return _numpy(x).logical_not(x)


def And(a, b):
    return _numpy(a, b).logical_and(a, b)


def Or(a, b):
    return _numpy(a, b).logical_or(a, b)


def Where(condition, a, b):
    return _numpy(condition, a, b).where(condition, a, b)


def Cast(x, *, to, saturate=1):
    dtype = _shared.DTYPES[to]
    return x.astype(jax.dtypes.canonicalize_dtype(dtype)) if _numpy(x) is jnp else np.asarray(x).astype(dtype)


def Dropout(x, ratio=0.5, training=False, *, seed=0, rng=None):
    """Inverted dropout; each node folds its own seed into the step's key. Without a key nothing is dropped."""
    if not training or rng is None or ratio == 0:
        return x
    keep = jax.random.bernoulli(jax.random.fold_in(rng, seed), 1 - ratio, x.shape)
    return jnp.where(keep, x / (1 - ratio), 0)


# ***** matrix products *****


def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = jnp.matmul(a.T if transA else a, b.T if transB else b)
    y = y if alpha == 1 else alpha * y
    return y if c is None else y + (c if beta == 1 else beta * c)


# ***** convolution and pooling *****


def Conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    n = x.ndim - 2
    strides, dilations = strides or (1,) * n, dilations or (1,) * n
    padding = geometry.conv_pads(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    spec = ("NCHWD"[: n + 2], "OIHWD"[: n + 2], "NCHWD"[: n + 2])
    y = lax.conv_general_dilated(
        x, w, strides, padding, rhs_dilation=dilations, dimension_numbers=spec, feature_group_count=group
    )
    return y if b is None else y + b.reshape(-1, *(1,) * n)


def _reduce_window(x, start, function, kernel, strides, dilations, padding):
    whole = [(0, 0), (0, 0), *padding]
    return lax.reduce_window(x, start, function, (1, 1, *kernel), (1, 1, *strides), whole, None, (1, 1, *dilations))


def MaxPool(
    x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, dilations=None, pads=None, storage_order=0, strides=None
):
    strides, dilations, _, padding = geometry.window(
        x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    return _reduce_window(x, -jnp.inf, lax.max, kernel_shape, strides, dilations, padding)


def AveragePool(
    x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=None, pads=None, strides=None
):
    strides, dilations, given, padding = geometry.window(
        x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    counted = given if count_include_pad else [(0, 0)] * len(kernel_shape)
    counts = geometry.window_counts(x.shape[2:], kernel_shape, strides, dilations, padding, counted)
    return _reduce_window(x, 0.0, lax.add, kernel_shape, strides, dilations, padding) / counts.astype(x.dtype)


def GlobalAveragePool(x):
    return x.mean(tuple(range(2, x.ndim)), keepdims=True)


def GlobalMaxPool(x):
    return x.max(tuple(range(2, x.ndim)), keepdims=True)


# ***** normalisation *****


def _column(v, x):
    return v.reshape(1, -1, *(1,) * (x.ndim - 2))


def BatchNormalization(x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=0, unbiased=0):
    """Returns y and the running mean and variance, which change in training. ONNX's momentum is 1 - PyTorch's."""
    if training_mode:
        axes, n = (0, *range(2, x.ndim)), x.size // x.shape[1]
        batch_mean, batch_var = x.mean(axes), x.var(axes)
        kept = lax.stop_gradient(batch_var) * (n / (n - 1) if unbiased and n > 1 else 1)
        running = (
            mean * momentum + lax.stop_gradient(batch_mean) * (1 - momentum),
            var * momentum + kept * (1 - momentum),
        )
    else:
        batch_mean, batch_var, running = mean, var, (mean, var)
    factor = scale * lax.rsqrt(batch_var + epsilon)
    return (x - _column(batch_mean, x)) * _column(factor, x) + _column(bias, x), *running


def LayerNormalization(x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1):
    axes = tuple(range(axis % x.ndim, x.ndim))
    y = (x - x.mean(axes, keepdims=True)) * lax.rsqrt(x.var(axes, keepdims=True) + epsilon) * scale
    return y if bias is None else y + bias


# ***** reductions *****


def _reduce(function):
    def operator(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        if not axes and noop_with_empty_axes:
            return x
        return function(x, axis=tuple(axes) if axes else None, keepdims=bool(keepdims))

    return operator


ReduceMean = _reduce(jnp.mean)
ReduceSum = _reduce(jnp.sum)
ReduceMax = _reduce(jnp.max)
ReduceMin = _reduce(jnp.min)
ReduceProd = _reduce(jnp.prod)


def ArgMax(x, *, axis=0, keepdims=1, select_last_index=0):
    return jnp.argmax(x, axis, keepdims=bool(keepdims))


# ***** shape and selection *****


def Reshape(x, shape, *, allowzero=0):
    return x.reshape(geometry.new_shape(x.shape, shape, allowzero))


def Flatten(x, *, axis=1):
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


def Squeeze(x, axes=None):
    return _numpy(x).squeeze(x, axis=None if axes is None else tuple(axes))


def Unsqueeze(x, axes):
    return _numpy(x).expand_dims(x, tuple(axes))


def Concat(*arrays, axis):
    return _numpy(*arrays).concatenate(arrays, axis)


def Split(x, split=None, *, axis=0, num_outputs=None):
    sizes = geometry.split_sizes(x.shape[axis], split, num_outputs)
    return _numpy(x).split(x, np.cumsum(sizes)[:-1], axis)


def Gather(x, indices, *, axis=0):
    if _numpy(x, indices) is np:
        return np.take(x, indices, axis)
    indices = jnp.asarray(indices)
    return jnp.take(x, jnp.where(indices < 0, indices + x.shape[axis], indices), axis, mode="clip")


def Expand(x, shape):
    shape = tuple(int(n) for n in shape)
    return _numpy(x).broadcast_to(x, np.broadcast_shapes(np.shape(x), shape))


def Tile(x, repeats):
    return _numpy(x).tile(x, tuple(int(n) for n in repeats))


def Pad(x, pads, value=0, axes=None, *, mode="constant"):
    widths = geometry.pad_widths(x.ndim, pads, axes)
    return (
        lax.pad(x, jnp.asarray(value or 0, x.dtype), [(*w, 0) for w in widths])
        if mode == "constant"
        else jnp.pad(x, widths, mode={"wrap": "wrap", "edge": "edge", "reflect": "reflect"}[mode])
    )


def Trilu(x, k=0, *, upper=1):
    return (jnp.triu if upper else jnp.tril)(x, int(k or 0))


# ***** recurrent *****


def _directions(cell, x, w, r, direction, states):
    """Runs a cell over time, forward, in reverse or both, and stacks the directions as ONNX does."""
    flips = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    ys, finals = [], []
    for d, reverse in enumerate(flips):
        final, y = lax.scan(cell(d), tuple(s[d] for s in states), x @ w[d].T, reverse=reverse)
        ys.append(y)
        finals.append(final)
    return jnp.stack(ys, 1), *(jnp.stack(parts) for parts in zip(*finals, strict=True))


def _bias(b, d, r):
    return (jnp.zeros(r.shape[1], r.dtype),) * 2 if b is None else jnp.split(b[d], 2)


def _initial(state, x, r):
    return jnp.zeros((r.shape[0], x.shape[1], r.shape[2]), x.dtype) if state is None else state


def LSTM(x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, *, hidden_size=None, direction="forward"):
    """x: (time, batch, input). Gates in ONNX's order i, o, f, c. Returns Y, Y_h, Y_c."""
    if lengths is not None or p is not None:
        raise NotImplementedError("LSTM with sequence lengths or peepholes")

    def cell(d):
        bias = sum(_bias(b, d, r))

        def step(state, xw):
            h, c = state
            i, o, f, g = jnp.split(xw + h @ r[d].T + bias, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return step

    return _directions(cell, x, w, r, direction, (_initial(h0, x, r), _initial(c0, x, r)))


def GRU(x, w, r, b=None, lengths=None, h0=None, *, hidden_size=None, direction="forward", linear_before_reset=0):
    """x: (time, batch, input). Gates in ONNX's order z, r, h. Returns Y, Y_h."""
    if lengths is not None:
        raise NotImplementedError("GRU with sequence lengths")

    def cell(d):
        wb, rb = _bias(b, d, r)
        (rz, rr, rh), (bz, br, bh) = jnp.split(r[d], 3), jnp.split(rb, 3)

        def step(state, xw):
            (h,) = state
            xz, xr, xh = jnp.split(xw + wb, 3, -1)
            z, reset = jax.nn.sigmoid(xz + h @ rz.T + bz), jax.nn.sigmoid(xr + h @ rr.T + br)
            inner = reset * (h @ rh.T + bh) if linear_before_reset else (reset * h) @ rh.T + bh
            h = (1 - z) * jnp.tanh(xh + inner) + z * h
            return (h,), h

        return step

    return _directions(cell, x, w, r, direction, (_initial(h0, x, r),))


def cross_entropy(logits, labels):
    """Mean cross entropy of logits (..., classes) with integer labels (...)."""
    logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -picked.mean()


TABLE = {
    **ROWS,
    **{name: value for name, value in globals().items() if name[0].isupper() and name != "ROWS"},
}
