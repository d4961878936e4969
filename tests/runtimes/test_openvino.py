"""OpenVINO computes in float32 when float32 is requested."""

import json

import numpy as np
import onnx
import openvino
import pytest

from xbench.parity import calls, candidate, oracle
from xbench.runtimes import Options, load


def write_weights_of_int8(path):
    """A product with int8 weights that the graph itself dequantises."""
    draw = np.random.default_rng(0)
    weights = draw.integers(-127, 128, (384, 384), np.int8), draw.uniform(5e-4, 2.5e-3, (1, 384)).astype(np.float32)
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 17]> g (float[n,16,384] x) => (float[n,16,384] y) {
             f = Cast<to=1>(w) d = Mul(f, s) y = MatMul(x, d) }"""
    )
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for array, name in zip(weights, "ws", strict=True)
    )
    onnx.save(model, path)


def test_activations_are_not_quantised_behind_ones_back(shell):
    write_weights_of_int8(shell.folder / "int8.onnx")
    answer = shell.run("check", "int8.onnx", "--runtime", "openvino", "--mode", "forward", "--json")
    (row,) = json.loads(answer.stdout)
    assert (row["status"], row["class"]) == ("PASS", "fp32"), row["message"]


@pytest.mark.parametrize(("word", "size"), [("openvino", 2), ("openvino:shapes=open", None)])
def test_axes_of_a_file_are_fixed_or_left_open(lenet, word, size):
    """Open ones take inputs of another size without another compilation; both are right."""
    runtime = load(word, lenet, Options())
    (inputs, labels), (more, _) = (candidate.sample(lenet, batch, 0) for batch in (2, 5))
    runtime.prepare(inputs, labels, dropout=False)
    batch = runtime.compiled.inputs[0].partial_shape[0]
    assert (batch.get_length() if batch.is_static else None) == size
    (answer,) = calls.outputs(runtime, runtime.forward(*runtime.put(inputs)))
    if size is None:
        (larger,) = calls.outputs(runtime, runtime.forward(*runtime.put(more)))
        assert larger.shape == (5, 10)
    exact = oracle.outputs(lenet, inputs, labels)["output/" + lenet.info["outputs"][0]]
    assert np.abs(answer - exact).max() < 1e-5


def test_another_precision_than_it_was_told_is_named(shell, lenet):
    """On a CPU with bfloat16 and without float16 OpenVINO takes one for the other, eight times as far off."""
    abilities = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    words = ("--runtime", "openvino", "--precision", "fp16", "--mode", "forward", "--json")
    (row,) = json.loads(shell.run("check", "lenet", *words).stdout)
    if "FP16" in abilities:
        assert row["status"] == "PASS"
    else:
        actual = "bf16" if "BF16" in abilities else "float32"
        assert (row["status"], row["message"]) == ("UNSUPPORTED", f"was told fp16, and computes in {actual}")


def test_a_training_graph_has_fixed_shapes(shell, lenet):
    words = ("--runtime", "openvino:shapes=open", "--mode", "step", "--json")
    (row,) = json.loads(shell.run("check", "lenet", *words).stdout)
    assert row["status"] == "UNSUPPORTED" and "is for --mode forward" in row["message"]


def test_a_sweep_compares_fixed_and_open_shapes(shell):
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 17]> g (float[n,time,8] x) => (float[n,time,8] y) { y = Relu(x) }"""
    )
    onnx.save(model, shell.folder / "relu.onnx")
    runtimes = ("--runtime", "openvino,openvino:shapes=fixed,onnxruntime,onnxruntime:shapes=fixed")
    answer = shell.run("check", "relu.onnx", "--shape", "time=4,12", *runtimes, "--mode", "forward")
    assert answer.returncode == 0, answer.stderr
    header, *lines = [line.split() for line in answer.stdout.splitlines()[1:4]]
    assert header == ["time", *runtimes[1].split(",")]
    assert [(line[0], line.count("PASS")) for line in lines] == [("4", 4), ("12", 4)]
