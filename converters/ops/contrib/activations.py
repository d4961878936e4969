"""Activations, with their preceding addition."""

import math
from collections.abc import Iterable

from xbench.converters.ops.contrib.call import Call


def _erf(call: Call) -> Iterable[str]:
    """GELU of `total`, with the error function (Hendrycks and Gimpel, 2016)."""
    yield call.constant("root", math.sqrt(0.5), "total")
    yield call.constant("one", 1.0, "total")
    yield call.constant("half", 0.5, "total")
    yield "turned = Mul (total, root)"
    yield "error = Erf (turned)"
    yield "gate = Add (error, one)"
    yield "open = Mul (total, gate)"
    yield "output = Mul (open, half)"


def gelu(call: Call) -> Iterable[str]:
    yield "total = Identity (input)"
    yield from _erf(call)


def bias_gelu(call: Call) -> Iterable[str]:
    yield "total = Add (input, bias)"
    yield from _erf(call)


def fast_gelu(call: Call) -> Iterable[str]:
    """GELU with the hyperbolic tangent, with the constants of ONNX Runtime's kernel."""
    yield "total = Add (input, bias)" if call.has(1) else "total = Identity (input)"
    for name, value in (("a", 0.5), ("b", 0.7978845608028654), ("c", 0.035677408136300125), ("one", 1.0)):
        yield call.constant(name, value, "total")
    yield "square = Mul (total, total)"
    yield "cubic = Mul (square, c)"
    yield "slope = Add (cubic, b)"
    yield "inner = Mul (slope, total)"
    yield "bent = Tanh (inner)"
    yield "gate = Add (bent, one)"
    yield "open = Mul (total, gate)"
    yield "output = Mul (open, a)"


def quick_gelu(call: Call) -> Iterable[str]:
    yield call.constant("alpha", call.number("alpha", 1.702), "input")
    yield "inner = Mul (input, alpha)"
    yield "gate = Sigmoid (inner)"
    yield "output = Mul (input, gate)"
