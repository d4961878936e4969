"""Every rule of `converters/autodiff/gradient/` gives PyTorch's gradient, computed by ONNX Runtime.

Each row of `cases.py` that has a gradient becomes a graph of one node, with the graph of its gradient appended, and
must agree with autograd in float64 of the same row in our PyTorch table.
"""

import functools
from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import test_operators as operators
from cases import CASES
from onnx_ir.passes import common

from xbench.converters.autodiff.gradient import CONSTANT, RULES, NoGradient, convolution, differentiate
from xbench.converters.autodiff.gradient.ops import Ops
from xbench.converters.frontends.functions import expand

# Gradients of PyTorch without a rule: control flow and sequences, sampling, spectra, quantisation.
_WORDS = """
    AffineGrid CenterCropPad Compress ConcatFromSequence DeformConv DequantizeLinear Det Dropout
    If Loop MaxRoiPool MaxUnpool OneHot OptionalGetElement
    RoiAlign STFT Scan Scatter SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert
    SplitToSequence TensorScatter Upsample
"""
WITHOUT = set(_WORDS.split())
# Forms of operators that their rule rejects.
FORMS = {
    "RNN": {1, 2},  # lengths, clip
    "ScatterElements": {3},  # reduction mul
    "ScatterND": {2},
}
# The gradient of BatchNormalization is that of its training form: test_training.py. The others ask for no gradient.
ELSEWHERE = {"BatchNormalization", "Optional", "OptionalHasElement", "SequenceMap"}
ROWS = [p for p in operators.DIFFERENTIABLE if p.values[0] not in ELSEWHERE]
KNOWN = [p for p in ROWS if p.values[0] not in WITHOUT and p.values[1] not in FORMS.get(p.values[0], ())]
NOT_KNOWN = [p for p in ROWS if p not in KNOWN]


@functools.cache
def gradient(op: str, index: int) -> ir.Model:
    """The row's node followed by its gradient; the gradients of its outputs are the inputs seed0, seed1, ..."""
    model = expand(ir.from_proto(CASES[op][index].model(op)), RULES.keys() | CONSTANT)
    common.ShapeInferencePass()(model)
    graph, ops, nodes = model.graph, Ops(model.graph), list(model.graph)
    given = [value for value in graph.inputs if value.dtype == ir.DataType.FLOAT]
    seeds = {}
    for output in graph.outputs:
        if output.dtype == ir.DataType.FLOAT:
            seed = ir.Value(name=f"seed{len(seeds)}", type=output.type, shape=output.shape)
            graph.inputs.append(seed)
            seeds[output] = seed
    gradients = differentiate(ops, nodes, seeds, given)
    graph.outputs.clear()
    for index, value in enumerate(given):
        result = ops.Identity(gradients.get(value) or ops.zeros_like(value))
        result.name, result.type, result.shape = f"gradient{index}", value.type, value.shape
        graph.outputs.append(result)
    common.RemoveUnusedNodesPass()(model)
    graph.sort()
    model.opset_imports[""] = max(20, model.opset_imports[""])
    return model


def run(model: ir.Model, given: Sequence[np.ndarray], seeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    names = [value.name for value in model.graph.inputs]
    feed = dict(zip(names, [*given, *seeds], strict=True))
    return session.run(None, {each.name: feed[each.name] for each in session.get_inputs()})


@pytest.mark.parametrize(("op", "index"), KNOWN)
def test_a_rule_gives_the_gradient_of_pytorch(op, index, float64):
    outputs = [y for y in operators.expected(op, index) if y.dtype == np.float32]
    seeds = [np.where(np.isfinite(y), operators.direction(y.shape), 0).astype(np.float32) for y in outputs]
    gradients = run(gradient(op, index), CASES[op][index].given(op), seeds)
    for mine, right in zip(gradients, operators.torch_gradients(op, index), strict=True):
        operators.assert_close(mine.astype(right.dtype), right, 1e-5)


@pytest.mark.parametrize(("op", "index"), [p for p in KNOWN if p.values[0] in ("Conv", "ConvTranspose")])
@pytest.mark.parametrize(("patches", "large", "margin"), [(0, 0, 0), (1000, 1, 0), (1000, 1, 1e9), (1000, 10**9, 0)])
def test_every_form_of_a_kernels_gradient_is_right(op, index, patches, large, margin, float64, monkeypatch):
    """As a convolution, as one product per image of patches or of rows, as one product of the batch."""
    monkeypatch.setattr(convolution, "PATCHES", patches)
    monkeypatch.setattr(convolution, "LARGE", large)
    monkeypatch.setattr(convolution, "MARGIN", margin)
    seeds = [operators.direction(y.shape).astype(np.float32) for y in operators.expected(op, index)]
    gradients = run(gradient.__wrapped__(op, index), CASES[op][index].given(op), seeds)
    for mine, right in zip(gradients, operators.torch_gradients(op, index), strict=True):
        operators.assert_close(mine.astype(right.dtype), right, 1e-5)


@pytest.mark.parametrize(("op", "index"), NOT_KNOWN)
def test_what_has_no_rule_is_named(op, index):
    with pytest.raises((NoGradient, NotImplementedError)) as raised:
        gradient(op, index)
    assert not isinstance(raised.value, NoGradient) or set(raised.value.operators) & (WITHOUT | {op})


def test_every_rule_has_a_row():
    assert sorted(set(RULES) - {p.values[0] for p in KNOWN} - {"BatchNormalization"}) == []


def graph_of(text: str) -> tuple[ir.Model, Ops]:
    model = ir.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> agraph {text}'))
    common.ShapeInferencePass()(model)
    return model, Ops(model.graph)


def test_what_a_tensor_is_read_for_adds_up():
    """x * x + sin(x) has the gradient 2 x + cos(x)."""
    model, op = graph_of("(float[3] x) => (float[3] y) { a = Mul(x, x) b = Sin(x) y = Add(a, b) }")
    (x,), (y,) = model.graph.inputs, model.graph.outputs
    gradients = differentiate(op, list(model.graph), {y: op.Expand(1.0, [3])}, [x])
    model.graph.outputs[:] = [gradients[x]]
    gradients[x].name = "dx"
    given = np.array([0.5, -1, 2], np.float32)
    np.testing.assert_allclose(run(model, [given], [])[0], 2 * given + np.cos(given), rtol=1e-6)


def test_a_tile_whose_repeats_are_computed():
    model, op = graph_of("(float[2, 3] x, int64[2] r, float[4, 9] g) => (float[a, b] y) { y = Tile(x, r) }")
    x, _, g = model.graph.inputs
    gradients = differentiate(op, list(model.graph), {model.graph.outputs[0]: g}, [x])
    model.graph.outputs[:] = [gradients[x]]
    gradients[x].name = "dx"
    seed = np.arange(36, dtype=np.float32).reshape(4, 9)
    (dx,) = run(model, [np.ones((2, 3), np.float32), np.array([2, 3]), seed], [])
    np.testing.assert_array_equal(dx, seed.reshape(2, 2, 3, 3).sum((0, 2)))


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(1, 4, 1), (0, 2, 1), (-2, 2**63 - 1, 1), (-9, -1, 1), (2, 99, 1), (9, 99, 1), (-1, -(2**63), -1), (0, 2**31, 1)],
)
def test_a_slice_of_an_axis_whose_length_only_the_run_tells(start, end, step):
    model, op = graph_of("(float[a, 2] x, float[b, 2] g) => (float[b, 2] y) { y = Identity(x) }")
    (x, g), (y,) = model.graph.inputs, model.graph.outputs
    node = op.Slice(x, [start], [end], [0], [step]).producer()
    node.outputs[0].shape, node.outputs[0].type = y.shape, y.type
    gradients = differentiate(op, [node], {node.outputs[0]: g}, [x])
    model.graph.outputs[:] = [gradients[x]]
    gradients[x].name = "dx"
    given, expected = np.zeros((5, 2), np.float32), np.zeros((5, 2), np.float32)
    seed = np.random.default_rng(0).random(given[start:end:step].shape, np.float32)
    expected[slice(start, end if end > -(2**63) else None, step)] = seed
    (dx,) = run(model, [given, seed], [])
    np.testing.assert_array_equal(dx, expected)


def test_a_slice_by_steps_of_an_axis_whose_length_only_the_run_tells_is_refused():
    model, op = graph_of("(float[a] x, float[b] g) => (float[b] y) { y = Identity(x) }")
    node = op.Slice(model.graph.inputs[0], [0], [9], [0], [2]).producer()
    node.outputs[0].shape, node.outputs[0].type = model.graph.outputs[0].shape, model.graph.outputs[0].type
    with pytest.raises(NotImplementedError, match="by steps of 2"):
        differentiate(op, [node], {node.outputs[0]: model.graph.inputs[1]}, [model.graph.inputs[0]])


def test_a_concatenation_along_an_axis_whose_length_only_the_run_tells():
    model, op = graph_of("(float[a, 2] x, float[3, 2] w, float[b, 2] g) => (float[b, 2] y) { y = Concat<axis=0>(x,w) }")
    x, w, g = model.graph.inputs
    gradients = differentiate(op, list(model.graph), {model.graph.outputs[0]: g}, [x, w])
    model.graph.outputs[:] = [gradients[x], gradients[w]]
    seed = np.arange(14, dtype=np.float32).reshape(7, 2)
    dx, dw = run(model, [np.ones((4, 2), np.float32), np.ones((3, 2), np.float32), seed], [])
    np.testing.assert_array_equal(dx, seed[:4])
    np.testing.assert_array_equal(dw, seed[4:])


def test_a_parameter_that_nothing_depends_on_has_no_gradient():
    model, op = graph_of("(float[3] x, float[3] w) => (float[3] y) { c = Floor(w) y = Add(x, c) }")
    x, w = model.graph.inputs
    gradients = differentiate(op, list(model.graph), {model.graph.outputs[0]: x}, [x, w])
    assert list(gradients) == [x]


def test_all_operators_without_a_rule_are_named_at_once():
    model, op = graph_of("(float[2, 3, 3] x) => (float[2] y) { d = Det(x) f = Hardmax(d) g = Det(x) y = Add(d, g) }")
    (x,) = model.graph.inputs
    with pytest.raises(NoGradient, match=r"no gradient of Det \(2\)"):
        differentiate(op, list(model.graph), {model.graph.outputs[0]: x}, [x])
