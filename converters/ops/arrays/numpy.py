"""NumPy's vocabulary in NumPy: arithmetic on shapes while a framework traces, and constants."""

import math

import numpy as np
from numpy import (  # noqa: F401
    abs,
    add,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctanh,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    ceil,
    concatenate,
    cos,
    cosh,
    cumsum,
    divide,
    equal,
    exp,
    expand_dims,
    expm1,
    flip,
    floor,
    fmod,
    greater,
    greater_equal,
    isinf,
    isnan,
    left_shift,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    matmul,
    maximum,
    minimum,
    mod,
    multiply,
    negative,
    not_equal,
    reshape,
    right_shift,
    rint,
    sign,
    sin,
    sinh,
    sort,
    sqrt,
    squeeze,
    stack,
    subtract,
    take_along_axis,
    tan,
    tanh,
    tile,
    transpose,
    where,
)

COMPILES = False
quotient, shape = np.divide, np.shape
det = np.linalg.det
_error_function = np.vectorize(math.erf, otypes=[np.float64])


def take(x, indices, axis=0):
    return np.take(x, indices, axis)


def is_array(x):
    return isinstance(x, np.ndarray | np.generic)


def type_of(x):
    return np.asarray(x).dtype.name


def asarray(x, like=None):
    return np.asarray(x, None if like is None else like.dtype)


def astype(x, name):
    return np.asarray(x).astype(name)


def beside(x, like):
    return np.asarray(x)


def concrete(x):
    return np.asarray(x)


def erf(x):
    return _error_function(x).astype(np.asarray(x).dtype)


def sigmoid(x):
    return (1 / (1 + np.exp(-x))).astype(np.asarray(x).dtype)


def trunc_divide(a, b):
    quotient = np.abs(a) // np.abs(b)
    return np.where((np.less(a, 0)) != (np.less(b, 0)), -quotient, quotient).astype(np.result_type(a, b))


def power(a, b):
    return np.power(a, b)


def _reduction(function):
    def call(x, axis=None, keepdims=False):
        return function(x, axis=axis, keepdims=keepdims)

    return call


def _keeping_type(function):
    """Sums and products keep their type, which NumPy widens to int64."""

    def call(x, axis=None, keepdims=False):
        return function(x, axis=axis, keepdims=keepdims, dtype=np.asarray(x).dtype)

    return call


sum, prod = _keeping_type(np.sum), _keeping_type(np.prod)
all, any, max, mean, min = (_reduction(f) for f in (np.all, np.any, np.max, np.mean, np.min))


def argmax(x, axis):
    return np.argmax(x, axis)


def argmin(x, axis):
    return np.argmin(x, axis)


def broadcast_to(x, shape):
    return np.broadcast_to(x, shape)


def split(x, sizes, axis=0):
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def pad(x, widths, value=0):
    """Pads with a constant; negative widths crop."""
    wide = np.pad(x, [(np.maximum(a, 0), np.maximum(b, 0)) for a, b in widths], constant_values=value)
    return wide[tuple(slice(-a if a < 0 else 0, b if b < 0 else None) for a, b in widths)]


def getitem(x, slices):
    return x[slices]


def scatter(x, indices, updates, how="set"):
    y = np.array(x)
    if how == "set":
        y[indices] = updates
    else:
        {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[how].at(y, indices, updates)
    return y


def argsort(x, axis=-1, descending=False):
    """Stable."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    order = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - order, axis)


def top_k(x, k, axis=-1, largest=True):
    indices = np.take(argsort(x, axis, descending=largest), np.arange(k), axis)
    return np.take_along_axis(x, indices, axis), indices


def einsum(equation, *arrays):
    return np.einsum(equation, *arrays)


def fft(real, imag, axis, length, inverse=False):
    x = real if imag is None else real + 1j * imag
    y = (np.fft.ifft if inverse else np.fft.fft)(x, length, axis)
    return y.real.astype(real.dtype), y.imag.astype(real.dtype)


def cond(predicate, then, otherwise):
    return then() if bool(predicate) else otherwise()


def stop_gradient(x):
    return x


def while_loop(test, body, state):
    while bool(test(*state)):
        state = body(*state)
    return state


def projects_in_scan():
    return False


def scan(step, state, rows, reverse=False):
    order, ys = range(len(rows[0])), []
    for i in reversed(order) if reverse else order:
        state, y = step(state, tuple(row[i] for row in rows))
        ys.append(y)
    return state, tuple(np.stack(parts) for parts in zip(*(ys[::-1] if reverse else ys), strict=True))


def uniform(shape, seed, rng=None):
    return np.random.default_rng(seed).random(shape, np.float32)


def normal(shape, seed, rng=None):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)
