"""PyTorch's exported programs: AOTInductor's and TorchScript's, each for inputs of one size."""

import json

import onnx
import pytest

FILE = """<ir_version: 9, opset_import: ["": 20]>
  g (float[batch, 3] x, int64[batch, 4] ids) => (float[batch, 3] y, int64[batch, 1] place, float[batch, 4, 2] rows)
  <float[3, 2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}>
  { y = Tanh(x) place = ArgMax <axis = 1> (x) rows = Gather(w, ids) }"""


@pytest.fixture(params=["torch_export", "torchscript"])
def checked(request, shell):
    """The rows of a check on such a runtime."""

    def rows(*words):
        answer = shell.inside("check", *words, "--runtime", request.param, "--json")
        assert answer.stdout, answer.stderr
        return json.loads(answer.stdout)

    return rows


def test_it_computes_a_network_of_pytorch_and_a_file(checked, shell, lenet):
    onnx.save(onnx.parser.parse_model(FILE), shell.folder / "file.onnx")
    rows = checked("lenet", "file.onnx", "--mode", "forward")
    assert [row["status"] for row in rows] == ["PASS", "PASS"], [row["message"] for row in rows]
    assert [row["certificate"]["equal"] for row in rows] == [None, None], "what it holds is not known"


def test_it_trains_nothing(checked, lenet):
    (row,) = checked("lenet", "--mode", "step")
    assert row["status"] == "UNSUPPORTED" and "cannot train" in row["message"]
