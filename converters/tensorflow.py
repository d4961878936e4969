"""ONNX operators in TensorFlow, named as ONNX names them: arrays by position, attributes by keyword.

Shapes are static while a `tf.function` is traced, so operators that compute shapes work in NumPy when all they are
given is NumPy. Arrays stay in ONNX's NCHW layout, which TensorFlow runs on GPUs and, through oneDNN, on x86 CPUs.
Convolutions pad with `tf.pad`: with explicit padding their backward pass takes a kernel 1.5 times slower on CPUs.
"""

import functools

import numpy as np
import tensorflow as tf

from xbench.converters import _shared, geometry


def _known(*arrays):
    """Whether every operand is plain Python or NumPy, so that the result is arithmetic on shapes."""
    return not any(tf.is_tensor(a) for a in arrays)


# ***** elementwise: what the framework has under another name or the same *****

ROWS = {
    **_shared.ROWS,
    "Sqrt": tf.sqrt,
    "Exp": tf.exp,
    "Log": tf.math.log,
    "Abs": tf.abs,
    "Floor": tf.floor,
    "Erf": tf.math.erf,
    "Tanh": tf.tanh,
    "Sigmoid": tf.sigmoid,
    "Relu": tf.nn.relu,
    "Equal": tf.equal,
    "Not": tf.logical_not,
    "And": tf.logical_and,
    "Or": tf.logical_or,
    "LeakyRelu": lambda x, *, alpha=0.01: tf.nn.leaky_relu(x, alpha),
    "Einsum": lambda *arrays, equation: tf.einsum(equation, *arrays),
    "Softmax": lambda x, *, axis=-1: tf.nn.softmax(x, axis=axis),
    "LogSoftmax": lambda x, *, axis=-1: tf.nn.log_softmax(x, axis=axis),
    "Transpose": lambda x, *, perm=None: tf.transpose(x, perm),
}


def Div(a, b):
    if _known(a, b):
        return a // b if np.issubdtype(np.result_type(a), np.integer) else a / b
    whole = next(x for x in (a, b) if tf.is_tensor(x)).dtype.is_integer
    return tf.truncatediv(a, b) if whole else a / b


def Pow(a, b):
    return tf.pow(a, tf.cast(b, a.dtype))


def HardSigmoid(x, *, alpha=0.2, beta=0.5):
    return tf.clip_by_value(alpha * x + beta, 0, 1)


def HardSwish(x):
    return x * HardSigmoid(x, alpha=1 / 6)


def Gelu(x, *, approximate="none"):
    return tf.nn.gelu(x, approximate=approximate == "tanh")


def Clip(x, low=None, high=None):
    if low == 0 and high == 6:
        return tf.nn.relu6(x)
    x = x if low is None else tf.maximum(x, low)
    return x if high is None else tf.minimum(x, high)


def Min(*arrays):
    return functools.reduce(tf.minimum, arrays)


def Max(*arrays):
    return functools.reduce(tf.maximum, arrays)


def Where(condition, a, b):
    like = next((x for x in (a, b) if tf.is_tensor(x)), None)
    a, b = (x if tf.is_tensor(x) or like is None else tf.constant(x, like.dtype) for x in (a, b))
    return tf.where(condition, a, b)


def Cast(x, *, to, saturate=1):
    return np.asarray(x).astype(_shared.DTYPES[to]) if _known(x) else tf.cast(x, _shared.DTYPES[to])


def Dropout(x, ratio=0.5, training=False, *, seed=0, rng=None):
    return tf.nn.dropout(x, ratio) if training and rng is not None else x


# ***** matrix products *****


def MatMul(a, b):
    if len(a.shape) > 1 < len(b.shape):
        return tf.matmul(a, b)
    return tf.tensordot(a, b, [[len(a.shape) - 1], [max(len(b.shape) - 2, 0)]])


def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = tf.matmul(a, b, transpose_a=bool(transA), transpose_b=bool(transB))
    y = y if alpha == 1 else alpha * y
    return y if c is None else tf.nn.bias_add(y, c) if beta == 1 and c.shape == y.shape[1:] else y + beta * c


# ***** convolution and pooling *****


def _padded(x, pads, value=0):
    """Pads the spatial axes; returns the array as it is where there is nothing to pad."""
    return tf.pad(x, [(0, 0), (0, 0), *pads], constant_values=value) if any(map(any, pads)) else x


def Conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    """One, two or three spatial axes; depthwise convolutions take TensorFlow's own kernel."""
    n = len(x.shape) - 2
    strides, dilations = list(strides or (1,) * n), list(dilations or (1,) * n)
    x = _padded(x, geometry.conv_pads(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad))
    both = max(strides) > 1 < max(dilations)  # TensorFlow's kernels know only one of the two
    steps = [1] * n if both else strides
    if n == 2 and group == x.shape[1] and group > 1:
        y = _depthwise(x, w, steps, dilations)
    else:
        kernel, layout = tf.transpose(w, [*range(2, n + 2), 1, 0]), ("NCW", "NCHW", "NCDHW")[n - 1]
        y = tf.nn.convolution(x, kernel, steps, "VALID", layout, dilations)
    y = y[(..., *(slice(None, None, s) for s in strides))] if both else y
    return y if b is None else tf.nn.bias_add(y, b, "NCHW")


def _depthwise(x, w, strides, dilations):
    channels, (multiplier, height, width) = x.shape[1], (w.shape[0] // x.shape[1], *w.shape[2:])
    kernel = tf.reshape(tf.transpose(w, [2, 3, 0, 1]), [height, width, channels, multiplier])
    return tf.nn.depthwise_conv2d(x, kernel, [1, 1, *strides], "VALID", "NCHW", dilations)


def _pool(x, kind, kernel, strides):
    layout = ("NCW", "NCHW", "NCDHW")[len(kernel) - 1]
    function = tf.nn.max_pool if kind == "MAX" else tf.nn.avg_pool
    return function(x, list(kernel), strides, "VALID", layout)


def MaxPool(
    x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, dilations=None, pads=None, storage_order=0, strides=None
):
    strides, dilations, _, padding = geometry.window(
        x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    if any(d != 1 for d in dilations):
        raise NotImplementedError("MaxPool with dilations")
    return _pool(_padded(x, padding, x.dtype.min), "MAX", kernel_shape, strides)


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
    y, scale = _pool(_padded(x, padding), "AVG", kernel_shape, strides), np.prod(kernel_shape) / counts
    return y if (scale == 1).all() else y * tf.constant(scale, x.dtype)


def GlobalAveragePool(x):
    return tf.reduce_mean(x, range(2, len(x.shape)), keepdims=True)


def GlobalMaxPool(x):
    return tf.reduce_max(x, range(2, len(x.shape)), keepdims=True)


# ***** normalisation *****


def _column(v, x):
    return tf.reshape(v, [1, -1, *[1] * (len(x.shape) - 2)])


def BatchNormalization(x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=0, unbiased=0):
    """Returns y and the running mean and variance, which change in training. ONNX's momentum is 1 - PyTorch's.

    With four axes it is TensorFlow's fused kernel, which returns the Bessel-corrected variance of the batch.
    """
    if len(x.shape) == 4:
        given = {} if training_mode else {"mean": mean, "variance": var}
        y, batch_mean, batch_var = tf.compat.v1.nn.fused_batch_norm(
            x, scale, bias, epsilon=epsilon, data_format="NCHW", is_training=bool(training_mode), **given
        )
        n = int(np.prod(x.shape)) // x.shape[1]
        batch_var = batch_var if unbiased else batch_var * ((n - 1) / n)
    elif training_mode:
        axes, n = [0, *range(2, len(x.shape))], int(np.prod(x.shape)) // x.shape[1]
        batch_mean, biased = tf.nn.moments(x, axes)
        batch_var = biased * (n / (n - 1)) if unbiased and n > 1 else biased
        y = _normalised(x, batch_mean, biased, scale, bias, epsilon)
    else:
        y = _normalised(x, mean, var, scale, bias, epsilon)
    if not training_mode:
        return y, mean, var
    return y, mean * momentum + batch_mean * (1 - momentum), var * momentum + batch_var * (1 - momentum)


def _normalised(x, mean, var, scale, bias, epsilon):
    return (x - _column(mean, x)) * _column(scale * tf.math.rsqrt(var + epsilon), x) + _column(bias, x)


def LayerNormalization(x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1):
    mean, var = tf.nn.moments(x, list(range(axis % len(x.shape), len(x.shape))), keepdims=True)
    y = (x - mean) * (tf.math.rsqrt(var + epsilon) * scale)
    return y if bias is None else y + bias


# ***** reductions *****


def _reduce(function):
    def operator(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        if not axes and noop_with_empty_axes:
            return x
        return function(x, axis=list(axes) if axes else None, keepdims=bool(keepdims))

    return operator


ReduceMean = _reduce(tf.reduce_mean)
ReduceSum = _reduce(tf.reduce_sum)
ReduceMax = _reduce(tf.reduce_max)
ReduceMin = _reduce(tf.reduce_min)
ReduceProd = _reduce(tf.reduce_prod)


def ArgMax(x, *, axis=0, keepdims=1, select_last_index=0):
    y = tf.argmax(x, axis)
    return tf.expand_dims(y, axis) if keepdims else y


# ***** shape and selection *****


def Reshape(x, shape, *, allowzero=0):
    shape = geometry.new_shape(x.shape, shape, allowzero)
    return x.reshape(shape) if _known(x) else tf.reshape(x, shape)


def Flatten(x, *, axis=1):
    return tf.reshape(x, [int(np.prod(x.shape[:axis])), -1])


def Squeeze(x, axes=None):
    axes = None if axes is None else tuple(axes)
    return np.squeeze(x, axes) if _known(x) else tf.squeeze(x, axes)


def Unsqueeze(x, axes):
    if _known(x):
        return np.expand_dims(x, tuple(axes))
    rank = len(x.shape) + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = tf.expand_dims(x, axis)
    return x


def Concat(*arrays, axis):
    return np.concatenate(arrays, axis) if _known(*arrays) else tf.concat(arrays, axis)


def Split(x, split=None, *, axis=0, num_outputs=None):
    return tf.split(x, geometry.split_sizes(x.shape[axis], split, num_outputs), axis)


def Gather(x, indices, *, axis=0):
    if _known(x, indices):
        return np.take(x, indices, axis)
    if _known(indices):
        return tf.gather(x, np.asarray(indices) % x.shape[axis], axis=axis)
    return tf.gather(x, tf.where(indices < 0, indices + x.shape[axis], indices), axis=axis)


def Expand(x, shape):
    shape = np.broadcast_shapes(tuple(np.shape(x) if _known(x) else x.shape), tuple(int(n) for n in shape))
    return np.broadcast_to(x, shape) if _known(x) else tf.broadcast_to(x, shape)


def Tile(x, repeats):
    return tf.tile(x, [int(n) for n in repeats])


def Pad(x, pads, value=0, axes=None, *, mode="constant"):
    widths = geometry.pad_widths(len(x.shape), pads, axes)
    if mode not in ("constant", "reflect") or np.min(widths) < 0:
        raise NotImplementedError(f"Pad with mode={mode} and pads={pads}")
    return tf.pad(x, widths, mode.upper(), value or 0)


def Trilu(x, k=0, *, upper=1):
    k, shape = int(k or 0), x.shape[-2:]
    keep = np.triu(np.ones(shape, bool), k) if upper else np.tril(np.ones(shape, bool), k)
    return tf.where(keep, x, tf.zeros([], x.dtype))


# ***** recurrent *****


def _scan(step, states, xw, reverse):
    """Runs a cell over the first axis, which is time; returns the outputs in order of time and the last states."""
    time = xw.shape[0]
    xw = tf.reverse(xw, [0]) if reverse else xw
    outputs = tf.TensorArray(xw.dtype, time, element_shape=states[0].shape)
    rows = tf.TensorArray(xw.dtype, time).unstack(xw)

    def body(t, states, outputs):
        states = step(states, rows.read(t))
        return t + 1, states, outputs.write(t, states[0])

    _, states, outputs = tf.while_loop(lambda t, *_: t < time, body, (0, states, outputs), maximum_iterations=time)
    y = outputs.stack()
    return tf.reverse(y, [0]) if reverse else y, states


def _directions(cell, x, w, direction, states):
    """Runs a cell forward, in reverse or both, and stacks the directions as ONNX does."""
    flips = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    ys, finals = [], []
    for d, reverse in enumerate(flips):
        xw = tf.tensordot(x, tf.transpose(w[d]), 1)
        y, final = _scan(cell(d), tuple(s[d] for s in states), xw, reverse)
        ys.append(y)
        finals.append(final)
    return tf.stack(ys, 1), *(tf.stack(parts) for parts in zip(*finals, strict=True))


def _bias(b, d, r):
    return (tf.zeros(r.shape[1], r.dtype),) * 2 if b is None else tf.split(b[d], 2)


def _initial(state, x, r):
    return tf.zeros((r.shape[0], x.shape[1], r.shape[2]), x.dtype) if state is None else state


def LSTM(x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, *, hidden_size=None, direction="forward"):
    """x: (time, batch, input). Gates in ONNX's order i, o, f, c. Returns Y, Y_h, Y_c."""
    if lengths is not None or p is not None:
        raise NotImplementedError("LSTM with sequence lengths or peepholes")

    def cell(d):
        bias, kernel = tf.add_n(_bias(b, d, r)), tf.transpose(r[d])

        def step(states, xw):
            h, c = states
            i, o, f, g = tf.split(tf.nn.bias_add(xw + tf.matmul(h, kernel), bias), 4, -1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            return tf.sigmoid(o) * tf.tanh(c), c

        return step

    return _directions(cell, x, w, direction, (_initial(h0, x, r), _initial(c0, x, r)))


def GRU(x, w, r, b=None, lengths=None, h0=None, *, hidden_size=None, direction="forward", linear_before_reset=0):
    """x: (time, batch, input). Gates in ONNX's order z, r, h. Returns Y, Y_h."""
    if lengths is not None or not linear_before_reset:
        raise NotImplementedError("GRU with sequence lengths or with linear_before_reset=0")

    def cell(d):
        (wb, rb), kernel = _bias(b, d, r), tf.transpose(r[d])

        def step(states, xw):
            (h,) = states
            xz, xr, xh = tf.split(tf.nn.bias_add(xw, wb), 3, -1)
            hz, hr, hh = tf.split(tf.nn.bias_add(tf.matmul(h, kernel), rb), 3, -1)
            z, reset = tf.sigmoid(xz + hz), tf.sigmoid(xr + hr)
            return ((1 - z) * tf.tanh(xh + reset * hh) + z * h,)

        return step

    return _directions(cell, x, w, direction, (_initial(h0, x, r),))


def cross_entropy(logits, labels):
    """Mean cross entropy of logits (..., classes) with integer labels (...)."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


TABLE = {
    **ROWS,
    **{name: value for name, value in globals().items() if name[0].isupper() and name != "ROWS"},
}
