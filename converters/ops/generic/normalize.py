"""Normalisations, and the exponentials that sum to one. Statistics are over the axes each operator names."""

import numpy as np


def _column(xp, v, x):
    """A vector over the channels, which are axis 1 of x."""
    return xp.reshape(v, (1, -1) + (1,) * (len(xp.shape(x)) - 2))


def _standardized(xp, x, axis, epsilon):
    centred = x - xp.mean(x, axis, True)
    return centred / xp.sqrt(xp.mean(centred * centred, axis, True) + epsilon)


def Softmax(xp, x, *, axis=-1):
    exponentials = xp.exp(x - xp.max(x, axis, True))
    return exponentials / xp.sum(exponentials, axis, True)


def LogSoftmax(xp, x, *, axis=-1):
    centred = x - xp.max(x, axis, True)
    return centred - xp.log(xp.sum(xp.exp(centred), axis, True))


def Hardmax(xp, x, *, axis=-1):
    length = xp.shape(x)[axis]
    ramp = np.arange(length).reshape([-1 if a == axis % len(xp.shape(x)) else 1 for a in range(len(xp.shape(x)))])
    first = xp.expand_dims(xp.argmax(x, axis), (axis % len(xp.shape(x)),))
    return xp.astype(xp.equal(first, xp.asarray(ramp, first)), xp.type_of(x))


def BatchNormalization(xp, x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=0, unbiased=0):
    """Returns y and the running mean and variance, which change in training. ONNX's momentum is 1 - PyTorch's."""
    running = (mean, var)
    if training_mode:
        axes, n = (0, *range(2, len(xp.shape(x)))), int(np.prod(xp.shape(x))) // xp.shape(x)[1]
        mean = xp.mean(x, axes)
        centred = x - _column(xp, mean, x)
        var = xp.mean(centred * centred, axes)
        kept = var * (n / (n - 1)) if unbiased and n > 1 else var
        running = tuple(old * momentum + new * (1 - momentum) for old, new in zip(running, (mean, kept), strict=True))
    y = (x - _column(xp, mean, x)) * _column(xp, scale / xp.sqrt(var + epsilon), x) + _column(xp, bias, x)
    return y, *running


def LayerNormalization(xp, x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1, outputs=1):
    """Returns y, and if they are read the mean and the inverse standard deviation."""
    axes = tuple(range(axis % len(xp.shape(x)), len(xp.shape(x))))
    mean = xp.mean(x, axes, True)
    centred = x - mean
    inverse = 1 / xp.sqrt(xp.mean(centred * centred, axes, True) + epsilon)
    y = centred * inverse * scale
    y = y if bias is None else y + bias
    return y if outputs == 1 else (y, mean, inverse)[:outputs]


def RMSNormalization(xp, x, scale, *, axis=-1, epsilon=1e-5, stash_type=1):
    axes = tuple(range(axis % len(xp.shape(x)), len(xp.shape(x))))
    return x / xp.sqrt(xp.mean(x * x, axes, True) + epsilon) * scale


def InstanceNormalization(xp, x, scale, bias, *, epsilon=1e-5):
    y = _standardized(xp, x, tuple(range(2, len(xp.shape(x)))), epsilon)
    return y * _column(xp, scale, x) + _column(xp, bias, x)


def GroupNormalization(xp, x, scale, bias, *, num_groups, epsilon=1e-5, stash_type=1):
    """Scale and bias are one number per channel (opset 21) or per group (opset 18)."""
    n, channels, *rest = xp.shape(x)
    grouped = xp.reshape(x, (n, num_groups, -1))
    y = _standardized(xp, grouped, (2,), epsilon)
    if xp.shape(scale)[0] == channels:
        return xp.reshape(y, (n, channels, *rest)) * _column(xp, scale, x) + _column(xp, bias, x)
    return xp.reshape(y * _column(xp, scale, y) + _column(xp, bias, y), (n, channels, *rest))


def MeanVarianceNormalization(xp, x, *, axes=(0, 2, 3)):
    centred = x - xp.mean(x, tuple(axes), True)
    return centred / (xp.sqrt(xp.mean(centred * centred, tuple(axes), True)) + 1e-9)


def LpNormalization(xp, x, *, axis=-1, p=2):
    """A vector of zeros stays zero."""
    norm = xp.sum(xp.abs(x), axis, True) if p == 1 else xp.sqrt(xp.sum(x * x, axis, True))
    return x / xp.where(xp.equal(norm, 0), 1, norm)


def LRN(xp, x, *, size, alpha=0.0001, beta=0.75, bias=1.0):
    """Local response normalisation over neighbouring channels (AlexNet, 2012)."""
    before, channels = (size - 1) // 2, xp.shape(x)[1]
    widths = [(0, 0), (before, size - 1 - before)] + [(0, 0)] * (len(xp.shape(x)) - 2)
    squares = xp.pad(x * x, widths)
    windows = [xp.getitem(squares, (slice(None), slice(start, start + channels, None))) for start in range(size)]
    total = windows[0]
    for window in windows[1:]:
        total = total + window
    return x / xp.power(bias + alpha / size * total, beta)


def Dropout(xp, x, ratio=0.5, training=False, *, seed=0, rng=None, outputs=1):
    """Inverted dropout; without a source of randomness nothing is dropped. Returns y, and if it is read the mask.

    `rng` may be a pair of a source and a number, by which the rate is multiplied: a compiled program given 0
    drops nothing, and is the same program.
    """
    y, keep = x, np.ones(xp.shape(x), bool)
    if training and rng is not None and ratio != 0:
        ratio = float(ratio)
        rate, scale = ratio, 1.0  # if all is dropped, nothing needs scaling
        if isinstance(rng, tuple):
            rng, active = rng
            rate = active * ratio
        if ratio < 1:
            scale = xp.astype(1 / (1 - rate), xp.type_of(x)) if xp.is_array(rate) else 1 / (1 - rate)
        keep = xp.greater_equal(xp.uniform(xp.shape(x), seed, rng), rate)
        y = xp.where(keep, scale * x, 0)
    return y if outputs == 1 else (y, keep)
