"""OpenVINO computes in float32 when float32 is requested."""

import json

import numpy as np
import onnx


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
