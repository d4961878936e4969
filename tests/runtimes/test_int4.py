"""Weights of four bits by each runtime's own tool: of products, right where they are shared, refused where there are
none."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from fault_kit import Shell
from onnx import TensorProto, helper, numpy_helper

from xbench.runtimes import Unavailable
from xbench.runtimes.support.onnxruntime_narrow import narrowed

RNG = np.random.default_rng(0)
WEIGHT, BIAS = RNG.normal(size=(64, 64)).astype(np.float32) / 8, RNG.normal(size=64).astype(np.float32)
RELU, TURNED = ("Relu", ["h"], ["r"], {}), {"transB": 1}
SHARED = {
    "by two products": [("MatMul", ["x", "w"], ["h"], {}), RELU, ("MatMul", ["r", "w"], ["y"], {})],
    "by two layers": [("Gemm", ["x", "w", "b"], ["h"], TURNED), RELU, ("Gemm", ["r", "w"], ["y"], TURNED)],
    "turned and not": [("Gemm", ["x", "w"], ["h"], TURNED), RELU, ("MatMul", ["r", "w"], ["y"], {})],
    "with names of ours": [("Gemm", ["x", "w", "w_turned"], ["h"], TURNED), ("Relu", ["h"], ["h_product"], {}),
                           ("Neg", ["h_product"], ["y"], {})],
}  # fmt: skip
CONV = [("Conv", ["x", "k"], ["h"], {}), ("Relu", ["h"], ["y"], {})]


def save(path, nodes, size=(64,), out=(64,), **arrays):
    """An ONNX file of nodes (operator, inputs, outputs, attributes)."""
    made = [helper.make_node(kind, inputs, outputs, **how) for kind, inputs, outputs, how in nodes]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *size])]
    wanted = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", *out])]
    graph = helper.make_graph(made, "net", given, wanted, [numpy_helper.from_array(a, n) for n, a in arrays.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def outputs(path, x):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


@pytest.mark.parametrize("name", SHARED)
def test_weights_that_are_read_twice_are_right(name, tmp_path):
    """ONNX Runtime's own function for a Gemm turns weights in place, though others read them, too."""
    nodes = SHARED[name]
    read = {each for _, inputs, _, _ in nodes for each in inputs}
    arrays = {n: a for n, a in {"w": WEIGHT, "b": BIAS, "w_turned": BIAS}.items() if n in read}
    path = save(tmp_path / "net.onnx", nodes, **arrays)
    x = RNG.normal(size=(5, 64)).astype(np.float32)
    (tmp_path / "made").mkdir()
    made = narrowed(str(path), "int4", {"x": x}, str(tmp_path / "made"))
    graph = onnx.load(made).graph
    assert [node.op_type for node in graph.node].count("MatMulNBits") == sum(n[0] in ("Gemm", "MatMul") for n in nodes)
    blocks = {
        a.i for node in graph.node if node.op_type == "MatMulNBits" for a in node.attribute if a.name == "block_size"
    }
    assert blocks == {32}
    exact = outputs(path, x)
    assert 0.01 < np.linalg.norm(outputs(made, x) - exact) / np.linalg.norm(exact) < 0.2


def test_a_network_without_products_has_nothing_to_compute_in_four_bits(tmp_path):
    path = save(tmp_path / "net.onnx", CONV, (3, 8, 8), (4, 6, 6), k=RNG.normal(size=(4, 3, 3, 3)).astype(np.float32))
    with pytest.raises(Unavailable, match=r"nothing to compute in int4: no product of the network \(MatMul, Gemm\)"):
        narrowed(str(path), "int4", {}, str(tmp_path))
    answer = Shell(tmp_path).run(
        "check", "net.onnx", "--mode", "forward", "--precision", "int4", "--runtime", "openvino", "--json"
    )
    (row,) = json.loads(answer.stdout)
    assert (row["status"], row["message"]) == (
        "UNSUPPORTED", "openvino has nothing to compute in int4: NNCF gave no weight four bits"
    )  # fmt: skip


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_answers_with_weights_of_four_bits_are_evaluated(runtime, digits, tmp_path):
    words = (
        "--inputs",
        digits / "digits.npz",
        "--precision",
        "int4",
        "--runtime",
        runtime,
        "--max-drop",
        "3%",
        "--json",
    )
    answer = Shell(tmp_path).run("evaluate", digits / "digits.onnx", *words)
    (record,) = json.loads(answer.stdout)
    assert (record["status"], record["parity"]["class"]) == ("PASS", "int4"), record["message"]
    found = record["evaluation"]
    assert (found["samples"], found["set_aside"], found["ranges"]) == (899, False, None)  # all: nothing is calibrated
    assert 0 < found["changed"] < 60
    assert record["versions"].keys() >= {runtime, *(["nncf"] if runtime == "openvino" else [])}


@pytest.mark.parametrize("model", ["vit_s16", "gpt2"])
def test_a_transformer_is_verified_with_weights_of_four_bits(model, shell):
    words = ("--precision", "int4", "--mode", "forward", "--runtime", "onnxruntime", "--runtime", "openvino", "--json")
    rows = json.loads(shell.run("check", model, *words).stdout)
    assert [(row["status"], row["class"]) for row in rows] == [("PASS", "int4")] * 2, rows
