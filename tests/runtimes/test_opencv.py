"""OpenCV's dnn module as a runtime: what it takes, what it lacks, and where it is wrong."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

cv2 = pytest.importorskip("cv2", minversion="5", exc_type=ImportError)
OPSET = '<ir_version: 9, opset_import: ["": 20]> '
FILES = {
    "two outputs, one inside": "g (float[batch, 3] x) => (float[batch, 3] z, float[batch, 3] y)"
    "{ y = Relu(x) z = Tanh(y) }",
    "whole numbers and none": "g (float[batch, 3] x) => (int64[batch, 1] y, bool[batch, 3] z)"
    "<int64 axis = {0}, float[1] zero = {0.0}> { y = ArgMax <axis = 1> (x) z = Greater(x, zero) }",
    "a scalar": "g (float[batch, 3] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }",
    "tokens": "g (int64[batch, 4] ids) => (float[batch, 4, 2] y)"
    "<float[3, 2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> { y = Gather(w, ids) }",
    "a condition": "g (bool[batch, 3] m, float[batch, 3] x) => (float[batch, 3] y) { n = Neg(x) y = Where(m, x, n) }",
}


def checked(shell, *words):
    """The row of a check, in this process."""
    answer = shell.inside("check", *words, "--runtime", "opencv", "--mode", "forward", "--json")
    assert answer.stdout, answer.stderr
    return json.loads(answer.stdout)[0]


@pytest.mark.parametrize("name", FILES)
def test_it_takes_inputs_and_outputs_of_every_kind(name, shell):
    onnx.save(onnx.parser.parse_model(OPSET + FILES[name]), shell.folder / "file.onnx")
    row = checked(shell, "file.onnx")
    assert (row["status"], row["graph"]) == ("PASS", "given"), row["message"]


def test_an_operator_that_it_lacks_is_named(shell):
    text = "g (float[batch, 1, 4, 4] x) => (float[batch, 1, 3, 3] y) { y = LpPool <kernel_shape = [2, 2]> (x) }"
    onnx.save(onnx.parser.parse_model(OPSET + text), shell.folder / "file.onnx")
    row = checked(shell, "file.onnx")
    assert row["status"] == "UNSUPPORTED" and "LpPool" in row["message"]


@pytest.mark.parametrize("word", ["opencv", "opencv:engine=new", "opencv:engine=classic"])
def test_its_engines_compute_a_network(word, shell, lenet):
    answer = shell.inside("check", "lenet", "--runtime", word, "--mode", "forward", "--json")
    assert json.loads(answer.stdout)[0]["status"] == "PASS"


def test_it_trains_nothing_and_has_no_lower_precision(shell, lenet):
    for words, says in (
        (("--mode", "step"), "opencv cannot train"),
        (("--mode", "forward", "--precision", "bf16"), "opencv has no switch for bf16"),
    ):
        row = json.loads(shell.inside("check", "lenet", "--runtime", "opencv", *words, "--json").stdout)[0]
        assert row["status"] == "UNSUPPORTED" and says in row["message"]


def test_its_gelu_by_tanh_is_the_other_one(shell):
    """docs/found.md"""
    text = 'g (float[batch, 8] x) => (float[batch, 8] y) { y = Gelu <approximate = "tanh"> (x) }'
    onnx.save(onnx.parser.parse_model(OPSET + text), shell.folder / "gelu.onnx")
    row = checked(shell, "gelu.onnx")
    assert row["status"] == "FAIL" and row["first_wrong"] == "y"


def test_its_gru_can_be_called_once(shell):
    """docs/found.md"""
    draw = np.random.default_rng(0)
    arrays = [
        numpy_helper.from_array(draw.normal(0, 0.3, shape).astype(np.float32), name)
        for name, shape in (("w", (1, 12, 3)), ("r", (1, 12, 4)))
    ]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        helper.make_node("GRU", ["t", "w", "r"], ["", "y"], hidden_size=4),
    ]
    x, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", ("batch", 5, 3)), ("y", (1, "batch", 4)))
    )
    opset = [helper.make_opsetid("", 20)]
    file = shell.folder / "gru.onnx"
    onnx.save(
        helper.make_model(helper.make_graph(nodes, "g", [x], [y], arrays), opset_imports=opset, ir_version=9), file
    )
    row = checked(shell, "gru.onnx")
    assert row["status"] == "CRASH" and re.search("gru_layer.*prepareRuntimeState", row["message"])
    net = cv2.dnn.readNetFromONNX(str(file))
    net.setInput(np.zeros((2, 5, 3), np.float32), "x")
    assert net.forward(["y"])[0].shape == (1, 2, 4)
    with pytest.raises(cv2.error, match="Initial hidden state blob has incorrect dimensions"):
        net.forward(["y"])
