"""Linear layers, attention and recurrent weights: fused where they match, other graphs left alone.

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
from xbench.converters.codegen.program import convert
from xbench.converters.passes.fusion import ATTENTION, fuse

QKV = "float[2, 3, 4, 5] q, float[2, 3, 6, 5] k, float[2, 3, 6, 5] v"
KEY_T = "t = Transpose <perm = [0, 1, 3, 2]> (k)"
CAUSAL = ", ".join("0" if column <= row else "-inf" for row in range(4) for column in range(6))
HIDDEN = ", ".join("-inf" if row == 2 else "0" for row in range(4) for column in range(6))
ATTENDS = {
    "plain": f"({QKV}) => (float[2, 3, 4, 5] y) {{ {KEY_T} s = MatMul(q, t) p = Softmax(s) y = MatMul(p, v) }}",
    "scaled query, mask": f"""({QKV}) => (float[2, 3, 4, 5] y)
        <float scale = {{0.25}}, float[4, 6] mask = {{{CAUSAL}}}> {{ {KEY_T}
        r = Mul(q, scale) s = MatMul(r, t) m = Add(mask, s) p = Softmax <axis = 3> (m) y = MatMul(p, v) }}""",
    "divided scores": f"""({QKV}) => (float[2, 3, 4, 5] y) <float[1] width = {{2.5}}> {{ {KEY_T}
        s = MatMul(q, t) d = Div(s, width) p = Softmax(d) y = MatMul(p, v) }}""",
    "scaled both": f"""({QKV}) => (float[2, 3, 4, 5] y) <float a = {{0.5}}, float b = {{3}}> {{ {KEY_T}
        r = Mul(a, q) s = MatMul(r, t) d = Mul(s, b) p = Softmax(d) y = MatMul(p, v) }}""",
    "heads turned with the key": """(float[2, 3, 4, 5] q, float[2, 6, 3, 5] k, float[2, 3, 6, 7] v)
        => (float[2, 3, 4, 7] y) { t = Transpose <perm = [0, 2, 3, 1]> (k)
        s = MatMul(q, t) p = Softmax(s) y = MatMul(p, v) }""",
}
LEFT_ALONE = {
    "a row of which nothing is left": f"""({QKV}) => (float[2, 3, 4, 5] y) <float[4, 6] mask = {{{HIDDEN}}}> {{ {KEY_T}
        s = MatMul(q, t) m = Add(s, mask) p = Softmax(m) y = MatMul(p, v) }}""",
    "a mask that is computed": f"""({QKV}, float[4, 6] mask) => (float[2, 3, 4, 5] y) {{ {KEY_T}
        s = MatMul(q, t) m = Add(s, mask) p = Softmax(m) y = MatMul(p, v) }}""",
    "the softmax of columns": f"""({QKV}) => (float[2, 3, 4, 5] y) {{ {KEY_T}
        s = MatMul(q, t) p = Softmax <axis = 2> (s) y = MatMul(p, v) }}""",
    "weights that are shown": f"""({QKV}) => (float[2, 3, 4, 5] y, float[2, 3, 4, 6] p) {{ {KEY_T}
        s = MatMul(q, t) p = Softmax(s) y = MatMul(p, v) }}""",
    "scores read twice": f"""({QKV}) => (float[2, 3, 4, 5] y, float[2, 3, 4, 6] e) {{ {KEY_T}
        s = MatMul(q, t) e = Exp(s) p = Softmax(s) y = MatMul(p, v) }}""",
    "values in front": """(float[2, 3, 4, 5] q, float[2, 3, 6, 5] k, float[2, 3, 5, 4] v) => (float[2, 3, 5, 6] y) {
        t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, t) p = Softmax(s) y = MatMul(v, p) }""",
    "a number divided by scores": f"""({QKV}) => (float[2, 3, 4, 5] y) <float one = {{1}}> {{ {KEY_T}
        s = MatMul(q, t) d = Div(one, s) p = Softmax(d) y = MatMul(p, v) }}""",
}


def gates(kind: str, w: str, r: str, bias: str = "", directions: int = 1, after: int = 1) -> str:
    """A recurrent layer of 4 inputs and 5 units, the gates of its weights in these orders, such as "0312"."""
    direction, extra = (
        ("bidirectional" if directions == 2 else "forward"),
        f", linear_before_reset = {after}" * (kind == "GRU"),
    )
    inputs, nodes, n = ["float[3, 2, 4] x"], [], len(w)
    stacked: dict[str, list[str]] = {"w": [], "r": [], "b": []}
    for d in range(directions):
        rows = {"w": (w, f"[{5 * n}, 4]"), "r": (r, f"[{5 * n}, 5]")}
        rows |= {f"b{half}": (bias, f"[{5 * n}]") for half in ("w", "r") if bias}
        for name, (order, shape) in rows.items():
            parts = [f"{name}{d}{gate}" for gate in range(n)]
            inputs.append(f"float{shape} {name}{d}")
            nodes.append(f"{', '.join(parts)} = Split <num_outputs = {n}> ({name}{d})")
            nodes.append(f"g{name}{d} = Concat <axis = 0> ({', '.join(parts[int(i)] for i in order)})")
        nodes += [f"gb{d} = Concat <axis = 0> (gbw{d}, gbr{d})"] if bias else []
        for name, stack in stacked.items():
            if bias or name != "b":
                nodes.append(f"u{name}{d} = Unsqueeze (g{name}{d}, zero)")
                stack.append(f"u{name}{d}")
    for name, stack in stacked.items():
        nodes += [f"all_{name} = Concat <axis = 0> ({', '.join(stack)})"] if stack else []
    weights = "x, all_w, all_r, all_b" if bias else "x, all_w, all_r"
    nodes.append(f'y = {kind} <hidden_size = 5, direction = "{direction}"{extra}> ({weights})')
    return f"({', '.join(inputs)}) => (float[3, {directions}, 2, 5] y) <int64[1] zero = {{0}}> {{ {' '.join(nodes)} }}"


STORED = {
    "LSTM of PyTorch": gates("LSTM", "0312", "0312", "0312"),
    "LSTM without biases, both directions": gates("LSTM", "0312", "0312", directions=2),
    "LSTM of another order": gates("LSTM", "2013", "2013", "2013"),
    "GRU of PyTorch, both directions": gates("GRU", "102", "102", "102", 2),
    "GRU that resets before the product": gates("GRU", "102", "102", "102", 1, 0),
    "LSTM whose last gate is last": gates("LSTM", "1203", "1203"),
}
IN_ONNX_ORDER = {
    "weights in two orders": gates("LSTM", "0312", "0321"),
    "a bias in another order": gates("GRU", "102", "102", "012"),
    "a GRU whose last gate is not last": gates("GRU", "201", "201"),
    "a gate that is there twice": gates("GRU", "101", "101"),
}


@dataclass(frozen=True)
class Graph:
    """A graph used like a row of `cases.py`."""

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


GRAPHS = {name: [Graph(text)] for name, text in (ATTENDS | LEFT_ALONE | STORED | IN_ONNX_ORDER).items()}


@functools.cache
def fused(name: str, index: int) -> Program:
    return convert(fuse(ir.from_proto(GRAPHS[name][index].model()), ()), [])


@pytest.fixture
def rows(monkeypatch):
    """Run these graphs with the runners of rows."""
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


@pytest.mark.parametrize("name", STORED)
def test_weights_are_read_in_the_order_in_which_they_are_stored(name):
    assert "gate_order=" in fused(name, 0).source
    assert "Split" not in fused(name, 0).operators


@pytest.mark.parametrize("name", IN_ONNX_ORDER)
def test_weights_that_no_one_order_describes_are_put_in_that_of_onnx(name):
    assert "gate_order=" not in fused(name, 0).source


@pytest.mark.parametrize("framework", operators.RUN)
@pytest.mark.parametrize("name", GRAPHS)
def test_it_computes_what_onnx_says_of_the_graph_as_it_was(framework, name, rows):
    for outputs in operators.RUN[framework](name, 0):
        for y, right in zip(outputs, GRAPHS[name][0].expected(), strict=True):
            operators.assert_close(y, right, 2e-6)


@pytest.mark.parametrize("framework", operators.RUN)
@pytest.mark.parametrize("name", ATTENDS | STORED)
def test_it_has_the_gradients_of_the_graph_as_it_was(framework, name, rows, float64, monkeypatch):
    monkeypatch.setattr(operators, "program", lambda *row: convert(ir.from_proto(GRAPHS[name][0].model()), []))
    truth = operators.torch_gradients.__wrapped__(name, 0)
    monkeypatch.setattr(operators, "program", fused)
    gradients = operators.GRADIENTS.get(framework, operators.torch_gradients.__wrapped__)
    for actual, right in zip(gradients(name, 0), truth, strict=True):
        operators.assert_close(actual.astype(right.dtype), right, 1e-5)
