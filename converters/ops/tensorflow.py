"""ONNX operators in TensorFlow: its own kernels, and for all others those of `converters/ops/generic/` in its arrays.

Images are in ONNX's NCHW layout, which TensorFlow runs on GPUs and, through oneDNN, on CPUs (without oneDNN they are
transposed around every convolution and pooling), or, if the text says `channels_last`, in TensorFlow's own. Other
padding than TensorFlow's SAME is done by `tf.pad`: with explicit padding a convolution's backward pass takes a kernel
1.5 times slower on CPUs.
"""

import functools

import numpy as np
import tensorflow as tf

from xbench.converters.ops import geometry
from xbench.converters.ops.arrays import tensorflow as arrays
from xbench.converters.ops.generic import elementwise, normalize, operators, pool

# ***** elementwise *****


def Relu(x):
    return tf.nn.relu(x)


def LeakyRelu(x, *, alpha=0.01):
    return tf.nn.leaky_relu(x, alpha)


def Gelu(x, *, approximate="none"):
    if approximate == "tanh":
        return tf.nn.gelu(x, approximate=True)
    return elementwise.Gelu(arrays, x)  # TensorFlow's own uses erfc: twice as slow on CPUs, and unknown to tf2onnx


def Softplus(x):
    return tf.nn.softplus(x)


def Softmax(x, *, axis=-1):
    return tf.nn.softmax(x, axis=axis)


def LogSoftmax(x, *, axis=-1):
    return tf.nn.log_softmax(x, axis=axis)


def Clip(x, low=None, high=None):
    if low == 0 and high == 6 and arrays.is_array(x):
        return tf.nn.relu6(x)
    return elementwise.Clip(arrays, x, low, high)


# ***** matrix products *****


def MatMul(a, b):
    if len(a.shape) > 1 < len(b.shape):
        return tf.matmul(a, b)
    return tf.tensordot(a, b, [[len(a.shape) - 1], [max(len(b.shape) - 2, 0)]])


def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    if len(a.shape) > 2:  # else b gets a gradient of each matrix, and oneDNN has no kernel with a bias
        y = Gemm(tf.reshape(a, (-1, a.shape[-1])), b, c, alpha=alpha, beta=beta, transB=transB)
        return tf.reshape(y, tf.concat([tf.shape(a)[:-1], tf.shape(y)[-1:]], 0))
    y = tf.matmul(a, b, transpose_a=bool(transA), transpose_b=bool(transB))
    y = y if alpha == 1 else alpha * y
    return y if c is None else tf.nn.bias_add(y, c) if beta == 1 and c.shape == y.shape[-1:] else y + beta * c


def ScaledDotProductAttention(q, k, v, mask=None, *, scale=1.0):
    """Softmax(scale * q k^T + mask) v of (batch, heads, length, width)."""
    scores = tf.matmul(q * scale, k, transpose_b=True)
    return tf.matmul(tf.nn.softmax(scores if mask is None else scores + mask), v)


# ***** convolution and pooling *****


def _channels_first(x):
    """Whether TensorFlow has its kernels for channels first: on GPUs and, with oneDNN, on CPUs, but not for 16 bits."""
    narrow = x.dtype in (tf.float16, tf.bfloat16)
    return bool(tf.config.list_physical_devices("GPU")) or (arrays.has_onednn() and not narrow)


def _laid_out(kernel, x, channels_last):
    """`kernel(x, layout)` for an image x, in the layout that TensorFlow supports."""
    n = len(x.shape) - 2
    if channels_last:
        return kernel(x, LAST[n])
    if _channels_first(x):
        return kernel(x, FIRST[n])
    y = kernel(tf.transpose(x, [0, *range(2, n + 2), 1]), LAST[n])
    return tf.transpose(y, [0, n + 1, *range(1, n + 1)])


FIRST, LAST = ("", "NCW", "NCHW", "NCDHW"), ("", "NWC", "NHWC", "NDHWC")


def _in_layout(channels_last, channels, spatial, batch=1):
    """A value per axis of an image, in the order of its axes."""
    return [batch, *spatial, channels] if channels_last else [batch, channels, *spatial]


def _spatial(x, channels_last):
    """The lengths of an image's spatial axes."""
    return x.shape[1:-1] if channels_last else x.shape[2:]


def _channels(x, channels_last):
    return x.shape[-1] if channels_last else x.shape[1]


def _padded(x, pads, channels_last, value=0):
    """Pads the spatial axes or, where negative, crops them; returns the array unchanged if there is nothing to do."""
    return arrays.pad(x, _in_layout(channels_last, (0, 0), pads, (0, 0)), value) if any(map(any, pads)) else x


def _biased(y, b, channels_last):
    return y if b is None else tf.nn.bias_add(y, b, None if channels_last else "NCHW")


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
    """One, two or three spatial axes; depthwise convolutions use TensorFlow's own kernel."""
    n, spatial = len(x.shape) - 2, _spatial(x, channels_last)
    strides, dilations = list(strides or (1,) * n), list(dilations or (1,) * n)
    depthwise = n == 2 and group == _channels(x, channels_last) and group > 1
    # TensorFlow's kernels support either strides or dilations, and the depthwise one only equal strides.
    sliced = max(strides) > 1 < max(dilations) or (depthwise and len(set(strides)) > 1)
    steps = [1] * n if sliced else strides
    padding = geometry.conv_pads(spatial, w.shape[2:], strides, dilations, pads, auto_pad)
    same = padding == geometry.conv_pads(spatial, w.shape[2:], steps, dilations, None, "SAME_UPPER")
    x = x if same else _padded(x, padding, channels_last)
    form = {"strides": steps, "dilations": dilations, "padding": "SAME" if same else "VALID"}
    if depthwise:
        y = _depthwise(x, w, channels_last=channels_last, **form)
    else:
        y = _by_group(functools.partial(_convolved, **form), x, w, group, channels_last)
    taken = _in_layout(channels_last, slice(None), [slice(None, None, s) for s in strides], slice(None))
    return _biased(y[tuple(taken)] if sliced else y, b, channels_last)


def _kernel(w, n):
    return tf.transpose(w, [*range(2, n + 2), 1, 0])


def _convolved(x, w, group, *, strides, dilations, padding, channels_last):
    kernel = _kernel(w, len(strides))
    return _laid_out(
        lambda x, layout: tf.nn.convolution(x, kernel, strides, padding, layout, dilations), x, channels_last
    )


def _by_group(convolve, x, w, group, channels_last):
    """`convolve(x, w, group)`, one group at a time if TensorFlow has no kernel or no gradient for groups."""
    convolve = functools.partial(convolve, channels_last=channels_last)
    if group == 1 or (len(x.shape) < 5 and _channels_first(x)):
        return convolve(x, w, group)
    axis = -1 if channels_last else 1
    parts = zip(tf.split(x, group, axis), tf.split(w, group), strict=True)
    return tf.concat([convolve(*part, 1) for part in parts], axis)


def _depthwise(x, w, *, strides, dilations, padding, channels_last):
    channels, height, width = _channels(x, channels_last), *w.shape[2:]
    kernel = tf.reshape(tf.transpose(w, [2, 3, 0, 1]), [height, width, channels, w.shape[0] // channels])

    def convolve(x, layout):
        steps = _in_layout(layout == "NHWC", 1, strides)
        return tf.nn.depthwise_conv2d(x, kernel, steps, padding, layout, dilations)

    return _laid_out(convolve, x, channels_last)


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
    """The gradient of a convolution with respect to its input; one spatial axis becomes two, one of length one."""
    n = len(x.shape) - 2
    strides, dilations = list(strides or (1,) * n), list(dilations or (1,) * n)
    crops = geometry.transpose_crops(
        _spatial(x, channels_last), w.shape[2:], strides, dilations, pads, auto_pad, output_padding, output_shape
    )
    height = 1 if channels_last else 2  # the axis of length one
    if n == 1:
        x, w, strides, dilations = tf.expand_dims(x, height), w[:, :, None], [1, *strides], [1, *dilations]
    y = _by_group(functools.partial(_transposed, strides=strides), x, _spread(w, dilations), group, channels_last)
    y = _padded(tf.squeeze(y, height) if n == 1 else y, [(-low, -high) for low, high in crops], channels_last)
    return _biased(y, b, channels_last)


def _spread(w, dilations):
    """The kernel with zeros between its elements: on CPUs TensorFlow does not dilate transposed convolutions."""
    for axis, (k, d) in enumerate(zip(w.shape[2:], dilations, strict=True), 2):
        if d > 1:
            gaps = [(0, d - 1 if a == axis + 1 else 0) for a in range(len(w.shape) + 1)]
            wide = tf.reshape(tf.pad(tf.expand_dims(w, axis + 1), gaps), [*w.shape[:axis], k * d, *w.shape[axis + 1 :]])
            w = tf.gather(wide, range((k - 1) * d + 1), axis=axis)
    return w


def _transposed(x, w, group, *, strides, channels_last):
    axes = zip(_spatial(x, channels_last), w.shape[2:], strides, strict=True)
    spatial = [(n - 1) * s + k for n, k, s in axes]
    function = tf.raw_ops.Conv2DBackpropInput if len(strides) == 2 else tf.raw_ops.Conv3DBackpropInputV2
    kernel, batch, channels = _kernel(w, len(strides)), x.shape[0], w.shape[1] * group

    def convolve(x, layout):
        order = layout[-1] == "C"
        return function(
            input_sizes=_in_layout(order, channels, spatial, batch),
            filter=kernel,
            out_backprop=x,
            strides=_in_layout(order, 1, strides),
            padding="VALID",
            data_format=layout,
        )

    return _laid_out(convolve, x, channels_last)


def _pool(x, kind, kernel, strides, channels_last):
    function = tf.nn.max_pool if kind == "MAX" else tf.nn.avg_pool
    return _laid_out(lambda x, layout: function(x, list(kernel), strides, "VALID", layout), x, channels_last)


def MaxPool(x, *, outputs=1, **attributes):
    if outputs > 1 or max(attributes.get("dilations", (1,))) > 1 or not x.dtype.is_floating:
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
    return _pool(_padded(x, padding, channels_last, x.dtype.min), "MAX", kernel_shape, strides, channels_last)


def AveragePool(x, **attributes):
    if max(attributes.get("dilations", (1,))) > 1:
        return pool.AveragePool(arrays, x, **attributes)
    return _average_pool(x, **attributes)


def _average_pool(
    x,
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
    y = _pool(_padded(x, padding, channels_last), "AVG", kernel_shape, strides, channels_last)
    scale = np.prod(kernel_shape) / (counts[..., None] if channels_last else counts)
    return y if (scale == 1).all() else y * tf.constant(scale, x.dtype)


# ***** normalisation *****


def BatchNormalization(
    x, scale, bias, mean, var, *, channels_last=0, epsilon=1e-5, momentum=0.9, training_mode=0, unbiased=0
):
    """Returns y and the running mean and variance, which change in training. ONNX's momentum is 1 - PyTorch's.

    With four axes it is TensorFlow's fused kernel, which returns the Bessel-corrected variance of the batch.
    """
    n = int(np.prod(x.shape)) // _channels(x, channels_last)
    if len(x.shape) == 4:
        layout = "NHWC" if channels_last else "NCHW"
        known = {"scale": scale, "offset": bias} | ({} if training_mode else {"mean": mean, "variance": var})
        known = {name: tf.cast(each, tf.float32) for name, each in known.items()}  # only the image may have 16 bits
        y, batch_mean, batch_var = tf.compat.v1.nn.fused_batch_norm(
            x, epsilon=epsilon, data_format=layout, is_training=bool(training_mode), **known
        )
        batch_var = batch_var if unbiased else batch_var * ((n - 1) / n)
    elif training_mode:
        axes = [axis for axis in range(len(x.shape)) if axis != (len(x.shape) - 1 if channels_last else 1)]
        batch_mean, biased = tf.nn.moments(x, axes)
        batch_var = biased * (n / (n - 1)) if unbiased and n > 1 else biased
        y = _normalised(x, batch_mean, biased, scale, bias, epsilon, channels_last)
    else:
        y = _normalised(x, mean, var, scale, bias, epsilon, channels_last)
    if not training_mode:
        return y, mean, var
    return y, mean * momentum + batch_mean * (1 - momentum), var * momentum + batch_var * (1 - momentum)


def _normalised(x, mean, var, scale, bias, epsilon, channels_last):
    shape = [-1] if channels_last else [1, -1, *[1] * (len(x.shape) - 2)]
    mean, factor, bias = (tf.reshape(v, shape) for v in (mean, scale * tf.math.rsqrt(var + epsilon), bias))
    return (x - mean) * factor + bias


def LayerNormalization(x, scale, bias=None, *, outputs=1, **attributes):
    if outputs > 1:
        return normalize.LayerNormalization(arrays, x, scale, bias, outputs=outputs, **attributes)
    return _layer_norm(x, scale, bias, **attributes)


def _layer_norm(x, scale, bias, axis=-1, epsilon=1e-5, stash_type=1):
    mean, var = tf.nn.moments(x, list(range(axis % len(x.shape), len(x.shape))), keepdims=True)
    y = (x - mean) * (tf.math.rsqrt(var + epsilon) * scale)
    return y if bias is None else y + bias


def cross_entropy(logits, labels):
    """Mean cross entropy of logits (..., classes) with integer labels (...)."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def mean_squared_error(y, target):
    return tf.reduce_mean(tf.math.squared_difference(y, target))


def own_loss(y, target):
    """A loss that the network computes itself."""
    return tf.reduce_mean(y)


def binary_cross_entropy(logits, target):
    """Mean over all logits; targets lie between 0 and 1."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(target, logits))


TABLE = operators(arrays, globals())
