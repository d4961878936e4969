"""`xbench bisect --precision`: the first tensor that overflows, or loses more than the precision explains."""

import json

import numpy as np
import onnx
import pytest
from fault_kit import only_line
from onnx import TensorProto, helper, numpy_helper


def network(path, kinds, grown, shrunk, factor):
    """Layers of 16 numbers; the result of layer `grown` is multiplied by a factor, by whose inverse that of the later
    layer `shrunk` is."""
    rng = np.random.default_rng(len(kinds) + grown)
    nodes, stored, last = [], [], "x"

    def add(operator, name, *more):
        nonlocal last
        nodes.append(helper.make_node(operator, [last, *more], [name], name=f"node_{name}"))
        last = name

    for number, kind in enumerate(kinds):
        if kind == "MatMul":
            weight = rng.normal(size=(16, 16)).astype(np.float32) / 4
            stored.append(numpy_helper.from_array(weight, f"w{number}"))
            add(kind, f"t{number}", f"w{number}")
        else:
            add(kind, f"t{number}")
        for place, name, value in ((grown, "grown", factor), (shrunk, "shrunk", 1 / factor)):
            if number == place:
                stored.append(numpy_helper.from_array(np.float32(value), f"{name}_by"))
                add("Mul", name, f"{name}_by")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 16]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "grows", [ends[0]], [ends[1]], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def networks(count):
    rng = np.random.default_rng(7)
    for _ in range(count):
        kinds = ["MatMul", *rng.choice(["MatMul", "Tanh", "Relu", "Sigmoid"], int(rng.integers(3, 8))), "MatMul"]
        grown = int(rng.integers(0, len(kinds) - 1))
        yield kinds, grown, int(rng.integers(grown + 1, len(kinds)))


CASES = list(networks(20))


def linear(kinds, grown, shrunk):
    """Nothing between the two bounds what has grown."""
    return [each if each in ("MatMul", "Relu") else "MatMul" for each in kinds]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_an_overflow_is_named_at_its_node(number, shell):
    """60,000 has room in float16, and a number that is multiplied by it has not."""
    kinds, grown, shrunk = CASES[number]
    network(shell.folder / "grows.onnx", linear(kinds, grown, shrunk), grown, shrunk, 6e4 * 16)
    answer = shell.run("bisect", "grows.onnx", "onnxruntime", "--precision", "fp16", "--json")
    report = json.loads(answer.stdout)
    assert (answer.returncode, report["tensor"]) == (1, "grown"), report
    assert (report["precision"], report["node"]["name"]) == ("fp16", "node_grown")


def test_a_network_that_fits_into_the_precision_has_no_first_tensor(shell):
    network(shell.folder / "fits.onnx", ["MatMul", "Relu", "MatMul"], 0, 1, 4.0)
    for precision in ("fp16", "int8"):
        answer = shell.run("bisect", "fits.onnx", "onnxruntime", "--precision", precision, "--json")
        assert (answer.returncode, json.loads(answer.stdout)["differs"]) == (0, False)


def test_check_names_the_first_tensor_that_overflows(shell):
    network(shell.folder / "grows.onnx", ["MatMul", "Relu", "MatMul", "MatMul"], 1, 2, 1e6)
    words = ["check", "grows.onnx", "--runtime", "onnxruntime", "--mode", "forward", "--precision", "fp16", "--json"]
    (row,) = json.loads(shell.run(*words).stdout)
    assert (row["status"], row["first_wrong"]) == ("FAIL", "grown")


def test_a_precision_is_for_one_runtime_and_forward(shell):
    for words in (("torch",), ("--mode", "gradient")):
        answer = shell.run("bisect", "lenet", "onnxruntime", *words, "--precision", "fp16")
        assert only_line(answer.stderr) == "xbench: --precision fp16 is for one runtime, and --mode forward"
