"""Runtimes that read ONNX files by themselves: what they take, what they lack, what they do not do."""

import importlib.util
import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

OPSET = '<ir_version: 9, opset_import: ["": 20]> '
MODULES = {"opencv": "cv2", "tract": "tract", "mnn": "MNN"}
FILES = {
    "two outputs, one inside": "g (float[batch, 3] x) => (float[batch, 3] z, float[batch, 3] y)"
    "{ y = Relu(x) z = Tanh(y) }",
    "whole numbers and none": "g (float[batch, 3] x) => (int64[batch, 1] y, bool[batch, 3] z)"
    "<int64 axis = {0}, float[1] zero = {0.0}> { y = ArgMax <axis = 1> (x) z = Greater(x, zero) }",
    "a scalar": "g (float[batch, 3] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }",
    "tokens": "g (int64[batch, 4] ids) => (float[batch, 4, 2] y)"
    "<float[3, 2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> { y = Gather(w, ids) }",
    "a condition": "g (bool[batch, 3] m, float[batch, 3] x) => (float[batch, 3] y) { n = Neg(x) y = Where(m, x, n) }",
    "a declared inner shape": "g (float[batch, 3] x) => (float[batch, 3] y)"
    "<float[batch, 3] a> { a = Relu(x) y = Neg(a) }",
}
LACKS = {  # an operator that it has none for
    "opencv": "g (float[batch, 1, 4, 4] x) => (float[batch, 1, 3, 3] y) { y = LpPool <kernel_shape = [2, 2]> (x) }",
    "tract": "g (float[batch, 1, 4, 4] x) => (float[batch, 1, 3, 3] y) { y = LpPool <kernel_shape = [2, 2]> (x) }",
    "mnn": "g (float[batch, 4] x) => (float[batch, 4] y) { y = Hardmax(x) }",
}


@pytest.fixture(params=MODULES)
def runtime(request):
    if not importlib.util.find_spec(MODULES[request.param]):
        pytest.skip(f"{request.param} is not installed")
    return request.param


def checked(shell, *words):
    """The row of a check, in this process."""
    answer = shell.inside("check", *words, "--json")
    assert answer.stdout, answer.stderr
    return json.loads(answer.stdout)[0]


@pytest.mark.parametrize("operator", ["GRU", "LSTM"])
def test_a_recurrent_network_computes_every_batch(operator, runtime, shell):
    """A batch left open, and calls one after another."""
    if (runtime, operator) == ("opencv", "GRU"):
        pytest.skip("it can be called once: tests/runtimes/test_opencv.py")
    gates, draw = {"GRU": 3, "LSTM": 4}[operator], np.random.default_rng(0)
    arrays = [
        numpy_helper.from_array(draw.normal(0, 0.3, (1, gates * 4, width)).astype(np.float32), name)
        for name, width in (("w", 3), ("r", 4))
    ]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        helper.make_node(operator, ["t", "w", "r"], ["all", "y"], hidden_size=4),
    ]
    x, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", ("batch", 5, 3)), ("y", (1, "batch", 4)))
    )
    graph = helper.make_graph(nodes, "g", [x], [y], arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, shell.folder / "file.onnx")
    row = checked(shell, "file.onnx", "--runtime", runtime, "--mode", "forward")
    assert row["status"] == "PASS", row["message"]


@pytest.mark.parametrize("name", FILES)
def test_it_takes_inputs_and_outputs_of_every_kind(name, runtime, shell):
    onnx.save(onnx.parser.parse_model(OPSET + FILES[name]), shell.folder / "file.onnx")
    row = checked(shell, "file.onnx", "--runtime", runtime, "--mode", "forward")
    assert (row["status"], row["graph"]) == ("PASS", "given"), row["message"]


def test_an_operator_that_it_lacks_is_named(runtime, shell):
    model = onnx.parser.parse_model(OPSET + LACKS[runtime])
    onnx.save(model, shell.folder / "file.onnx")
    row = checked(shell, "file.onnx", "--runtime", runtime, "--mode", "forward")
    assert row["status"] == "UNSUPPORTED" and model.graph.node[0].op_type in row["message"], row


def test_it_trains_nothing_and_has_no_lower_precision(runtime, shell, lenet):
    for words, says in (
        (("--mode", "step"), f"{runtime} cannot train"),
        (("--mode", "forward", "--precision", "bf16"), f"{runtime} has no switch for bf16"),
    ):
        row = checked(shell, "lenet", "--runtime", runtime, *words)
        assert row["status"] == "UNSUPPORTED" and says in row["message"]
