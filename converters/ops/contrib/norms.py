"""Normalisations, with their preceding addition."""

from collections.abc import Iterable

from xbench.converters.ops.contrib.call import Call, NoBody


def _joined(call: Call, names: Iterable[str]) -> Iterable[str]:
    """The sum of the inputs that are present, as `total`."""
    first, *rest = names
    yield f"sum0 = Identity ({first})"
    for number, name in enumerate(rest):
        yield f"sum{number + 1} = Add (sum{number}, {name})"
    yield f"total = Identity (sum{len(rest)})"


def layer_norm(call: Call, beta: bool, epsilon: float) -> Iterable[str]:
    if call.version >= 17:
        inputs = "total, gamma, beta" if beta else "total, gamma"
        yield f"output, mean, inverse = LayerNormalization <axis = -1, epsilon = {epsilon!r}> ({inputs})"
        return
    yield call.mean("total", "mean")
    yield "rest = Sub (total, mean)"
    yield "squares = Mul (rest, rest)"
    yield from _scaled(call, "rest", epsilon)
    yield "output = Add (scaled, beta)" if beta else "output = Identity (scaled)"


def _scaled(call: Call, source: str, epsilon: float) -> Iterable[str]:
    """`source` divided by the root of the mean of `squares`, times `gamma`: `scaled`."""
    yield call.mean("squares", "variance")
    yield call.constant("epsilon", epsilon, "total")
    yield "safe = Add (variance, epsilon)"
    yield "deviation = Sqrt (safe)"
    yield "inverse = Reciprocal (deviation)"
    yield f"normal = Div ({source}, deviation)"
    yield "scaled = Mul (normal, gamma)"


def skip_layer_normalization(call: Call) -> Iterable[str]:
    yield from _joined(call, ["input", "skip", *(["bias"] if call.has(4) else [])])
    yield from layer_norm(call, call.has(3), call.number("epsilon", 1e-12))


def skip_simplified_layer_normalization(call: Call) -> Iterable[str]:
    yield from _joined(call, ["input", "skip", *(["bias"] if call.has(3) else [])])
    yield from _rms(call, 1e-12)


def simplified_layer_normalization(call: Call) -> Iterable[str]:
    if call.integer("axis", -1) != -1:
        raise NoBody
    yield "total = Identity (input)"
    yield from _rms(call, 1e-5)


def _rms(call: Call, epsilon: float) -> Iterable[str]:
    yield "squares = Mul (total, total)"
    yield from _scaled(call, "total", call.number("epsilon", epsilon))
    yield "output = Identity (scaled)"


def layer_normalization(call: Call) -> Iterable[str]:
    """As ONNX's of opset 17, in files of an older opset."""
    if call.integer("axis", -1) != -1:
        raise NoBody
    yield "total = Identity (input)"
    yield from layer_norm(call, call.has(2), call.number("epsilon", 1e-5))
