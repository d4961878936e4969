"""`assert_same_network` in other people's test suites: a sample project whose conversion is right, and then is not."""

import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import faulty
import numpy as np
import pytest
import torch
from places import ROOT
from torch import nn

from xbench.converters import cache
from xbench.errors import XBenchError
from xbench.proof import file_parity
from xbench.testing import assert_same_network

PROJECT = ROOT / "examples" / "project"

# Faults that a team may add to its file after the export, each with the first tensor that is wrong.
PLANTED = """

_right = export


def export(network, path):
    import numpy as np
    import onnx
    from onnx import numpy_helper

    _right(network, path)
    model = onnx.load(path)
    node = next(node for node in model.graph.node if node.op_type == OPERATOR)
    weight = next(each for each in model.graph.initializer if each.name == node.input[INPUT])
    right = numpy_helper.to_array(weight)
    wrong = np.ascontiguousarray(CHANGED)
    assert wrong.shape == right.shape and not np.array_equal(wrong, right)
    weight.CopyFrom(numpy_helper.from_array(wrong, weight.name))
    onnx.save(model, path)
    open("planted.txt", "w").write(node.output[0])
"""
GATES = "np.concatenate([right[:, 24:48], right[:, :24], right[:, 48:]], 1)"


@pytest.fixture
def project(tmp_path):
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__")))


def pytest_in(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The project's own tests, in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *words]
    env = {**os.environ, **more}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def test_a_project_whose_conversion_is_right_passes(project):
    answer = pytest_in(project)
    assert answer.returncode == 0, answer.stdout
    assert "2 passed" in answer.stdout


def test_a_fault_in_the_exported_file_is_named(project):
    """Two gates of the recurrent layer are swapped, which every runtime computes without an error."""
    fault = PLANTED.replace("OPERATOR", repr("GRU")).replace("INPUT", "1").replace("CHANGED", GATES)
    with (project / "weather.py").open("a") as file:
        file.write(fault)
    answer = pytest_in(project, "-k", "file_we_ship")
    tensor = (project / "planted.txt").read_text()
    assert answer.returncode == 1, answer.stdout
    assert f"onnxruntime forward: FAIL, first wrong tensor {tensor}, output/linear is off by" in answer.stdout
    assert f"the file is wrong itself: its {tensor} (GRU) is the first tensor" in answer.stdout
    assert re.search(r"E +AssertionError: \S+rain.onnx is not the same network as Rain: 1 of 1", answer.stdout)
    assert "xbench/_cells.py" not in answer.stdout, "the traceback is of the test, not of the helper"


def test_a_fault_of_a_runtime_is_named(project, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    faulty.install(site)
    tests = project / "tests" / "test_conversion.py"
    runtimes = '["onnxruntime", "faulty_ort:op=Relu,fault=scale"]'
    tests.write_text(tests.read_text().replace('["onnxruntime"]', runtimes))
    path = os.pathsep.join((str(site), os.environ["PYTHONPATH"])) if os.environ.get("PYTHONPATH") else str(site)
    answer = pytest_in(project, "-k", "serve_with", PYTHONPATH=path)
    assert answer.returncode == 1, answer.stdout
    assert "Rain is not the same network: 1 of 2 comparisons failed" in answer.stdout
    assert (
        "faulty_ort:op=Relu,fault=scale forward: FAIL, first wrong tensor relu, output/linear is off" in answer.stdout
    )
    assert "onnxruntime forward: FAIL" not in answer.stdout
    assert "xbench bisect MODULE:FACTORY" in answer.stdout


class Small(nn.Module):
    """A class of this file, which workers cannot import by name if pytest loaded it by path."""

    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.BatchNorm1d(6), nn.Linear(6, 3)

    def forward(self, x, scale):
        return self.last(self.norm(x)) * scale


def small() -> tuple[Small, dict[str, np.ndarray]]:
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    values = {"scale": np.full((5, 1), 2, np.float32), "x": random.random((5, 6), np.float32)}
    return Small(), values


def test_the_module_is_left_as_it_is_and_nothing_is_kept(faults, tmp_path, monkeypatch):
    """With weights that no factory makes, next to a runtime that lacks an operator, which is allowed."""
    monkeypatch.setenv("XBENCH_CACHE", str(tmp_path))  # tests that run at the same time keep theirs elsewhere
    network, inputs = small()
    network.last.eval()
    with torch.no_grad():
        network.last.weight.fill_(3)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    rows = assert_same_network(
        network, inputs, ["onnxruntime", "fault_lacks"], ["forward", "gradient"], allow_unsupported=True
    )
    statuses = [(row["model"], row["runtime"], row["mode"], row["status"]) for row in rows]
    assert statuses == [
        ("Small", "onnxruntime", "forward", "PASS"),
        ("Small", "fault_lacks", "forward", "UNSUPPORTED"),
        ("Small", "onnxruntime", "gradient", "PASS"),
        ("Small", "fault_lacks", "gradient", "UNSUPPORTED"),
    ]
    assert rows[0]["certificate"]["equal"], "the runtime holds what was set, and not the weights of a new Small()"
    assert network.training and network.norm.training and not network.last.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())
    assert not [*cache.root().glob("live/*"), *cache.root().glob("models/*")]


def test_a_runtime_that_lacks_an_operator_fails_where_it_was_named(faults):
    network, inputs = small()
    with pytest.raises(AssertionError, match=r"fault_lacks forward: UNSUPPORTED, operators missing: Conv"):
        assert_same_network(network, inputs, ["fault_lacks"])


def test_a_file_of_other_weights_is_not_the_module(tmp_path):
    """The current module against an older file."""
    network, inputs = small()
    file = tmp_path / "yesterday.onnx"
    given = tuple(torch.from_numpy(inputs[name]) for name in ("x", "scale"))
    axes = {"dynamic_axes": {name: {0: "n"} for name in ("x", "scale")}, "input_names": ["x", "scale"]}
    torch.onnx.export(network.eval(), given, str(file), dynamo=False, **axes)  # which has its own names for tensors
    with torch.no_grad():
        network.last.bias[1] += 0.01
    with pytest.raises(
        AssertionError, match=r"the file is wrong itself: its /last/Gemm_output_0 \(Gemm\) is the first tensor"
    ):
        assert_same_network(network, inputs, runtimes=["onnxruntime"], converted=file)


class Two(nn.Module):
    def forward(self, x, y):
        return x + y


ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("module", "inputs", "line"),
    [
        (lambda x: x, ONES, "the module must be a torch.nn.Module, not function"),
        (Two(), {"x": ONES, "z": ONES}, "forward of Two has no argument 'z'"),
        (Two(), {"y": ONES}, "forward of Two also needs x"),
        (Two(), (ONES, ONES[:1]), "the first axis of each must be the same batch; they have {'x': 2, 'y': 1}"),
        (Two(), (ONES, torch.ones(2, 3, dtype=torch.bfloat16)), "y is torch.bfloat16, which is none of float32"),
        (Two(), np.array(["a"]), "x is <U1, which is none of float32"),
        (Two(), (), "give at least one array"),
        (
            nn.Sequential(Two(), nn.Linear(3, 3)),
            (ONES,),
            "Sequential raises TypeError: Two.forward() missing 1 required positional argument",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(module, inputs, line):
    with pytest.raises(XBenchError) as raised:
        assert_same_network(module, inputs, runtimes=["onnxruntime"])
    assert line in str(raised.value) and "\n" not in str(raised.value)


class Turned(nn.Module):
    """Reads its weights transposed, expanded and reshaped, which a runtime may precompute and still has to hold."""

    def __init__(self):
        super().__init__()
        self.twice, self.row = nn.Parameter(torch.randn(5, 10, 3)), nn.Parameter(torch.randn(1, 3))
        self.pairs = nn.Bilinear(15, 15, 4)

    def forward(self, x):
        weight = self.twice.permute(2, 1, 0).contiguous().permute(1, 0, 2).reshape(10, 15)
        y = x @ weight + self.row.expand(5, 3).t().reshape(15)
        return self.pairs(y, nn.functional.normalize(y, dim=1))  # whose exported Expand takes a shape


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino", "tensorflow", "jax", "tvm"])
def test_weights_are_compared_whatever_shape_they_are_read_in(runtime):
    assert_same_network(Turned().eval(), torch.randn(2, 10), runtimes=[runtime])


def test_a_layer_of_parametrized_weights_is_compared_and_left_as_it_is():
    """PyTorch makes a class for each, which no other process can import."""
    normed, orthogonal = nn.utils.parametrizations.weight_norm(nn.Linear(4, 6)), nn.Linear(6, 6)
    nn.utils.parametrize.register_parametrization(orthogonal, "weight", nn.Hardtanh())
    assert_same_network(nn.Sequential(normed, orthogonal).eval(), torch.randn(2, 4), runtimes=["onnxruntime"])
    with pytest.raises(RuntimeError, match="parametrized modules"):
        pickle.dumps(normed)


def test_what_cannot_be_pickled_is_one_line():
    network, inputs = small()
    network.lock = threading.Lock()
    with pytest.raises(XBenchError, match="Small cannot be handed to another process"):
        assert_same_network(network, inputs, runtimes=["onnxruntime"])


def test_classes_that_no_other_process_can_import_travel_by_value(tmp_path):
    """One of a script, and one that a test runner loaded from a path not on sys.path."""
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart" / "off_the_path.py").write_text(OFF)
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-P", "script.py"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    columns = [line.split()[:4] for line in answer.stdout.splitlines()[-2:]]
    assert columns == [["Mine", runtime, "forward", "PASS"] for runtime in ("onnxruntime", "torch_compile")]


OFF = """
import math
from torch import nn

class Off(nn.Linear):
    def forward(self, x):
        return super().forward(x) * math.pi
"""
SCRIPT = """
import importlib.util, sys
import torch
from torch import nn
from xbench.testing import assert_same_network

spec = importlib.util.spec_from_file_location("off_the_path", "apart/off_the_path.py")
sys.modules["off_the_path"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

class Settings(dict):
    __getattr__ = dict.__getitem__  # raises KeyError

class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.settings = module.Off(4, 4), Settings(slope=1)

    def forward(self, x):
        return torch.tanh(self.first(x))

print(assert_same_network(Mine(), torch.ones(1, 4), runtimes=["onnxruntime", "torch_compile"]))
"""


# ***** where a file differs from the network *****


def node(kind, inputs, output):
    return {"op_type": kind, "inputs": inputs, "outputs": [output]}


def known(**tensors):
    """A reference with every tensor of a network, and float32's floors."""
    arrays = {f"output/{name}": np.asarray(value, float) for name, value in tensors.items()}
    return arrays | {f"floor/{name}": np.full(2, 1e-7) for name in arrays}


X = np.arange(1.0, 7).reshape(2, 3)


def parted(nodes, **values):
    network = known(hidden=X + 1, right=np.tanh(X + 1))
    return file_parity._parting(nodes, {"x": X, **values}, network, {"y": "right"})


def test_a_step_that_the_network_has_under_another_name_is_right():
    nodes = [node("Add", ["x", "one"], "h"), node("Tanh", ["h"], "y")]
    assert parted(nodes, h=X + 1, y=np.tanh(X + 1)) is None
    difference = parted(nodes, h=X + 1, y=np.tanh(X + 2))
    assert (difference.tensor, difference.op_type, difference.expected) == ("y", "Tanh", "right")
    difference = parted(nodes, h=X + 1.01, y=np.tanh(X + 1.01))
    assert (difference.tensor, difference.op_type, difference.expected) == (
        "h",
        "Add",
        "hidden",
    ) and difference.ratio > 64


def test_the_step_that_bears_a_common_name_is_told_from_those_it_was_taken_apart_into():
    nodes = [node("Mul", ["x", "two"], "m"), node("Sub", ["m", "z"], "hidden"), node("Tanh", ["hidden"], "y")]
    assert parted(nodes, m=2 * X, hidden=X + 1, y=np.tanh(X + 1)) is None, "no tensor of the network is 2 x"
    assert parted(nodes, m=2 * X, hidden=X + 3, y=np.tanh(X + 3)).tensor == "hidden"


def test_what_is_made_of_shapes_alone_is_not_wrong():
    """The initial zeros of a recurrent layer, which the network's own graph does not have."""
    nodes = [node("Shape", ["x"], "s"), node("Expand", ["zero", "s"], "zeros"), node("Sum", ["x", "zeros"], "y")]
    assert parted(nodes, s=np.array([2, 3]), zeros=np.zeros((7, 3)), y=X).tensor == "y"


def test_a_file_goes_forward_alone():
    network, inputs = small()
    with pytest.raises(XBenchError, match="mode forward alone"):
        assert_same_network(network, inputs, modes=["gradient"], converted="net.onnx", runtimes=["onnxruntime"])


SHARES = """
import os, sys
import numpy as np
import torch
from xbench.testing import assert_same_network
from xbench.workers import template

def templates():
    return {each._process.pid for kept in template.KEPT for each in kept.values()}

torch.manual_seed(0)
for _ in range(2):
    assert_same_network(torch.nn.Linear(3, 2), np.ones((2, 3), np.float32), runtimes=["onnxruntime"])
    print(*sorted(templates()))
"""


def test_the_assertions_of_a_process_share_what_workers_import(tmp_path):
    """The second of a suite takes a part of the time. Nothing of it is left at the end."""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", SHARES], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    first, second = ended.stdout.splitlines()
    assert first == second and first
    assert not [number for number in first.split() if Path(f"/proc/{number}").exists()]
