"""Elementwise operators, casts and activations."""

import functools
import math

from xbench.converters.ops.generic.types import LARGEST, rounded, type_numbered

# ONNX's name -> NumPy's
RENAMED = {
    "Abs": "abs",
    "Acos": "arccos",
    "Acosh": "arccosh",
    "Add": "add",
    "And": "logical_and",
    "Asin": "arcsin",
    "Asinh": "arcsinh",
    "Atan": "arctan",
    "Atanh": "arctanh",
    "BitwiseAnd": "bitwise_and",
    "BitwiseNot": "bitwise_not",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Equal": "equal",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "IsNaN": "isnan",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Log": "log",
    "MatMul": "matmul",
    "Mul": "multiply",
    "Neg": "negative",
    "Not": "logical_not",
    "Or": "logical_or",
    "Round": "rint",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Sub": "subtract",
    "Tan": "tan",
    "Tanh": "tanh",
    "Where": "where",
    "Xor": "logical_xor",
}


def is_float(xp, *arrays):
    """Whether the first operand with a type is floating; Python numbers have no type."""
    typed = next((a for a in arrays if hasattr(a, "dtype")), arrays[0])
    return "float" in xp.type_of(typed)


# ***** arithmetic *****


def Identity(xp, x, *, detached=0):
    return xp.stop_gradient(x) if detached else x


def Div(xp, a, b):
    """Integer division rounds towards zero."""
    return xp.divide(a, b) if is_float(xp, a, b) else xp.trunc_divide(a, b)


def Mod(xp, a, b, *, fmod=0):
    return xp.fmod(a, b) if fmod else xp.mod(a, b)


def Pow(xp, a, b):
    """The result has the type of the base."""
    base = xp.type_of(a) if hasattr(a, "dtype") else xp.type_of(b)
    if hasattr(b, "dtype") and xp.type_of(b) != base:
        if is_float(xp, b) and not is_float(xp, a):
            return xp.astype(xp.power(xp.astype(a, xp.type_of(b)), b), base)
        b = xp.astype(b, base)
    return xp.power(a, b)


def Reciprocal(xp, x):
    return 1 / x


def BitShift(xp, a, b, *, direction):
    return xp.left_shift(a, b) if direction == "LEFT" else xp.right_shift(a, b)


def Max(xp, *arrays):
    return functools.reduce(xp.maximum, arrays)


def Min(xp, *arrays):
    return functools.reduce(xp.minimum, arrays)


def Sum(xp, *arrays):
    return functools.reduce(xp.add, arrays)


def Mean(xp, *arrays):
    return functools.reduce(xp.add, arrays) / len(arrays)


def Clip(xp, x, low=None, high=None):
    """At a bound the gradient is zero, as in PyTorch's ReLU6; JAX's maximum and minimum halve it."""
    x = x if low is None else xp.where(xp.less_equal(x, low), low, x)
    return x if high is None else xp.where(xp.greater_equal(x, high), high, x)


def IsInf(xp, x, *, detect_negative=1, detect_positive=1):
    infinite = xp.isinf(x)
    if detect_negative and detect_positive:
        return infinite
    return (
        xp.logical_and(infinite, xp.greater(x, 0) if detect_positive else xp.less(x, 0))
        if (detect_positive or detect_negative)
        else xp.logical_and(infinite, False)
    )


def Cast(xp, x, *, to, saturate=1):
    return _cast(xp, x, type_numbered(to), saturate)


def CastLike(xp, x, like, *, saturate=1):
    return _cast(xp, x, xp.type_of(like), saturate)


def _cast(xp, x, name, saturate):
    return rounded(xp, x, name, saturate) if name in LARGEST else xp.astype(x, name)


# ***** activations; written so that the branch not taken has a finite gradient *****


# At zero these have PyTorch's gradient: zero counts as negative.


def Relu(xp, x):
    return xp.where(xp.less_equal(x, 0), 0, x)


def PRelu(xp, x, slope):
    return xp.where(xp.less_equal(x, 0), slope * x, x)


def LeakyRelu(xp, x, *, alpha=0.01):
    return xp.where(xp.less_equal(x, 0), alpha * x, x)


def ThresholdedRelu(xp, x, *, alpha=1.0):
    return xp.where(xp.greater(x, alpha), x, 0)


def _not_positive(xp, x):
    """For exponentials, which would overflow; unlike that of a minimum its gradient at zero is 1."""
    return xp.where(xp.greater(x, 0), 0, x)


def Elu(xp, x, *, alpha=1.0):
    return xp.where(xp.less_equal(x, 0), alpha * xp.expm1(_not_positive(xp, x)), x)


def Celu(xp, x, *, alpha=1.0):
    return xp.where(xp.less_equal(x, 0), alpha * xp.expm1(_not_positive(xp, x) / alpha), x)


def Selu(xp, x, *, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875):
    return gamma * xp.where(xp.less_equal(x, 0), alpha * xp.expm1(_not_positive(xp, x)), x)


def Softplus(xp, x):
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))


def Softsign(xp, x):
    return x / (1 + xp.abs(x))


def Mish(xp, x):
    return x * xp.tanh(Softplus(xp, x))


def Swish(xp, x, *, alpha=1.0):
    return x * xp.sigmoid(x if alpha == 1 else alpha * x)


def Shrink(xp, x, *, bias=0.0, lambd=0.5):
    return xp.where(xp.less(x, -lambd), x + bias, xp.where(xp.greater(x, lambd), x - bias, 0))


def HardSigmoid(xp, x, *, alpha=0.2, beta=0.5):
    return Clip(xp, alpha * x + beta, 0, 1)


def HardSwish(xp, x):
    return x * HardSigmoid(xp, x, alpha=1 / 6)


def Gelu(xp, x, *, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + xp.erf(x / math.sqrt(2)))
