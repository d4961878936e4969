"""PyTorch's exported programs: AOTInductor's and TorchScript's, each for inputs of one size."""

import json

import numpy as np
import onnx
import pytest

FILE = """<ir_version: 9, opset_import: ["": 20]>
  g (float[batch, 3] x, int64[batch, 4] ids) => (float[batch, 3] y, int64[batch, 1] place, float[batch, 4, 2] rows)
  <float[3, 2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}>
  { y = Tanh(x) place = ArgMax <axis = 1> (x) rows = Gather(w, ids) }"""

POOLED = """<ir_version: 9, opset_import: ["": 11]> g (float[batch,3,6,6] x) => (float[batch,4,a,b] y)
  { c = Conv<kernel_shape = [3, 3]> (x, w) p = AveragePool<kernel_shape = [2, 2], strides = [2, 2]> (c)
    g = GlobalAveragePool(p) k = Conv<kernel_shape = [1, 1]> (g, u) h = HardSigmoid(k) y = Mul(p, h) }"""


def write_pooled(path):
    """A network whose pooling computes with the sizes of its input, and which casts nothing."""
    model, draw = onnx.parser.parse_model(POOLED), np.random.default_rng(0)
    for name, shape in {"w": (4, 3, 3, 3), "u": (4, 4, 1, 1)}.items():
        array = draw.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, path)


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


def test_sizes_that_are_computed_are_numbers_in_a_trace(checked, shell):
    write_pooled(shell.folder / "pooled.onnx")
    (row,) = checked("pooled.onnx", "--mode", "forward")
    assert row["status"] == "PASS", row["message"]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_file_is_compiled_in_less_than_float32(precision, shell):
    """An exported program checks the types of its tensors, which autocast changes."""
    write_pooled(shell.folder / "pooled.onnx")
    words = ("--mode", "forward", "--runtime", "torch_compile", "--precision", precision, "--json")
    (row,) = json.loads(shell.inside("check", "pooled.onnx", *words).stdout)
    assert (row["status"], row["class"]) == ("PASS", "half"), row["message"]


def test_it_trains_nothing(checked, lenet):
    (row,) = checked("lenet", "--mode", "step")
    assert row["status"] == "UNSUPPORTED" and "cannot train" in row["message"]
