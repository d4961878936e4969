"""Support vector machines of `ai.onnx.ml`."""

from collections.abc import Iterable

from xbench.converters.ops.contrib.call import Call, NoBody
from xbench.converters.ops.contrib.features import integers
from xbench.converters.ops.contrib.linear import floats

LARGEST = 1_000_000  # numbers of all vectors, which become text in between


def regressor(call: Call) -> Iterable[str]:
    """`output` is [samples, 1]; of one class it is 1 within, and -1 outside."""
    given, count = call.attributes, call.integer("n_supports", 0)
    if given.get("post_transform", b"NONE") != b"NONE" or call.version < 13:
        raise NoBody
    coefficients, rho = list(given["coefficients"]), list(given["rho"])
    vectors = list(given["support_vectors"]) if count > 0 else coefficients
    rows = count if count > 0 else 1
    if not 0 < len(vectors) <= LARGEST or len(vectors) % rows or len(rho) != 1:
        raise NoBody
    width = len(vectors) // rows
    yield f"sides = Constant <value_ints = [-1, {width}]> ()\nx_ = Cast <to = 1> (input)\nx = Reshape (x_, sides)"
    yield floats("flat", vectors) + "\nvectors = Reshape (flat, sides)"
    if count > 0:
        if len(coefficients) != count:
            raise NoBody
        yield from _alike(call)
        yield floats("weights_", coefficients) + "\nupright = Constant <value_ints = [-1, 1]> ()"
        yield "weights = Reshape (weights_, upright)\nproduct = MatMul (alike, weights)"
    else:
        yield "turned = Transpose <perm = [1, 0]> (vectors)\nproduct = MatMul (x, turned)"
    yield floats("rho", rho) + "\nsummed = Add (product, rho)"
    if call.integer("one_class", 0):
        yield call.constant("zero", 0.0, "x") + "\n" + call.constant("in", 1.0, "x") + "\n"
        yield call.constant("out", -1.0, "x") + "\nabove = Greater (summed, zero)\noutput = Where (above, in, out)"
    else:
        yield "output = Identity (summed)"


def classifier(call: Call) -> Iterable[str]:
    """Each pair of classes is decided, and the class with most decisions is the label; `scores` are the decisions. What
    makes probabilities of them goes round until it is near enough, so it has no body."""
    given, labels = call.attributes, list(call.attributes["classlabels_ints"])
    counts, vectors, rho = list(given["vectors_per_class"]), list(given["support_vectors"]), list(given["rho"])
    if given.get("post_transform", b"NONE") != b"NONE" or given.get("prob_a") or call.version < 13:
        raise NoBody
    total, classes = sum(counts), len(labels)
    pairs = [(one, other) for one in range(classes) for other in range(one + 1, classes)]
    if not 1 < classes == len(counts) < 100 or min(counts) < 1 or len(rho) != len(pairs):
        raise NoBody
    sizes = (len(vectors), total * len(pairs), len(given["coefficients"]))
    if max(sizes) > LARGEST or len(vectors) % total or sizes[2] != total * (classes - 1):
        raise NoBody
    width = len(vectors) // total
    yield f"sides = Constant <value_ints = [-1, {width}]> ()\nx_ = Cast <to = 1> (input)\nx = Reshape (x_, sides)"
    yield floats("flat", vectors) + "\nvectors = Reshape (flat, sides)"
    yield from _alike(call)
    of = [number for number, count in enumerate(counts) for _ in range(count)]
    yield from matrix("weights", _of_pairs(list(given["coefficients"]), of, pairs))
    yield "product = MatMul (alike, weights)\n" + floats("rho", rho) + "\ndecided = Add (product, rho)"
    yield call.constant("zero", 0.0, "x") + "\nfirst_ = Greater (decided, zero)\nsecond_ = Not (first_)"
    yield "first = Cast <to = 1> (first_)\nsecond = Cast <to = 1> (second_)"
    for side, name in enumerate(("first", "second")):
        yield from matrix(f"{name}_of", [[float(each == pair[side]) for each in range(classes)] for pair in pairs])
        yield f"{name}_votes = MatMul ({name}, {name}_of)"
    yield "votes = Add (first_votes, second_votes)\nbest = ArgMax <axis = 1, keepdims = 0> (votes)"
    yield integers("labels", labels) + "\nlabel = Gather (labels, best)"
    if classes == 2:
        yield "opposite = Neg (decided)\nscores = Concat <axis = 1> (opposite, decided)"
    else:
        yield "scores = Identity (decided)"


def _of_pairs(coefficients: list[float], of: list[int], pairs: list[tuple[int, int]]) -> list[list[float]]:
    """The weight of each vector in each pair's decision. A vector has one for every other class, in their order."""
    rows = []
    for at, own in enumerate(of):
        others = {one + other - own: place for place, (one, other) in enumerate(pairs) if own in (one, other)}
        row = [0.0] * len(pairs)
        for rank, other in enumerate(sorted(others)):
            row[others[other]] = coefficients[rank * len(of) + at]
        rows.append(row)
    return rows


def matrix(name: str, rows: list[list[float]]) -> Iterable[str]:
    yield floats(f"{name}_flat", [each for row in rows for each in row])
    yield f"{name}_sides = Constant <value_ints = [{len(rows)}, {len(rows[0])}]> ()"
    yield f"{name} = Reshape ({name}_flat, {name}_sides)"


def _alike(call: Call) -> Iterable[str]:
    """`alike`, [samples, vectors]: how alike each sample and each vector are."""
    kind = call.attributes.get("kernel_type", b"LINEAR")
    gamma, offset, degree = map(float, call.attributes.get("kernel_params") or [0.0, 0.0, 0.0])
    if kind == b"RBF":
        yield "between = Constant <value_ints = [1]> ()\nlast = Constant <value_ints = [2]> ()"
        yield "each = Unsqueeze (x, between)\nway = Sub (each, vectors)\nsquares = Mul (way, way)"
        yield "far = ReduceSum <keepdims = 0> (squares, last)\n" + call.constant("gamma", -gamma, "x")
        yield "near = Mul (far, gamma)\nalike = Exp (near)"
        return
    yield "across = Transpose <perm = [1, 0]> (vectors)\ndots = MatMul (x, across)"
    if kind == b"LINEAR":
        yield "alike = Identity (dots)"
        return
    yield call.constant("gamma", gamma, "x") + "\n" + call.constant("offset", offset, "x")
    yield "scaled = Mul (dots, gamma)\nshifted = Add (scaled, offset)"
    if kind == b"SIGMOID":
        yield "alike = Tanh (shifted)"
    elif kind == b"POLY":
        yield call.constant("degree", degree, "x") + "\nalike = Pow (shifted, degree)"
    else:
        raise NoBody
