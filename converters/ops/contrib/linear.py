"""Scaling, norms and linear models of `ai.onnx.ml`. Rows are samples; results are float32."""

from collections.abc import Iterable

from xbench.converters.ops.contrib.call import Call, NoBody


def _floats(name: str, values: Iterable[float]) -> str:
    numbers = [float(value) for value in values]
    return f"{name} = Constant <value = float[{len(numbers)}] {{{', '.join(map(repr, numbers))}}}> ()"


def scaler(call: Call) -> Iterable[str]:
    yield "x = Cast <to = 1> (input)"
    yield _floats("offset", call.attributes["offset"]) + "\n" + _floats("scale", call.attributes["scale"])
    yield "rest = Sub (x, offset)\noutput = Mul (rest, scale)"


def binarizer(call: Call) -> Iterable[str]:
    yield "x = Cast <to = 1> (input)"
    yield call.constant("threshold", call.number("threshold", 0.0), "x")
    yield "above = Greater (x, threshold)\noutput = Cast <to = 1> (above)"


def normalizer(call: Call) -> Iterable[str]:
    """Rows whose norm is 0 stay as they are."""
    norm = {b"L1": "ReduceL1", b"L2": "ReduceL2"}.get(call.attributes.get("norm", b"MAX"))
    if norm is None:  # the largest value: the specification does not say whether the absolute one
        raise NoBody
    yield "x = Cast <to = 1> (input)\naxis = Constant <value_ints = [1]> ()"
    yield f"size = {norm} (x, axis)" if call.version >= 18 else f"size = {norm} <axes = [1]> (x)"
    yield call.constant("zero", 0.0, "x")
    yield call.constant("one", 1.0, "x")
    yield "empty = Equal (size, zero)\nsafe = Where (empty, one, size)\noutput = Div (x, safe)"


def regressor(call: Call) -> Iterable[str]:
    if call.attributes.get("post_transform", b"NONE") != b"NONE":
        raise NoBody
    coefficients, targets = call.attributes["coefficients"], call.integer("targets", 1)
    if targets < 1 or len(coefficients) % targets:
        raise NoBody
    intercepts = call.attributes.get("intercepts") or [0.0] * targets
    if len(intercepts) != targets:
        raise NoBody
    sides = [targets, len(coefficients) // targets]
    yield _floats("flat", coefficients) + f"\nsides = Constant <value_ints = {sides}> ()"
    yield "weights = Reshape (flat, sides)\nturned = Transpose <perm = [1, 0]> (weights)"
    yield "x = Cast <to = 1> (input)\nproduct = MatMul (x, turned)"
    yield _floats("intercepts", intercepts) + "\noutput = Add (product, intercepts)"
