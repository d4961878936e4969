"""Support vector machines of `ai.onnx.ml`."""

from collections.abc import Iterable

from xbench.converters.ops.contrib.call import Call, NoBody
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
