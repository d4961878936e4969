"""Random draws. ONNX fixes their distribution, not their values; with a `seed` every call draws the same ones."""

import numpy as np

from xbench.converters.ops.generic.types import type_numbered


def _seed(seed):
    """An integer for ONNX's seed, which is a float; without one, a new seed every time."""
    return int(
        np.random.default_rng().integers(2**31) if seed is None else np.float32(seed).view(np.int32) & (2**31 - 1)
    )


def _type(xp, x, dtype):
    return xp.type_of(x) if dtype is None else type_numbered(dtype)


def _drawn(xp, draw, shape, seed, scale, shift, name):
    return xp.astype(draw(tuple(int(n) for n in shape), _seed(seed)) * scale + shift, name)


def RandomNormal(xp, *, shape, dtype=1, mean=0.0, scale=1.0, seed=None):
    return _drawn(xp, xp.normal, shape, seed, scale, mean, type_numbered(dtype))


def RandomNormalLike(xp, x, *, dtype=None, mean=0.0, scale=1.0, seed=None):
    return xp.beside(_drawn(xp, xp.normal, xp.shape(x), seed, scale, mean, _type(xp, x, dtype)), x)


def RandomUniform(xp, *, shape, dtype=1, high=1.0, low=0.0, seed=None):
    return _drawn(xp, xp.uniform, shape, seed, high - low, low, type_numbered(dtype))


def RandomUniformLike(xp, x, *, dtype=None, high=1.0, low=0.0, seed=None):
    return xp.beside(_drawn(xp, xp.uniform, xp.shape(x), seed, high - low, low, _type(xp, x, dtype)), x)


def Bernoulli(xp, x, *, dtype=None, seed=None):
    """One with the probability x, else zero."""
    drawn = xp.asarray(xp.uniform(xp.shape(x), _seed(seed)), x)
    return xp.astype(xp.less(drawn, x), _type(xp, x, dtype))


def Multinomial(xp, x, *, dtype=6, sample_size=1, seed=None):
    """Draws classes by their unnormalised log-probabilities (batch, classes): (batch, sample_size).

    A class is where its uniform number falls among the cumulative probabilities.
    """
    batch, classes = xp.shape(x)
    total = xp.cumsum(xp.exp(x - xp.max(x, 1, True)), 1)
    drawn = xp.asarray(xp.uniform((batch, sample_size), _seed(seed)), x) * xp.getitem(
        total, (slice(None), slice(-1, None))
    )
    below = xp.less_equal(xp.expand_dims(total, (1,)), xp.expand_dims(drawn, (2,)))
    return xp.astype(xp.minimum(xp.sum(xp.astype(below, "int32"), 2), classes - 1), type_numbered(dtype))
