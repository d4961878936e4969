"""`xbench bisect --inputs`: a difference that only a user's samples show is found, and its script shows it again."""

import json
import os
import runpy

import faulty
import numpy as np
import onnx
import pytest
from fault_kit import Shell, only_line
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(3)
FIRST, SECOND = (RNG.normal(size=(4, 4)).astype(np.float32) for _ in range(2))
CAPPED = "faulty_ort:node=size,fault=capped"
WICKED = 'a"""\n[red]{x} $(b)\udcff.npz'
FUNCTIONS = """
import numpy as np

def rows():
    for number in range(31):
        yield np.full((1, 4), 1000.0 if number == 30 else 0.1, np.float32)

def breaks():
    raise OSError("the disk is gone")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a small network, samples for it, and runtimes that are wrong on large numbers alone."""
    folder = faulty.install(tmp_path_factory.mktemp("samples"))
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["first"]),
        helper.make_node("Abs", ["first"], ["size"], name="node_size"),
        helper.make_node("MatMul", ["size", "w"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy"]
    stored = [numpy_helper.from_array(array, name) for name, array in {"v": FIRST, "w": SECOND}.items()]
    graph = helper.make_graph(nodes, "size", [ends[0]], [ends[1]], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, folder / "size.onnx")
    rows = RNG.normal(size=(40, 4)).astype(np.float32)
    rows[30] *= 1e3
    np.savez(folder / "rows.npz", x=rows)
    np.savez(folder / WICKED, x=rows)
    np.savez(folder / "huge.npz", x=rows * 1e4)
    np.savez(folder / "wide.npz", x=rows[:, :3])
    np.savez(folder / "wrong.npz", x=np.where(np.arange(4) == 2, np.nan, rows).astype(np.float32))
    np.savez(folder / "none.npz", x=rows[:0])
    (folder / "mine.py").write_text(FUNCTIONS)
    return folder


@pytest.fixture(scope="module")
def bisect(place):
    """One `xbench bisect` of the network: its exit code, its report, its folder."""

    def run(*words, out="out"):
        path = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])
        words = ("bisect", "size.onnx", *words, "--batch", 2, "--out", out, "--json")
        answer = Shell(place).run(*words, PYTHONPATH=path)
        assert answer.stdout, answer.stderr
        return answer.returncode, json.loads(answer.stdout), place / out

    return run


def script(folder):
    """The exit code of reproduce.py, in this process."""
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(folder / "reproduce.py"), run_name="__main__")
    return ended.value.code


def test_a_difference_that_only_one_batch_shows_is_found_on_that_batch(bisect):
    """Sample 30 is in batch 15 of two."""
    for words in ((), ("--inputs", "rows.npz"), ("--inputs", "rows.npz", "--seed", 1)):
        code, report, _ = bisect(CAPPED, "onnxruntime", *words)
        assert (code, report["differs"], report["inputs"]) == (0, False, "rows.npz" if words else None)
    code, report, out = bisect(CAPPED, "onnxruntime", "--inputs", "rows.npz", "--seed", 15)
    assert (code, report["wrong"], report["tensor"]) == (1, "a", "size")
    assert script(out) == 1


@pytest.mark.parametrize("samples", ["mine.py:rows", WICKED])
def test_the_script_has_the_sample(samples, place, bisect):
    code, report, out = bisect(CAPPED, "--inputs", samples, "--seed", 15)
    assert (code, report["tensor"], report["inputs"]) == (1, "size", samples)
    assert [node["name"] for node in report["subgraph"]] == ["node_size"]
    row = np.load(place / WICKED)["x"][30] if samples == WICKED else np.full(4, 1000.0)
    kept = np.load(out / "inputs.npz")["first"]
    assert np.allclose(kept[0], row @ FIRST.astype(np.float64), rtol=1e-6)
    assert script(out) == 1


def test_a_precision_that_only_some_samples_exceed(bisect):
    for samples, tensor in (("rows.npz", None), ("huge.npz", "first")):
        code, report, _ = bisect("torch", "--precision", "fp16", "--inputs", samples, "--seed", 15)
        assert (code, report["tensor"]) == (int(tensor is not None), tensor), samples


def test_a_batch_that_is_not_there_is_one_line(place):
    words = ("bisect", "size.onnx", "onnxruntime", "--inputs", "rows.npz", "--batch", 3)
    assert only_line(Shell(place).run(*words, "--seed", 14).stderr) == (
        "xbench: --seed 14 is the batch of that number, from 0, and rows.npz has 40 samples, 14 batches of 3"
    )


def test_gradients_are_those_of_the_samples_and_their_labels(place, bisect):
    rows = np.load(place / "rows.npz")["x"]
    np.savez(place / "labelled.npz", x=rows, label=np.arange(40) % 4)
    words = ("onnxruntime", "--mode", "gradient", "--inputs", "labelled.npz")
    assert bisect(*words)[0] == 0
    np.savez(place / "labelled.npz", x=rows, label=np.zeros((40, 3)))
    answer = Shell(place).run("bisect", "size.onnx", *words)
    words = "xbench: the labels of a batch are float64 of shape (2, 3), and the loss of"
    assert only_line(answer.stderr).startswith(words)


@pytest.mark.parametrize(
    ("samples", "line"),
    [
        ("nothing.npz", "no file or folder nothing.npz"),
        ("", "--inputs is empty: name a file, a folder, module:function or a data set"),
        ("wide.npz", "wide.npz: x is (40, 3), and the network takes (batch, 4)"),
        ("wrong.npz", "wrong.npz[0]: x[2] is NaN"),
        ("none.npz", "none.npz has no samples"),
        ("mine.py:breaks", "mine.py:breaks raises OSError: the disk is gone (before the first sample)"),
    ],
)
def test_a_users_mistake_is_one_line(samples, line, place):
    answer = Shell(place).run("bisect", "size.onnx", "onnxruntime", "--inputs", samples, "--out", "mistakes")
    assert (answer.returncode, answer.stdout, only_line(answer.stderr)) == (2, "", f"xbench: {line}")
    assert not (place / "mistakes").exists()
