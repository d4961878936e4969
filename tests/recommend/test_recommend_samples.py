"""`xbench recommend --inputs`: cells that were measured on the user's samples are ranked, and measured if they lack."""

import json

import numpy as np
import onnx
import pytest
import stores
from fault_kit import Shell, only_line
from onnx import TensorProto, helper, numpy_helper

from xbench.store.results import salvage

ROWS = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
FUNCTIONS = """
import numpy as np

def others():
    return np.random.default_rng().normal(size=(5, 4)).astype(np.float32)
"""
ASKED = ("recommend", "lenet", "--out", "out", "--threads", 2, "--machine", "AMD", "--json")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a network of one layer and its samples."""
    folder = tmp_path_factory.mktemp("recommend")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy"]
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net", [ends[0]], [ends[1]], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, folder / "net.onnx")
    np.savez(folder / "rows.npz", x=ROWS, label=(ROWS @ np.eye(4)).argmax(1))
    np.savez(folder / "wide.npz", x=ROWS[:, :3])
    (folder / "mine.py").write_text(FUNCTIONS)
    return folder


def asked(place, *words, code=0):
    """The answer for the network, measured where something lacks."""
    words = ("recommend", "net.onnx", "--runtime", "onnxruntime", "--measure", "--budget", 0.05, "--json", *words)
    answer = Shell(place).run(*words)
    assert answer.returncode == code, answer.stderr
    notes = [line for line in answer.stderr.splitlines() if not line.startswith("[1/1] ")]  # progress
    return json.loads(answer.stdout) if code == 0 else only_line("\n".join(notes))


def data_of(folder, file="results.jsonl"):
    return [record["case"]["data"] for record in salvage(folder / file)[0]]


def test_it_is_measured_on_the_samples_and_again_when_they_are_others(place):
    words = ("--inputs", "rows.npz", "--out", "own")
    for _ in range(2):
        answer = asked(place, *words)
        assert (answer["best"], answer["question"]["data"]) == ("onnxruntime", "rows.npz")
    (first,) = data_of(place / "own")
    assert first.startswith("inputs:rows.npz#")
    np.savez(place / "rows.npz", x=ROWS[::-1], label=ROWS[::-1].argmax(1))
    assert asked(place, *words)["best"] == "onnxruntime"
    np.savez(place / "rows.npz", x=ROWS, label=ROWS.argmax(1))
    kept, other = data_of(place / "own")
    assert kept == first != other
    stored = Shell(place).run("recommend", "net.onnx", *words)
    assert stored.stdout.splitlines()[0].endswith(", on rows.npz")


def test_with_a_loss_the_same_samples_are_evaluated(place):
    words = ("--max-drop", "5%", "--inputs", "rows.npz", "--out", "both")
    answer = asked(place, *words)
    assert (answer["best"], answer["question"]["data"], answer["question"]["max_drop"]) == (
        "onnxruntime",
        "rows.npz",
        0.05,
    )
    assert data_of(place / "both") == data_of(place / "both", "evaluation.jsonl")
    answer = asked(place, *words, "--data", "synthetic")
    assert (answer["best"], answer["question"]["data"]) == ("onnxruntime", "synthetic")
    assert data_of(place / "both")[1:] == ["synthetic"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--inputs", "nothing.npz"), "no file or folder nothing.npz"),
        (("--inputs", ""), "--inputs is empty: name a file, a folder, module:function or a data set"),
        (("--inputs", "wide.npz"), "wide.npz: x is (40, 3), and the network takes (batch, 4)"),
        (("--inputs", "mine.py:others"), "mine.py:others gives other samples each time: save them in a file"),
        (("--inputs", "a.npz", "--data", "digits"), "--inputs and --data exclude one another: give one of them"),
    ],
)
def test_a_users_mistake_is_one_line(words, line, place):
    assert asked(place, *words, "--out", "mistakes", code=2) == f"xbench: {line}"


def test_samples_have_one_shape(place):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "time"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "long", [ends[0]], [ends[1]])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), place / "long.onnx")
    answer = Shell(place).run("recommend", "long.onnx", "--shape", "time=2,3,4", "--inputs", "rows.npz", "--measure")
    assert only_line(answer.stderr) == "xbench: --inputs is for one shape, and these are 3"


def test_the_newest_records_of_the_samples_count(shell):
    older, newer = ({"data": f"inputs:x.npz#{each}"} for each in ("older", "newer"))
    records = [stores.record("lenet", "torch", median=0.001), stores.record("lenet", "torch", median=0.002, **older)]
    records += [stores.record("lenet", "jax", median=0.003, **newer)]
    stores.write(shell.folder / "out", records)
    for words in (("--inputs", "x.npz"), ("--data", "x.npz")):
        answer = json.loads(shell.run(*ASKED, *words).stdout)
        assert ([each["runtime"] for each in answer["ranked"]], answer["question"]["data"]) == (["jax"], "x.npz")
    assert json.loads(shell.run(*ASKED).stdout)["best"] == "torch"
    answer = shell.run(*ASKED, "--inputs", "y.npz")
    assert only_line(answer.stderr) == (
        "xbench: lenet forward on cpu was not measured with --inputs y.npz: there is x.npz, synthetic "
        "(--measure measures it)"
    )
