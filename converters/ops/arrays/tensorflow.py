"""NumPy's vocabulary in TensorFlow. Shapes are static while a `tf.function` is traced."""

import functools
import operator

import numpy as np
import tensorflow as tf

COMPILES = False  # XLA would; whether it is used is not known here

# ***** arrays *****


def is_array(x):
    return tf.is_tensor(x)


def type_of(x):
    return x.dtype.name if tf.is_tensor(x) else np.asarray(x).dtype.name


def shape(x):
    return tuple(x.shape) if tf.is_tensor(x) else np.shape(x)


def asarray(x, like=None):
    """A tensor; with `like` in its type."""
    if tf.is_tensor(x):
        return x if like is None else tf.cast(x, like.dtype)
    x = np.asarray(x)
    return tf.constant(x if like is None else x.astype(like.dtype.as_numpy_dtype))


def beside(x, like):
    return asarray(x)


def _all(*arrays):
    like = next((a for a in arrays if tf.is_tensor(a)), None)
    return [a if tf.is_tensor(a) else asarray(a, like) for a in arrays]


def astype(x, name):
    x = asarray(x)
    if name.endswith("fnuz"):
        raise NotImplementedError(f"TensorFlow does not cast to {name}")
    if name.startswith("uint") and x.dtype.is_floating:
        x = tf.cast(x, tf.int64)  # a direct cast of a negative number is undefined
    return tf.cast(x, name)


def concrete(x):
    if not tf.is_tensor(x):
        return np.asarray(x)
    value = tf.get_static_value(x)
    if value is None:
        raise NotImplementedError("a shape that is only known at run time")
    return np.asarray(value)


# ***** elementwise *****

abs, ceil, floor, sign, negative, rint = tf.abs, tf.math.ceil, tf.floor, tf.sign, tf.negative, tf.math.rint
arccos, arccosh, arcsin, arcsinh = tf.acos, tf.acosh, tf.asin, tf.asinh
arctan, arctanh = tf.atan, tf.atanh
cos, cosh, sin, sinh, tan, tanh = tf.cos, tf.cosh, tf.sin, tf.sinh, tf.tan, tf.tanh
erf, exp, expm1, log, log1p = tf.math.erf, tf.exp, tf.math.expm1, tf.math.log, tf.math.log1p
sigmoid, sqrt = tf.sigmoid, tf.sqrt
isinf, isnan, logical_not, bitwise_not = tf.math.is_inf, tf.math.is_nan, tf.logical_not, tf.bitwise.invert


def _binary(function):
    @functools.wraps(function)
    def call(a, b):
        return function(*_all(a, b))

    return call


add, subtract, multiply, divide = (_binary(f) for f in (operator.add, operator.sub, operator.mul, operator.truediv))
quotient = divide
trunc_divide, mod = _binary(tf.truncatediv), _binary(tf.math.floormod)
bitwise_and, bitwise_or = _binary(tf.bitwise.bitwise_and), _binary(tf.bitwise.bitwise_or)
bitwise_xor = _binary(tf.bitwise.bitwise_xor)
left_shift, right_shift = _binary(tf.bitwise.left_shift), _binary(tf.bitwise.right_shift)
equal, not_equal = _binary(tf.equal), _binary(tf.not_equal)
greater, greater_equal = _binary(tf.greater), _binary(tf.greater_equal)
less, less_equal = _binary(tf.less), _binary(tf.less_equal)
logical_and, logical_or = _binary(tf.logical_and), _binary(tf.logical_or)
logical_xor = _binary(tf.math.logical_xor)
maximum, minimum = _binary(tf.maximum), _binary(tf.minimum)


def fmod(a, b):
    a, b = _all(a, b)
    if a.dtype.is_floating:  # tf.truncatemod has no gradient
        return tf.sign(a) * tf.math.floormod(tf.abs(a), tf.abs(b))
    return tf.truncatemod(a, b)


def power(a, b):
    return tf.pow(a, asarray(b, a)) if tf.is_tensor(a) else tf.pow(*_all(a, b))


def where(condition, a, b):
    a, b = _all(a, b)
    return tf.where(condition, a, b)


# ***** reductions *****


def _reduction(function):
    def call(x, axis=None, keepdims=False):
        return function(x, axis=list(axis) if isinstance(axis, tuple) else axis, keepdims=keepdims)

    return call


sum, prod, mean = _reduction(tf.reduce_sum), _reduction(tf.reduce_prod), _reduction(tf.reduce_mean)
max, min = _reduction(tf.reduce_max), _reduction(tf.reduce_min)
any, all = _reduction(tf.reduce_any), _reduction(tf.reduce_all)


def argmax(x, axis):
    return tf.argmax(x, axis)


def argmin(x, axis):
    return tf.argmin(x, axis)


def cumsum(x, axis):
    return tf.cumsum(x, axis)


# ***** shapes *****


def reshape(x, shape):
    return tf.reshape(x, shape)


def transpose(x, axes=None):
    return tf.transpose(x, axes)


def expand_dims(x, axis):
    rank = len(x.shape) + len(axis)
    for a in sorted(a % rank for a in axis):
        x = tf.expand_dims(x, a)
    return x


def squeeze(x, axis=None):
    return tf.squeeze(x, axis)


def broadcast_to(x, shape):
    return tf.broadcast_to(x, shape)


def concatenate(arrays, axis=0):
    return tf.concat(_all(*arrays), axis)


def stack(arrays, axis=0):
    return tf.stack(_all(*arrays), axis)


def split(x, sizes, axis=0):
    return tf.split(x, list(sizes), axis)


def flip(x, axis):
    return tf.reverse(x, list(axis) if isinstance(axis, tuple) else [axis])


def tile(x, repeats):
    return tf.tile(x, repeats)


def pad(x, widths, value=0):
    """Pads with a constant; negative widths crop."""
    if np.min(widths, initial=0) < 0:
        x = x[tuple(slice(-a if a < 0 else 0, b if b < 0 else None) for a, b in widths)]
        widths = [(np.maximum(a, 0), np.maximum(b, 0)) for a, b in widths]
    return tf.pad(x, widths, constant_values=asarray(value, x))


def getitem(x, slices):
    return x[slices]


# ***** selection *****


def take(x, indices, axis=0):
    """Indices must not be negative."""
    return tf.gather(x, indices, axis=axis)


def take_along_axis(x, indices, axis):
    axis = axis % len(x.shape)
    return tf.gather(x, indices, axis=axis, batch_dims=axis) if axis == len(x.shape) - 1 else _along(x, indices, axis)


def _along(x, indices, axis):
    order = [*(a for a in range(len(x.shape)) if a != axis), axis]
    back = np.argsort(order)
    moved = take_along_axis(tf.transpose(x, order), tf.transpose(indices, order), -1)
    return tf.transpose(moved, back)


def scatter(x, indices, updates, how="set"):
    """Writes `updates` into a copy of the vector x at `indices`; how: set, add, mul, max, min."""
    at, updates = tf.reshape(tf.cast(indices, tf.int64), [-1, 1]), asarray(updates, x)
    if how == "mul":  # not in TensorFlow: the products are computed one by one
        for i in range(updates.shape[0]):
            x = tf.tensor_scatter_nd_update(x, at[i : i + 1], tf.gather_nd(x, at[i : i + 1]) * updates[i : i + 1])
        return x
    function = {
        "set": tf.tensor_scatter_nd_update,
        "add": tf.tensor_scatter_nd_add,
        "max": tf.tensor_scatter_nd_max,
        "min": tf.tensor_scatter_nd_min,
    }[how]
    return function(x, at, updates)


def argsort(x, axis=-1, descending=False):
    """Stable."""
    return tf.argsort(x, axis, "DESCENDING" if descending else "ASCENDING", stable=True)


def sort(x, axis=-1):
    return tf.sort(x, axis)


def top_k(x, k, axis=-1, largest=True):
    """The k largest or smallest along an axis, in order, and their indices; of equal ones the first comes first."""
    indices = tf.gather(argsort(x, axis, descending=largest), np.arange(k), axis=axis)
    return take_along_axis(x, indices, axis), indices


# ***** algebra *****


def matmul(a, b):
    a, b = _all(a, b)
    if len(a.shape) > 1 < len(b.shape):
        return tf.matmul(a, b)
    return tf.tensordot(a, b, [[len(a.shape) - 1], [np.maximum(len(b.shape) - 2, 0)]])


def einsum(equation, *arrays):
    return tf.einsum(equation, *_all(*arrays))


det = tf.linalg.det


def fft(real, imag, axis, length, inverse=False):
    """The discrete Fourier transform of length `length` along an axis; returns the real and the imaginary part."""
    order = [*(a for a in range(len(real.shape)) if a != axis % len(real.shape)), axis % len(real.shape)]
    x = tf.transpose(tf.complex(real, tf.zeros_like(real) if imag is None else imag), order)
    n = x.shape[-1]
    x = x[..., :length] if n >= length else tf.pad(x, [*[(0, 0)] * (len(order) - 1), (0, length - n)])
    y = tf.transpose((tf.signal.ifft if inverse else tf.signal.fft)(x), np.argsort(order))
    return tf.math.real(y), tf.math.imag(y)


# ***** control *****


def cond(predicate, then, otherwise):
    """The tuple that `then()` or `otherwise()` returns; a known condition is decided at once."""
    known = tf.get_static_value(predicate) if tf.is_tensor(predicate) else predicate
    if known is not None:
        return then() if bool(known) else otherwise()
    return tf.cond(predicate, lambda: _tensors(then()), lambda: _tensors(otherwise()))


def _tensors(values):
    return tuple(tf.convert_to_tensor(v) for v in values)


def stop_gradient(x):
    return tf.stop_gradient(x)


def while_loop(test, body, state):
    """`state = body(*state)` as long as `test(*state)` is true."""
    return tf.while_loop(test, lambda *s: _tensors(body(*s)), _tensors(state))


@functools.cache
def has_onednn():
    """Whether this CPU's kernels are oneDNN's: of TensorFlow's two sets only that pools with channels first."""
    try:
        with tf.init_scope(), tf.device("/CPU:0"):
            tf.nn.max_pool(tf.zeros((1, 1, 1, 1)), 1, 1, "VALID", "NCHW")
    except tf.errors.OpError:
        return False
    return True


def projects_in_scan():
    """With oneDNN the products run in parallel to the rest of the loop: measured, an LSTM forward takes 1.01 of the
    time of Keras' then, 1.12 with one product before; without oneDNN 1.05 and 1.01."""
    return has_onednn() and not tf.config.list_physical_devices("GPU")


def scan(step, state, rows, reverse=False):
    """`state, y = step(state, row)` over the first axis of `rows`, each a tuple; returns the last state and all y."""
    time = rows[0].shape[0]
    kept = [tf.TensorArray(row.dtype, time).unstack(row) for row in rows]
    state = _tensors(state)
    made = tf.function(step, autograph=False).get_concrete_function(state, tuple(row[0] for row in rows))
    outputs = [tf.TensorArray(y.dtype, time, element_shape=y.shape) for y in made.structured_outputs[1]]

    def body(t, state, outputs):
        at = time - 1 - t if reverse else t
        state, ys = step(state, tuple(row.read(at) for row in kept))
        return t + 1, tuple(state), [out.write(at, y) for out, y in zip(outputs, ys, strict=True)]

    _, state, outputs = tf.while_loop(lambda t, *_: t < time, body, (0, state, outputs), maximum_iterations=time)
    return state, tuple(out.stack() for out in outputs)


# ***** random draws: `rng` is the step's source of randomness, `seed` the node's own *****


def uniform(shape, seed, rng=None):
    return tf.random.stateless_uniform(shape, [seed, 0]) if rng is None else tf.random.uniform(shape, seed=seed)


def normal(shape, seed, rng=None):
    return tf.random.stateless_normal(shape, [seed, 0]) if rng is None else tf.random.normal(shape, seed=seed)
