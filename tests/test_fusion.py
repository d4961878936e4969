"""Linear layers and attention as one node each: found where they are, left alone where the one node is another thing.

The graphs are what PyTorch's exporters, TensorFlow's and people write. Each must compute what ONNX says of the graph as
it was, in every framework, and have its gradients.
"""

import functools
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import test_operators as operators
from onnx.reference import ReferenceEvaluator

from xbench.converters import Program
from xbench.converters.convert import convert
from xbench.converters.fusion import ATTENTION, fuse

QKV = "float[2, 3, 4, 5] q, float[2, 3, 6, 5] k, float[2, 3, 6, 5] v"
BEHIND = "t = Transpose <perm = [0, 1, 3, 2]> (k)"
CAUSAL = ", ".join("0" if column <= row else "-inf" for row in range(4) for column in range(6))
HIDDEN = ", ".join("-inf" if row == 2 else "0" for row in range(4) for column in range(6))
ATTENDS = {
    "plain": f"({QKV}) => (float[2, 3, 4, 5] y) {{ {BEHIND} s = MatMul(q, t) p = Softmax(s) y = MatMul(p, v) }}",
    "scaled query, mask": f"""({QKV}) => (float[2, 3, 4, 5] y)
        <float scale = {{0.25}}, float[4, 6] mask = {{{CAUSAL}}}> {{ {BEHIND}
        r = Mul(q, scale) s = MatMul(r, t) m = Add(mask, s) p = Softmax <axis = 3> (m) y = MatMul(p, v) }}""",
    "divided scores": f"""({QKV}) => (float[2, 3, 4, 5] y) <float[1] width = {{2.5}}> {{ {BEHIND}
        s = MatMul(q, t) d = Div(s, width) p = Softmax(d) y = MatMul(p, v) }}""",
    "scaled both": f"""({QKV}) => (float[2, 3, 4, 5] y) <float a = {{0.5}}, float b = {{3}}> {{ {BEHIND}
        r = Mul(a, q) s = MatMul(r, t) d = Mul(s, b) p = Softmax(d) y = MatMul(p, v) }}""",
    "heads turned with the key": """(float[2, 3, 4, 5] q, float[2, 6, 3, 5] k, float[2, 3, 6, 7] v)
        => (float[2, 3, 4, 7] y) { t = Transpose <perm = [0, 2, 3, 1]> (k)
        s = MatMul(q, t) p = Softmax(s) y = MatMul(p, v) }""",
}
LEFT_ALONE = {
    "a row of which nothing is left": f"""({QKV}) => (float[2, 3, 4, 5] y) <float[4, 6] mask = {{{HIDDEN}}}> {{ {BEHIND}
        s = MatMul(q, t) m = Add(s, mask) p = Softmax(m) y = MatMul(p, v) }}""",
    "a mask that is computed": f"""({QKV}, float[4, 6] mask) => (float[2, 3, 4, 5] y) {{ {BEHIND}
        s = MatMul(q, t) m = Add(s, mask) p = Softmax(m) y = MatMul(p, v) }}""",
    "the softmax of columns": f"""({QKV}) => (float[2, 3, 4, 5] y) {{ {BEHIND}
        s = MatMul(q, t) p = Softmax <axis = 2> (s) y = MatMul(p, v) }}""",
    "weights that are shown": f"""({QKV}) => (float[2, 3, 4, 5] y, float[2, 3, 4, 6] p) {{ {BEHIND}
        s = MatMul(q, t) p = Softmax(s) y = MatMul(p, v) }}""",
    "scores read twice": f"""({QKV}) => (float[2, 3, 4, 5] y, float[2, 3, 4, 6] e) {{ {BEHIND}
        s = MatMul(q, t) e = Exp(s) p = Softmax(s) y = MatMul(p, v) }}""",
    "values in front": """(float[2, 3, 4, 5] q, float[2, 3, 6, 5] k, float[2, 3, 5, 4] v) => (float[2, 3, 5, 6] y) {
        t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, t) p = Softmax(s) y = MatMul(v, p) }""",
    "a number divided by scores": f"""({QKV}) => (float[2, 3, 4, 5] y) <float one = {{1}}> {{ {BEHIND}
        s = MatMul(q, t) d = Div(one, s) p = Softmax(d) y = MatMul(p, v) }}""",
}


@dataclass(frozen=True)
class Graph:
    """A graph in the place of a row of `cases.py`."""

    text: str
    training = False

    def model(self, _: str = "") -> onnx.ModelProto:
        model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> agraph {self.text}')
        return onnx.shape_inference.infer_shapes(model)

    def given(self, _: str = "") -> list[np.ndarray]:
        draw = np.random.default_rng(0)
        shapes = [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in self.model().graph.input]
        return [draw.standard_normal(shape, np.float32) for shape in shapes]

    def expected(self) -> list[np.ndarray]:
        evaluator = ReferenceEvaluator(self.model())
        return evaluator.run(None, dict(zip(evaluator.input_names, self.given(), strict=True)))


GRAPHS = {name: [Graph(text)] for name, text in (ATTENDS | LEFT_ALONE).items()}


@functools.cache
def fused(name: str, index: int) -> Program:
    return convert(fuse(ir.from_proto(GRAPHS[name][index].model()), ()), [])


@pytest.fixture
def rows(monkeypatch):
    """What runs a row in a framework runs these graphs."""
    monkeypatch.setattr(operators, "CASES", GRAPHS)
    monkeypatch.setattr(operators, "program", fused)


@pytest.mark.parametrize("name", ATTENDS)
def test_attention_is_one_node(name):
    assert fused(name, 0).operators.keys() - {"Transpose"} == {ATTENTION}


def test_a_key_is_not_transposed_twice():
    assert fused("plain", 0).source.count("Transpose(") == 0
    assert "perm=(0, 2, 1, 3)" in fused("heads turned with the key", 0).source


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_another_thing_is_left_alone(name):
    assert ATTENTION not in fused(name, 0).operators


def test_a_temperature_that_is_trained_stays_a_factor():
    model = ir.from_proto(GRAPHS["scaled query, mask"][0].model())
    assert "Mul" in convert(fuse(model, ["scale"]), ["scale"]).operators
    assert "params['scale']" in convert(fuse(model, ["scale"]), ["scale"]).source


@pytest.mark.parametrize("framework", operators.RUN)
@pytest.mark.parametrize("name", GRAPHS)
def test_it_computes_what_onnx_says_of_the_graph_as_it_was(framework, name, rows):
    for found in operators.RUN[framework](name, 0):
        for y, right in zip(found, GRAPHS[name][0].expected(), strict=True):
            operators.assert_close(y, right, 2e-6)


@pytest.mark.parametrize("framework", operators.RUN)
@pytest.mark.parametrize("name", ATTENDS)
def test_it_has_the_gradients_of_the_graph_as_it_was(framework, name, rows, float64, monkeypatch):
    monkeypatch.setattr(operators, "program", lambda *row: convert(ir.from_proto(GRAPHS[name][0].model()), []))
    truth = operators.torch_gradients.__wrapped__(name, 0)
    monkeypatch.setattr(operators, "program", fused)
    gradients = operators.GRADIENTS.get(framework, operators.torch_gradients.__wrapped__)
    for found, right in zip(gradients(name, 0), truth, strict=True):
        operators.assert_close(found.astype(right.dtype), right, 1e-5)
