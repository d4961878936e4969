"""NumPy's vocabulary in PyTorch."""

import functools
import operator

import numpy as np
import torch

from xbench.converters.ops.torch_types import cast, from_numpy, type_named

# PyTorch stores these but computes almost nothing in them; modulo 2^n, int64 gives the same.
UNSIGNED = {torch.uint16: 16, torch.uint32: 32, torch.uint64: 64}
COMPILES = False

# ***** arrays *****


def is_array(x):
    return isinstance(x, torch.Tensor)


def type_of(x):
    if not is_array(x):
        return np.asarray(x).dtype.name
    return "float32" if x.dtype == torch.get_default_dtype() else str(x.dtype).removeprefix("torch.")


def shape(x):
    return tuple(x.shape) if is_array(x) else np.shape(x)


def asarray(x, like=None):
    """A tensor; with `like` in its type and on its device."""
    if is_array(x):
        return x if like is None else x.to(like)
    if like is not None:
        return torch.as_tensor(np.asarray(x), dtype=like.dtype, device=like.device)
    x = np.asarray(x)
    return from_numpy(np.ascontiguousarray(x).reshape(x.shape)).to(type_named(x.dtype.name))


def beside(x, like):
    """The array on the device of `like`, in its own type."""
    return asarray(x).to(like.device)


def _all(*arrays):
    like = next((a for a in arrays if is_array(a)), None)
    return [a if is_array(a) else asarray(a, like) for a in arrays]


def astype(x, name):
    x = asarray(x)
    if name.startswith("uint") and x.is_floating_point():
        x = x.to(torch.int64)  # a direct cast of a negative number is undefined
    return cast(x, name)


def concrete(x):
    if not is_array(x):
        return np.asarray(x)
    if torch.compiler.is_compiling():
        raise NotImplementedError("a shape that is only known at run time")
    return x.detach().cpu().numpy()


def _widened(function):
    """The function in int64 if PyTorch has no kernels for an unsigned type."""

    @functools.wraps(function)
    def call(*arrays):
        arrays = _all(*arrays)
        kind = next((a.dtype for a in arrays if a.dtype in UNSIGNED), None)
        if kind is None:
            return function(*arrays)
        y = function(*(a.to(torch.int64) for a in arrays))
        return y if y.dtype == torch.bool else y.to(kind)

    return call


# ***** elementwise *****

abs = torch.abs
arccos, arccosh, arcsin, arcsinh = torch.acos, torch.acosh, torch.asin, torch.asinh
arctan, arctanh = torch.atan, torch.atanh
cos, cosh, sin, sinh, tan, tanh = torch.cos, torch.cosh, torch.sin, torch.sinh, torch.tan, torch.tanh
ceil, floor, rint = torch.ceil, torch.floor, torch.round
erf, exp, expm1, log, log1p, sigmoid, sqrt = (
    torch.erf, torch.exp, torch.expm1, torch.log, torch.log1p, torch.sigmoid, torch.sqrt,
)  # fmt: skip
isinf, isnan, logical_not, negative, sign = torch.isinf, torch.isnan, torch.logical_not, torch.neg, torch.sign
bitwise_not = _widened(torch.bitwise_not)

add, subtract, multiply = _widened(operator.add), _widened(operator.sub), _widened(operator.mul)
divide = quotient = _widened(operator.truediv)
trunc_divide = _widened(lambda a, b: torch.div(a, b, rounding_mode="trunc"))
mod, fmod = _widened(torch.remainder), _widened(torch.fmod)
bitwise_and, bitwise_or = _widened(torch.bitwise_and), _widened(torch.bitwise_or)
bitwise_xor, left_shift = _widened(torch.bitwise_xor), _widened(torch.bitwise_left_shift)
equal, not_equal = _widened(torch.eq), _widened(torch.ne)
logical_and, logical_or = _widened(torch.logical_and), _widened(torch.logical_or)
logical_xor = _widened(torch.logical_xor)


def _ordered(function):
    """A function of the order of two arrays; as int64, uint64 keeps its order once the top bit is flipped."""

    @functools.wraps(function)
    def call(a, b):
        a, b = _all(a, b)
        if a.dtype != torch.uint64:
            return _widened(function)(a, b)
        y = function(a.to(torch.int64) ^ torch.iinfo(torch.int64).min, b.to(torch.int64) ^ torch.iinfo(torch.int64).min)
        return y if y.dtype == torch.bool else (y ^ torch.iinfo(torch.int64).min).to(torch.uint64)

    return call


maximum, minimum = _ordered(torch.maximum), _ordered(torch.minimum)
greater, greater_equal = _ordered(torch.gt), _ordered(torch.ge)
less, less_equal = _ordered(torch.lt), _ordered(torch.le)


def right_shift(a, b):
    a, b = _all(a, b)
    if a.dtype != torch.uint64:
        return _widened(torch.bitwise_right_shift)(a, b)
    a, b = a.to(torch.int64), b.to(torch.int64)  # int64 shifts its sign in: mask it off
    kept = torch.where(b > 0, torch.bitwise_not(torch.bitwise_left_shift(torch.full_like(a, -1), 64 - b)), -1)
    return torch.bitwise_and(torch.bitwise_right_shift(a, b), kept).to(torch.uint64)


def power(a, b):
    a, b = (a, b) if is_array(a) and isinstance(b, int | float) else _all(a, b)
    return torch.pow(a, b)


def where(condition, a, b):
    like = next((x for x in (a, b) if is_array(x)), None)
    a, b = asarray(a, like), asarray(b, like)
    return torch.where(beside(condition, a), a, b)


# ***** reductions *****


def _axes(x, axis):
    return tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)


def _reduction(function):
    def call(x, axis=None, keepdims=False):
        axes = _axes(x, axis)
        return function(x, dim=axes, keepdim=keepdims) if axes else x

    return call


def _by_axis(function):
    """A reduction that PyTorch has only for one axis at a time."""

    def call(x, axis=None, keepdims=False):
        for a in sorted((a % x.ndim for a in _axes(x, axis)), reverse=True):
            x = function(x, dim=a, keepdim=keepdims)
        return x

    return call


def _keeping_type(function):
    """Sums and products keep their type, which PyTorch widens to int64."""

    def call(x, axis=None, keepdims=False):
        y = function(x.to(torch.int64) if x.dtype in UNSIGNED else x, axis, keepdims)
        return y.to(x.dtype)

    return call


def _extreme(function, side):
    """The largest or smallest element; for an empty array the type's limit, infinite for floats."""

    def call(x, axis=None, keepdims=False):
        if x.numel():
            return function(x, axis, keepdims)
        info = None if x.is_floating_point() else torch.iinfo(x.dtype)
        limits = (info.min, info.max) if info else (-torch.inf, torch.inf)
        return torch.full_like(sum(x, axis, keepdims), limits[side])

    return call


sum, prod = _keeping_type(_reduction(torch.sum)), _keeping_type(_by_axis(torch.prod))
mean = _reduction(torch.mean)
max, min = _extreme(_reduction(torch.amax), 0), _extreme(_reduction(torch.amin), 1)
any, all = _reduction(torch.any), _reduction(torch.all)


def argmax(x, axis):
    return torch.argmax(x, axis)


def argmin(x, axis):
    return torch.argmin(x, axis)


def cumsum(x, axis):
    return torch.cumsum(x, axis).to(x.dtype)


# ***** shapes *****


def reshape(x, shape):
    return x.reshape(shape)


def transpose(x, axes=None):
    return x.permute(tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))


def expand_dims(x, axis):
    rank = x.ndim + len(axis)
    for a in sorted(a % rank for a in axis):
        x = x.unsqueeze(a)
    return x


def squeeze(x, axis=None):
    return x.squeeze() if axis is None else x.squeeze(axis)


def broadcast_to(x, shape):
    return x.expand(shape)


def concatenate(arrays, axis=0):
    return torch.cat(_all(*arrays), axis)


def stack(arrays, axis=0):
    return torch.stack(_all(*arrays), axis)


def split(x, sizes, axis=0):
    return torch.split(x, list(sizes), axis)


def flip(x, axis):
    return torch.flip(x, axis if isinstance(axis, tuple) else (axis,))


def tile(x, repeats):
    return x.repeat(*repeats)


def pad(x, widths, value=0):
    """Pads with a constant; negative widths crop."""
    flat = [int(n) for pair in reversed(widths) for n in pair]
    value = np.asarray(value).item() if not is_array(value) else value.item()
    if x.dtype == torch.bool:
        return torch.nn.functional.pad(x.to(torch.uint8), flat, value=int(value)).to(torch.bool)
    return torch.nn.functional.pad(x, flat, value=value)


def getitem(x, slices):
    """`x[slices]`; tensors have no negative steps."""
    backward = {a: s for a, s in enumerate(slices) if s.step is not None and s.step < 0}
    for axis, part in backward.items():
        x = x.index_select(axis, torch.arange(*part.indices(x.shape[axis]), device=x.device))
    return x[tuple(slice(None) if a in backward else s for a, s in enumerate(slices))]


# ***** selection *****


def take(x, indices, axis=0):
    """Indices must not be negative."""
    x = asarray(x)
    indices, axis = beside(indices, x), axis % x.ndim
    picked = x.index_select(axis, indices.reshape(-1).to(torch.int64))
    return picked.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def take_along_axis(x, indices, axis):
    return torch.take_along_dim(x, beside(indices, x).to(torch.int64), axis)


def scatter(x, indices, updates, how="set"):
    """Writes `updates` into a copy of the vector x at `indices`; how: set, add, mul, max, min."""
    updates, indices = asarray(updates, x), beside(indices, x).to(torch.int64)
    if how == "set":
        return x.scatter(0, indices, updates)
    if how == "add":
        return x.scatter_add(0, indices, updates)
    return x.scatter_reduce(0, indices, updates, {"mul": "prod", "max": "amax", "min": "amin"}[how])


def argsort(x, axis=-1, descending=False):
    """Stable."""
    x = x.to(torch.int64) if x.dtype in UNSIGNED else x
    return torch.argsort(x, dim=axis, descending=descending, stable=True)


def sort(x, axis=-1):
    return torch.sort(x, dim=axis).values


def top_k(x, k, axis=-1, largest=True):
    """The k largest or smallest along an axis, in order, and their indices; of equal ones the first comes first."""
    indices = argsort(x, axis, descending=largest).narrow(axis, 0, k)
    return torch.take_along_dim(x, indices, axis), indices


# ***** algebra *****


def matmul(a, b):
    a, b = _all(a, b)
    if a.is_floating_point() or (a.device.type == "cpu" and a.dtype not in UNSIGNED):
        return torch.matmul(a, b)
    return torch.matmul(a.double(), b.double()).to(a.dtype)  # CUDA does not multiply integer matrices


def einsum(equation, *arrays):
    return torch.einsum(equation, *_all(*arrays))


det = torch.det


def fft(real, imag, axis, length, inverse=False):
    """The discrete Fourier transform of length `length` along an axis; returns the real and the imaginary part."""
    function = torch.fft.ifft if inverse else torch.fft.fft
    y = function(torch.complex(real, torch.zeros_like(real) if imag is None else imag), length, axis)
    return y.real, y.imag


# ***** control *****


def cond(predicate, then, otherwise):
    """The tuple that `then()` or `otherwise()` returns."""
    return then() if bool(predicate) else otherwise()


def stop_gradient(x):
    return x.detach()


def while_loop(test, body, state):
    """`state = body(*state)` as long as `test(*state)` is true."""
    while bool(test(*state)):
        state = body(*state)
    return state


def projects_in_scan():
    return False


def scan(step, state, rows, reverse=False):
    """`state, y = step(state, row)` over the first axis of `rows`, each a tuple; returns the last state and all y."""
    order = range(rows[0].shape[0])
    ys = []
    for i in reversed(order) if reverse else order:
        state, y = step(state, tuple(row[i] for row in rows))
        ys.append(y)
    ys = ys[::-1] if reverse else ys
    return state, tuple(torch.stack(parts) for parts in zip(*ys, strict=True))


# ***** random draws: `rng` is the step's source of randomness, `seed` the node's own *****


def uniform(shape, seed, rng=None):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def normal(shape, seed, rng=None):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
