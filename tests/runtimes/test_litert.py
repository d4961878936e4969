"""LiteRT as a runtime: what TensorFlow's converter makes of the printed program, images with their channels last."""

import json

import onnx
import pytest

pytest.importorskip("ai_edge_litert.interpreter", exc_type=ImportError)
OPSET = '<ir_version: 9, opset_import: ["": 20]> '
FILES = {
    "outputs of three types, one an input": "g (float[batch, 3] x, int64[batch, 4] ids) => (float[batch, 3] x2,"
    "int64[batch, 1] place, bool[batch, 3] large, float[batch, 4, 2] rows)"
    "<float[3, 2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, float[1] zero = {0.0}>"
    "{ x2 = Identity(x) place = ArgMax <axis = 1> (x) large = Greater(x, zero) rows = Gather(w, ids) }",
    "a convolution by channel": "g (float[batch, 2, 5, 5] x) => (float[batch, 2, 4, 4] y)"
    "<float[2, 1, 2, 2] w = {1.0, -2.0, 3.0, 4.0, 5.0, 6.0, -7.0, 8.0}> { y = Conv <group = 2> (x, w) }",
}
LACKS = "g (float[batch, 3, 3] x) => (float[batch] y) { y = Det(x) }"


def checked(shell, model, *words):
    """The row of a check, in this process."""
    answer = shell.inside("check", model, "--runtime", "litert", *words, "--json")
    assert answer.stdout, answer.stderr
    return json.loads(answer.stdout)[0]


@pytest.mark.parametrize("name", FILES)
def test_it_computes_files(name, shell):
    onnx.save(onnx.parser.parse_model(OPSET + FILES[name]), shell.folder / "file.onnx")
    row = checked(shell, "file.onnx", "--mode", "forward")
    assert row["status"] == "PASS", row["message"]


def test_it_computes_a_network_and_trains_nothing(shell, lenet):
    assert checked(shell, "lenet", "--mode", "forward")["status"] == "PASS"
    row = checked(shell, "lenet", "--mode", "step")
    assert row["status"] == "UNSUPPORTED" and "litert cannot train" in row["message"]


def test_an_operator_that_it_lacks_is_named(shell):
    onnx.save(onnx.parser.parse_model(OPSET + LACKS), shell.folder / "file.onnx")
    row = checked(shell, "file.onnx", "--mode", "forward")
    assert (row["status"], row["message"]) == (
        "UNSUPPORTED", "operators missing: TensorFlow's MatrixDeterminant (1)"
    )  # fmt: skip
