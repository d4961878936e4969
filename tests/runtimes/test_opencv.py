"""OpenCV's dnn module as a runtime: what it takes, what it lacks, and where it is wrong."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

cv2 = pytest.importorskip("cv2", minversion="5", exc_type=ImportError)
OPSET = '<ir_version: 9, opset_import: ["": 20]> '


def checked(shell, *words):
    """The row of a check, in this process."""
    answer = shell.inside("check", *words, "--runtime", "opencv", "--mode", "forward", "--json")
    assert answer.stdout, answer.stderr
    return json.loads(answer.stdout)[0]


@pytest.mark.parametrize("word", ["opencv", "opencv:engine=new", "opencv:engine=classic"])
def test_its_engines_compute_a_network(word, shell, lenet):
    answer = shell.inside("check", "lenet", "--runtime", word, "--mode", "forward", "--json")
    assert json.loads(answer.stdout)[0]["status"] == "PASS"


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
