"""What never ends, or takes more memory than there is: `--timeout` ends an export and an oracle too."""

import json
import time

import numpy as np
import onnx
import pytest
from fault_kit import only_line
from onnx import TensorProto, helper, numpy_helper

ASKED = ("--runtime", "onnxruntime", "--mode", "forward", "--json", "--timeout")


def ends(*names):
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in names]


def save(path, nodes, initializers, outputs=("y",)):
    graph = helper.make_graph(nodes, "g", ends("x"), ends(*outputs), initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return str(path)


def endless(path):
    """A Loop of 2^62 turns."""
    scalars = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("i", TensorProto.INT64), ("c", 9))]
    out = [helper.make_tensor_value_info("d", 9, []), *ends("w")]
    nodes = [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Cos", ["v"], ["w"])]
    body = helper.make_graph(nodes, "body", [*scalars, *ends("v")], out)
    turns = numpy_helper.from_array(np.array(2**62), "turns")
    return save(path, [helper.make_node("Loop", ["turns", "", "x"], ["y"], body=body)], [turns])


def huge(path):
    """An Expand to 2^36 elements a sample."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axes"], ["u"]),
        helper.make_node("Expand", ["u", "shape"], ["e"]),
        helper.make_node("Cos", ["e"], ["f"]),
        helper.make_node("ReduceMax", ["f", "axes"], ["y"], keepdims=0),
    ]
    arrays = {"axes": np.array([2]), "shape": np.array([1, 1, 2**34])}
    return save(path, nodes, [numpy_helper.from_array(array, name) for name, array in arrays.items()])


def test_an_oracle_that_never_ends_is_ended(shell):
    """And is not asked for again by the next cell."""
    words = [endless(shell.folder / "endless.onnx"), huge(shell.folder / "huge.onnx")]
    start = time.monotonic()
    answer = shell.run("check", *words, *ASKED, 8)
    rows = {row["model"]: row for row in json.loads(answer.stdout or "[]")}
    assert "Traceback" not in answer.stderr and answer.returncode in (1, 2), answer.stderr
    assert {row["status"] for row in rows.values()} <= {"UNVERIFIED"}
    said = answer.stderr + "".join(row["message"] for row in rows.values())
    assert "within 8 s" in said and time.monotonic() - start < 120
    assert not shell.survivors()


@pytest.mark.parametrize("command", ["check", "time"])
def test_a_factory_that_never_ends_is_ended(shell, command):
    (shell.folder / "turning.py").write_text("def make():\n    while True:\n        pass\n")
    asked = [word for word in ASKED if word != "--json"]
    word = ("turning:make", "--input", "x:float32:batch,4")
    answer = shell.run(command, *word, *asked, 8, PYTHONPATH=shell.python_path(shell.folder))
    assert answer.returncode == 2
    assert "cannot export turning:make: no answer to export within 8 s" in only_line(
        "\n".join(line for line in answer.stderr.splitlines() if line.startswith("xbench"))
    )
