"""`xbench bisect` names the node of a planted fault, and the script it writes shows the fault without xbench."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import faulty
import numpy as np
import onnx
import planted
import pytest
from onnx import TensorProto, helper, numpy_helper
from places import SUPPORT

from xbench.parity import search, verdict
from xbench.workers.jobs import bisect as jobs

TRANSFORMER = "small_nets:transformer@x:float32:batch,6,16"
RECURRENT = "small_nets:recurrent@words:int64:batch,7"
NORMED = "planted_net:make@x:float32:batch,3,12,16"


# ***** the search *****


def nodes_of(*reads):
    """Nodes that give 0, 1, 2, ... and read the given inputs."""
    return [{"inputs": each.split(), "outputs": [str(n)]} for n, each in enumerate(reads)]


DIAMOND = nodes_of("x", "0", "0", "1 2", "3")


def test_the_roots_of_what_is_wrong_have_right_inputs():
    assert search.roots(DIAMOND, {"1", "3", "4"}) == [1]
    assert search.roots(DIAMOND, {"1", "2", "3", "4"}) == [1, 2]


def test_backward_the_roots_are_those_whose_outputs_are_told_the_right_gradient():
    assert search.roots_backward(DIAMOND, {3: ["1", "2"], 2: ["0"], 1: ["0"], 0: ["x"]}) == [3]
    assert search.roots_backward(DIAMOND, {3: ["1"], 2: ["0"]}) == [3, 2]


def test_windows_grow_both_ways_until_there_are_no_more():
    assert list(search.windows(DIAMOND, 1, 9)) == [[0, 1, 3], [0, 1, 2, 3, 4]]
    assert list(search.windows(DIAMOND, 1, 3)) == [[0, 1, 3]]


@pytest.mark.parametrize("seed", range(20))
def test_the_smallest_part_is_found_by_cutting_down_the_whole(seed):
    draw = random.Random(seed)
    count = draw.randrange(1, 80)
    needed = set(draw.sample(range(count), draw.randrange(1, min(count, 4) + 1)))
    trials = []

    def shows(nodes):
        trials.append(nodes)
        return needed <= set(nodes)

    assert search.smallest(list(range(count)), shows) == sorted(needed)
    assert search.first(count, shows) == max(needed)
    assert search.first(count, lambda nodes: False) is None
    assert len(trials) < 20 + 40 * len(needed)


def test_a_part_is_given_the_tensor_of_its_name(exporter, tmp_path):
    """`np.load(file)["h.npy"]` is the array `h` if there is one."""
    nodes = [helper.make_node("Neg", ["x"], ["h"]), helper.make_node("Exp", ["x"], ["h.npy"])]
    nodes.append(helper.make_node("Sub", ["h", "h.npy"], ["y"]))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in "xy")
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y])), tmp_path / "m.onnx")
    artifact = exporter.artifact(str(tmp_path / "m.onnx"))
    reference = exporter.reference(artifact, "forward", 2, 0, "synthetic")
    jobs.tensors(str(artifact.folder), str(reference), False, str(tmp_path / "values.npz"))
    (tmp_path / "part").mkdir()
    assert jobs.part(str(artifact.folder), str(tmp_path / "values.npz"), [2], "forward", str(tmp_path / "part"))
    given = verdict.read(tmp_path / "part" / verdict.REFERENCE, "input/")
    assert np.allclose(given["input/1"], np.exp(-given["input/0"]), rtol=1e-6)


def test_two_answers_differ_where_one_is_wrong_or_both_are_by_different_errors():
    right, floor = np.ones(4), np.array([1e-7, 1e-7])
    reference = {"output/y": right, "floor/output/y": floor, "output/nan": right * np.nan, "floor/output/nan": floor}
    one, other = {"output/y": right + 1, "output/nan": right}, {"output/y": right + 2, "output/nan": right}
    same = {"output/y": right, "output/nan": right}
    differ = {
        label: verdict.errors([a, b], reference)["output/y"][1]
        for label, a, b in (("one", one, same), ("both", one, other), ("alike", one, one), ("none", same, same))
    }
    assert differ == {"one": True, "both": True, "alike": False, "none": False}
    assert verdict.errors([one], reference)["output/y"][1]
    assert "output/nan" not in verdict.errors([one], reference)


# ***** planted faults *****


def write_branches(path: Path) -> str:
    """Branches, an If, indices and comparisons."""
    floats = np.random.default_rng(0).standard_normal
    then, other = (
        helper.make_graph(
            [helper.make_node(op, ["gated", "two"], [op])],
            op,
            [],
            [helper.make_tensor_value_info(op, TensorProto.FLOAT, ["batch", 8])],
        )
        for op in ("Mul", "Add")
    )
    rows = [
        ("MatMul", "x weight", "product"),
        ("Relu", "product", "relu"),
        ("Sigmoid", "product", "gate"),
        ("Mul", "relu gate", "gated"),
        ("ReduceSum", "gated", "total", {"keepdims": 0}),
        ("Greater", "total zero", "is_large"),
        ("If", "is_large", "chosen", {"then_branch": then, "else_branch": other}),
        ("TopK", "chosen k", "best places"),
        ("Gather", "table places", "rows"),
        ("ReduceSum", "rows axes", "summed", {"keepdims": 0}),
        ("Less", "best half", "is_small"),
        ("Where", "is_small zero best", "kept"),
        ("Mul", "summed kept", "y"),
    ]
    arrays = {"weight": floats((6, 8)), "table": floats((8, 5)), "zero": 0.0, "two": 2.0, "half": 0.5}
    constants = [numpy_helper.from_array(np.asarray(a, np.float32), name) for name, a in arrays.items()]
    constants += [numpy_helper.from_array(np.array(n), name) for name, n in {"k": [2], "axes": [2]}.items()]
    graph = helper.make_graph(
        [helper.make_node(op, reads.split(), gives.split(), **dict(*more)) for op, reads, gives, *more in rows],
        "branches",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return str(path)


def write_rewritten(path: Path) -> str:
    """Operators that ONNX does not define, some between integers."""
    draw = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(draw.normal(size=shape).astype(np.float32), name)
        for name, shape in (("w", (8, 8)), ("b", (8,)), ("g", (8,)))
    ]
    weights += [numpy_helper.from_array(np.float32(0.02), "s"), numpy_helper.from_array(np.uint8(120), "z")]
    rows = [
        ("FusedGemm", "x w b", "first", {"activation": "Relu"}),
        ("BiasGelu", "first b", "biased", {}),
        ("SkipLayerNormalization", "biased x g b", "normed", {"epsilon": 1e-5}),
        ("QuantizeLinear", "normed s z", "codes", {}),
        ("QLinearMul", "codes s z codes s z s z", "squares", {}),
        ("DequantizeLinear", "squares s z", "numbers", {}),
        ("FusedMatMul", "numbers w", "y", {"alpha": 0.5, "transB": 1}),
    ]
    own = ("QuantizeLinear", "DequantizeLinear")
    nodes = [
        helper.make_node(op, reads.split(), [gives], domain="" if op in own else "com.microsoft", **words)
        for op, reads, gives, words in rows
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(
        helper.make_model(helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=opsets, ir_version=8), path
    )
    return str(path)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the faulty runtimes and the small networks."""
    folder = faulty.install(planted.install(tmp_path_factory.mktemp("site")))
    (folder / "small_nets.py").write_text((SUPPORT / "small_nets.py").read_text())
    write_branches(folder / "branches.onnx")
    write_rewritten(folder / "rewritten.onnx")
    return folder


@pytest.fixture
def bisect(site, tmp_path):
    """One `xbench bisect` in its own processes: its exit code, its report and its folder."""

    def run(*words, mode="forward"):
        out = tmp_path / "out"
        command = [sys.executable, "-c", "from xbench.cli import main; main()", "bisect", *words]
        command += ["--mode", mode, "--out", str(out), "--json"]
        path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout), out

    return run


def script(out: Path) -> subprocess.CompletedProcess[str]:
    """Run reproduce.py without xbench."""
    code = "import runpy, sys; sys.modules['xbench'] = None; sys.path.insert(0, '.'); "
    code += "runpy.run_path('reproduce.py', run_name='__main__')"
    settings = os.environ | {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
    return subprocess.run([sys.executable, "-c", code], cwd=out, env=settings, capture_output=True, text=True)


def check_files(out: Path, report: dict) -> None:
    """The part is ONNX, and the script sees the difference."""
    onnx.checker.check_model(str(out / "subgraph.onnx"), full_check=True)
    assert json.loads((out / "report.json").read_text()) == report
    done = script(out)
    assert (done.returncode, done.stderr) == (1, ""), done.stderr
    assert "the difference is there" in done.stdout
    for letter in {"a", "b"} - {report["wrong"]}:
        if report[letter]:  # runs by itself, and is right
            lines = [line for line in done.stdout.splitlines() if line.startswith(f"{report[letter]} ")]
            assert lines and all(float(line.split()[-3]) < 64 for line in lines), done.stdout


@pytest.mark.parametrize("seed, model", enumerate(["lenet", "branches.onnx", TRANSFORMER, RECURRENT]))
def test_a_fault_at_a_random_node_is_found_by_that_node_alone(seed, model, exporter, site, bisect, monkeypatch):
    word = str(site / model) if model.endswith(".onnx") else model
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    exporter.close()  # a worker started now can import the networks
    runtime, tensor, operator = faulty.drawn(exporter.artifact(word), "forward", random.Random(seed))
    code, report, out = bisect(word, runtime, "onnxruntime")
    assert (code, report["wrong"], report["mode"], report["confirmed"]) == (1, "a", "forward", True)
    assert (report["tensor"], report["node"]["op_type"], report["nodes_in_subgraph"]) == (tensor, operator, 1)
    assert report["error_in_floors"]["b"] < 64
    check_files(out, report)


# runtimes, mode -> the fault, its tensor, its operator, the nodes of the smallest part
CASES = {
    "hidden where the tensor is an output": (
        ("lenet", "onnxruntime", "faulty_ort:node=conv2d_1,fault=fused"),
        "forward",
        ("b", "max_pool2d_1", "MaxPool", ["Conv", "MaxPool"]),
    ),
    "tied to the number of a call": (
        ("lenet", "openvino", "faulty_ort:op=Conv,nth=1,fault=scale"),
        "forward",
        ("b", "conv2d_1", "Conv", ["Conv", "Conv"]),
    ),
    "a runtime that raises": (
        ("lenet", "faulty_ort:node=relu,fault=broken", "onnxruntime"),
        "forward",
        ("a", "relu", "Relu", ["Relu"]),
    ),
    "comparisons alone": (
        ("branches.onnx", "onnxruntime", "faulty_ort:node=is_small,fault=operator"),
        "forward",
        ("b", "is_small", "Less", ["Less"]),
    ),
    "an operator of the file's own": (
        ("rewritten.onnx", "onnxruntime", "faulty_ort:op=BiasGelu,fault=scale"),
        "forward",
        ("b", "biased", "BiasGelu", ["BiasGelu"]),
    ),
    "an attribute of an operator of the file's own": (
        ("rewritten.onnx", "faulty_ort:op=SkipLayerNormalization,fault=attribute"),
        "forward",
        ("a", "normed", "SkipLayerNormalization", ["SkipLayerNormalization"]),
    ),
    "between integers of the file's own": (
        ("rewritten.onnx", "onnxruntime", "faulty_ort:op=QLinearMul,fault=broken"),
        "forward",
        ("b", "squares", "QLinearMul", ["QLinearMul"]),
    ),
    "a product of OpenVINO that wraps around": (  # docs/found.md
        ("rewritten.onnx", "onnxruntime", "openvino"),
        "forward",
        ("b", "squares", "QLinearMul", ["QLinearMul"]),
    ),
    "one operator of jax, against float64": (
        (RECURRENT, "faulty_jax:op=GRU,fault=scale"),
        "forward",
        ("a", "val_32", "GRU", ["GRU"]),
    ),
    "a gradient of jax": (
        (NORMED, "torch", "faulty_jax:op=Relu,fault=flip"),
        "gradient",
        ("b", "gradient/getitem_5", "Relu", ["Relu"]),
    ),
    "a gradient of a graph": (
        (NORMED, "faulty_ort:node=gradient.norm1.weight,fault=scale", "onnxruntime"),
        "gradient",
        ("a", "gradient/norm1.weight", "BatchNormalization", ["BatchNormalization"]),
    ),
    "forward, but in training alone": (
        (NORMED, "torch", "faulty_jax:op=BatchNormalization,fault=trained"),
        "gradient",
        ("b", "getitem", "BatchNormalization", ["BatchNormalization"]),
    ),
    "the running statistics": (
        (NORMED, "planted_momentum"),
        "step",
        ("a", "weight/norm1.running_mean", "BatchNormalization", ["BatchNormalization"]),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_planted_fault_is_found_by_the_smallest_part_that_shows_it(case, site, bisect):
    (model, *runtimes), mode, (wrong, tensor, operator, subgraph) = CASES[case]
    code, report, out = bisect(str(site / model) if model.endswith(".onnx") else model, *runtimes, mode=mode)
    assert (code, report["wrong"], report["mode"]) == (1, wrong, mode)
    assert (report["tensor"], report["node"]["op_type"]) == (tensor, operator)
    assert [node["op_type"] for node in report["subgraph"]] == subgraph
    check_files(out, report)


def test_runtimes_that_agree_differ_nowhere(bisect):
    code, report, out = bisect("lenet", "onnxruntime", "openvino")
    assert (code, report["differs"], report["tensor"], out.exists()) == (0, False, None, False)


@pytest.mark.parametrize("typed", [np.float16, np.float32])
def test_a_right_file_in_half_precision_differs_nowhere(typed, bisect, tmp_path):
    """Rounding to 16 bits is 4,000 times float32's, and what the file asks for."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(typed))
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(8, 8)).astype(typed), "w")
    x, y = (helper.make_tensor_value_info(name, kind, ["batch", 8]) for name in "xy")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    for runtimes in (["onnxruntime"], ["onnxruntime", "openvino"]):
        code, report, _ = bisect(str(tmp_path / "m.onnx"), *runtimes)
        assert (code, report["differs"], report["note"]) == (0, False, None)


def test_a_fault_in_half_precision_is_found_by_its_node(bisect, tmp_path):
    """The parts are of 16 bits, too."""
    draw = np.random.default_rng(0)
    weights = [numpy_helper.from_array(draw.normal(size=(8, 8)).astype(np.float16), name) for name in "vw"]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT16, ["batch", 8]) for name in "xy")
    rows = [("MatMul", "x v", "first"), ("Tanh", "first", "bent"), ("Neg", "w", "less"), ("MatMul", "bent less", "y")]
    nodes = [helper.make_node(op, reads.split(), [gives]) for op, reads, gives in rows]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 20)], ir_version=10
    )
    onnx.save(model, tmp_path / "m.onnx")
    code, report, out = bisect(str(tmp_path / "m.onnx"), "faulty_ort:op=Tanh,fault=operator", "onnxruntime")
    assert (code, report["wrong"], report["tensor"], report["nodes_in_subgraph"]) == (1, "a", "bent", 1)
    part = onnx.load(report["files"][-1])
    assert [each.type.tensor_type.elem_type for each in part.graph.input] == [TensorProto.FLOAT16]
    assert script(out).returncode == 1
    lines = (out / "reproduce.py").read_text().splitlines(keepends=True)
    (out / "reproduce.py").write_text("".join(each for each in lines if not each.startswith("    ('faulty_ort")))
    assert script(out).returncode == 0  # a right runtime rounds to 16 bits


def test_the_script_ends_with_0_when_the_difference_is_gone(bisect):
    _, _, out = bisect("lenet", "jax", "faulty_ort:node=relu,fault=scale")
    assert {"subgraph_jax.py", "subgraph.onnx", "a.npz", "b.npz", "inputs.npz"} <= {path.name for path in out.iterdir()}
    (out / "b.npz").write_bytes((out / "a.npz").read_bytes())
    done = script(out)
    assert (done.returncode, "no difference" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    "words, line",
    [
        (("lenet", "onnxruntime", "jaxx"), "did you mean jax?"),
        (("lenet", "onnxruntime,torch"), "one runtime beside another"),
        (("all", "torch"), "one model and one mode at a time"),
        (("lenet", "torch", "--layout", "auto"), "one layout"),
        (("lenet", "null", "--mode", "gradient"), "null cannot train"),
    ],
)
def test_bad_input_is_one_line(words, line, shell):
    done = shell.inside("bisect", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr and len(done.stderr.splitlines()) == 1
