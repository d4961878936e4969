"""Scaling, norms and linear models of `ai.onnx.ml`. Rows are samples; results are float32."""

from collections.abc import Iterable

from xbench.converters.ops.contrib.call import Call, NoBody


def floats(name: str, values: Iterable[float]) -> str:
    numbers = [float(value) for value in values]
    return f"{name} = Constant <value = float[{len(numbers)}] {{{', '.join(map(repr, numbers))}}}> ()"


def scaler(call: Call) -> Iterable[str]:
    yield "x = Cast <to = 1> (input)"
    yield floats("offset", call.attributes["offset"]) + "\n" + floats("scale", call.attributes["scale"])
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
    yield floats("flat", coefficients) + f"\nsides = Constant <value_ints = {sides}> ()"
    yield "weights = Reshape (flat, sides)\nturned = Transpose <perm = [1, 0]> (weights)"
    yield "x = Cast <to = 1> (input)\nproduct = MatMul (x, turned)"
    yield floats("intercepts", intercepts) + "\noutput = Add (product, intercepts)"


TRANSFORMS = {b"NONE": "Identity (summed)", b"LOGISTIC": "Sigmoid (summed)", b"SOFTMAX": "Softmax <axis = 1> (summed)"}


def classifier(call: Call) -> Iterable[str]:
    """`scores` has a column for each class. Of a single row of coefficients the second class is that above zero."""
    given = call.attributes
    coefficients, intercepts, labels = given["coefficients"], given["intercepts"], list(given["classlabels_ints"])
    transform, rows = TRANSFORMS.get(given.get("post_transform", b"NONE")), len(intercepts)
    if transform is None or call.version < 13 or not rows or len(coefficients) % rows or not coefficients:
        raise NoBody
    if len(labels) != max(rows, 2) or not all(isinstance(each, int) for each in labels):
        raise NoBody
    if rows == 1 and transform.startswith("Softmax"):
        raise NoBody
    yield f"sides = Constant <value_ints = [-1, {len(coefficients) // rows}]> ()"
    yield floats("flat", coefficients) + "\nweights = Reshape (flat, sides)\nx_ = Cast <to = 1> (input)"
    yield "turned = Transpose <perm = [1, 0]> (weights)\nx = Reshape (x_, sides)\nproduct = MatMul (x, turned)"
    yield floats("intercepts", intercepts) + "\nsummed = Add (product, intercepts)"
    yield f"labels = Constant <value = int64[{len(labels)}] {{{', '.join(map(repr, labels))}}}> ()"
    if rows == 1:
        yield call.constant("zero", 0.0, "x") + "\n" + call.constant("one", 1.0, "x")
        yield "axis = Constant <value_ints = [1]> ()\nabove_ = Greater (summed, zero)\nabove = Squeeze (above_, axis)"
        yield f"best = Cast <to = 7> (above)\nshare = {transform}\nrest = Sub (one, share)"
        yield "scores = Concat <axis = 1> (rest, share)"
    else:
        yield f"best = ArgMax <axis = 1, keepdims = 0> (summed)\nscores = {transform}"
    yield "label = Gather (labels, best)"
