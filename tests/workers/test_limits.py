"""Models that never end, or need more memory than there is: `--timeout` ends an export and an oracle too."""

import json
import subprocess

import numpy as np
import onnx
import pytest
from fault_kit import only_line
from onnx import TensorProto, helper, numpy_helper

from xbench.converters.codegen.printer import _python
from xbench.host import memory

OPTIONS = ("--runtime", "onnxruntime", "--mode", "forward", "--json", "--timeout")


def ends(*names):
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in names]


def save(path, nodes, initializers, outputs=("y",)):
    graph = helper.make_graph(nodes, "g", ends("x"), ends(*outputs), initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return str(path)


def endless(path):
    """A Loop of 2^62 iterations."""
    scalars = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("i", TensorProto.INT64), ("c", 9))]
    out = [helper.make_tensor_value_info("d", 9, []), *ends("w")]
    nodes = [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Cos", ["v"], ["w"])]
    body = helper.make_graph(nodes, "body", [*scalars, *ends("v")], out)
    turns = numpy_helper.from_array(np.array(2**62), "turns")
    return save(path, [helper.make_node("Loop", ["turns", "", "x"], ["y"], body=body)], [turns])


def huge(path):
    """An Expand to 2^36 elements per sample."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axes"], ["u"]),
        helper.make_node("Expand", ["u", "shape"], ["e"]),
        helper.make_node("Cos", ["e"], ["f"]),
        helper.make_node("ReduceMax", ["f", "axes"], ["y"], keepdims=0),
    ]
    arrays = {"axes": np.array([2]), "shape": np.array([1, 1, 2**34])}
    return save(path, nodes, [numpy_helper.from_array(array, name) for name, array in arrays.items()])


def test_an_oracle_that_never_ends_is_ended(shell):
    """And is not requested again by the next cell."""
    words = [endless(shell.folder / "endless.onnx"), huge(shell.folder / "huge.onnx")]
    answer = shell.apart("check", *words, *OPTIONS, 8)
    rows = {row["model"]: row for row in json.loads(answer.stdout or "[]")}
    assert "Traceback" not in answer.stderr and answer.returncode in (1, 2), answer.stderr
    assert {row["status"] for row in rows.values()} <= {"UNVERIFIED"}
    output = answer.stderr + "".join(row["message"] for row in rows.values())
    assert "within 8 s" in output
    assert not shell.survivors()


@pytest.mark.parametrize("command", ["check", "time"])
def test_a_factory_that_never_ends_is_ended(shell, command):
    (shell.folder / "turning.py").write_text("def make():\n    while True:\n        pass\n")
    options = [word for word in OPTIONS if word != "--json"]
    word = ("turning:make", "--input", "x:float32:batch,4")
    answer = shell.run(command, *word, *options, 8, PYTHONPATH=shell.python_path(shell.folder))
    assert answer.returncode == 2
    assert "cannot export turning:make: no answer to export within 8 s" in only_line(
        "\n".join(line for line in answer.stderr.splitlines() if line.startswith("xbench"))
    )


def trees(path, nodes):
    """A regression by trees of a thousand nodes; valid, and all of it is lists of attributes."""
    per = 1001
    count = nodes // per * per
    ids = np.tile(np.arange(per), nodes // per)
    leaf = ids >= per // 2
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1)
    leaves = np.nonzero(leaf)[0]
    numbers = {"nodeids": ids, "treeids": np.repeat(np.arange(nodes // per), per), "featureids": ids % 3}
    numbers |= {"truenodeids": np.where(leaf, 0, 2 * ids + 1), "falsenodeids": np.where(leaf, 0, 2 * ids + 2)}
    given = {f"nodes_{name}": each.tolist() for name, each in numbers.items()}
    given |= {
        "target_ids": [0] * len(leaves),
        "target_nodeids": ids[leaves].tolist(),
        "target_weights": [0.5] * len(leaves),
    }
    given |= {"target_treeids": given["nodes_treeids"][:: per // (per - per // 2)][: len(leaves)]}
    given |= {
        "nodes_values": np.linspace(0, 1, count).tolist(),
        "nodes_modes": ["LEAF" if each else "BRANCH_LEQ" for each in leaf],
    }
    for name, values in given.items():
        node.attribute.append(helper.make_attribute(name, values))
    shapes = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", size])] for n, size in (("x", 3), ("y", 1))]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 1)]
    onnx.save(helper.make_model(helper.make_graph([node], "g", *shapes), opset_imports=opsets, ir_version=10), path)
    return path


READ = """
import sys
from pathlib import Path
from xbench.host import memory
from xbench.converters.frontends import onnx_file
path = Path(sys.argv[1])
memory.HEADROOM, memory.LISTS = int(sys.argv[2]), int(sys.argv[3])
try:
    with memory.at_most(0, path.stat().st_size):
        proto = onnx_file.read(path)
    with memory.at_most(onnx_file.stored(proto), onnx_file.besides(proto)):
        onnx_file.canonical(proto, path.parent)
except MemoryError as error:
    sys.exit(f"no memory: {error}")
"""


def test_trees_have_the_memory_that_they_need_and_no_file_is_invalid_for_want_of_it(shell):
    """A file of trees of 194 MB was "not a valid ONNX file: Arena alloc failed"."""
    path = trees(shell.folder / "trees.onnx", 250_000)
    assert path.stat().st_size > 7_000_000

    def read(headroom, lists):
        command = [*shell.command()[:3], READ, path, str(headroom), str(lists)]
        return subprocess.run(command, capture_output=True, text=True, env=shell.environment(), timeout=200)

    enough = read(32 << 20, memory.LISTS)
    assert enough.returncode == 0, enough.stderr
    short = read(1 << 20, 4)
    assert short.returncode == 1 and short.stderr.startswith("no memory: "), short.stderr


def test_long_lists_are_printed_as_short_ones_are():
    assert _python([1, 2]) == "(1, 2)" and _python([1]) == "(1,)" and _python([]) == "()"
    assert _python(["a"]) == "('a',)" and _python([b"a", b"b"]) == "('a', 'b')"
    assert _python([1.0, 0.1]) == "(1.0, 0.1)" and _python([True, 2]) == "(1, 2)"
    assert _python([np.int64(3), 4]) == "(3, 4)"
