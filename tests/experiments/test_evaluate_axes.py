"""Graphs whose sizes are all fixed: which axis of an input or output is the samples, and which only looks like it."""

import json

import numpy as np
import onnx
import pytest
from fault_kit import Shell, only_line
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(5)
COUNT = 40
IMAGES = RNG.normal(size=(COUNT, 3, 4, 4)).astype(np.float32)
WORDS = RNG.normal(size=(COUNT, 7)).astype(np.float32)
BOXES = RNG.normal(size=(COUNT, 20, 4)).astype(np.float32)
ROWS, OTHERS = (RNG.normal(size=(COUNT, 6, 8)).astype(np.float32) for _ in range(2))
OF_IMAGE, OF_WORDS, OF_BOX, OF_ROW = (RNG.normal(size=(n, 5)).astype(np.float32) for n in (48, 7, 4, 8))
PLACES = RNG.normal(size=(6, 8)).astype(np.float32)
FLAT = IMAGES.reshape(COUNT, 48)
FUNCTIONS = """
def both(scores, total):
    assert total.shape == (len(scores), 3), total.shape
    return scores
"""


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


# name -> inputs, nodes, outputs, constants; the samples as people have them; the scores of each sample
IMAGE = {"image": [1, 3, 4, 4]}
PRODUCT = [("Flatten", "image", "flat"), ("MatMul", "flat a", "scores")]
NETWORKS = {
    "an image and a sequence": (
        (IMAGE | {"words": [7]}, [*PRODUCT, ("MatMul", "words b", "more"), ("Add", "scores more", "y")], {"y": [1, 5]}),
        {"a": OF_IMAGE, "b": OF_WORDS},
        {"image": IMAGES, "words": WORDS},
        FLAT @ OF_IMAGE + WORDS @ OF_WORDS,
    ),
    "an image and boxes": (
        (
            IMAGE | {"boxes": [20, 4]},
            [
                *PRODUCT,
                ("MatMul", "boxes b", "each"),
                ("ReduceMax", "each axes", "more", {"keepdims": 0}),
                ("Add", "scores more", "y"),
            ],
            {"y": [1, 5]},
        ),
        {"a": OF_IMAGE, "b": OF_BOX, "axes": np.array([0])},
        {"image": IMAGES, "boxes": BOXES},
        FLAT @ OF_IMAGE + (BOXES @ OF_BOX).max(axis=1),
    ),
    "an output without the axis of samples": (
        (IMAGE, [*PRODUCT, ("Squeeze", "scores axes", "y")], {"y": [5]}),
        {"a": OF_IMAGE, "axes": np.array([0])},
        {"image": IMAGES},
        FLAT @ OF_IMAGE,
    ),
    "a sequence that looks like a batch": (
        ({"x": [6, 8]}, [("CumSum", "x axis", "sum"), ("MatMul", "sum a", "y")], {"y": [6, 5]}),
        {"a": OF_ROW, "axis": np.array(0)},
        {"x": ROWS},
        ROWS.cumsum(axis=1) @ OF_ROW,
    ),
    "two sequences that look like batches": (
        (
            {"x": [6, 8], "z": [6, 8]},
            [
                ("Transpose", "z", "turned"),
                ("MatMul", "x turned", "near"),
                ("Softmax", "near", "share"),
                ("MatMul", "share z", "mean"),
                ("MatMul", "mean a", "y"),
            ],
            {"y": [6, 5]},
        ),
        {"a": OF_ROW},
        {"x": ROWS, "z": OTHERS},
        softmax(ROWS @ OTHERS.transpose(0, 2, 1)) @ OTHERS @ OF_ROW,
    ),
    "places that count": (
        ({"x": [6, 8]}, [("Mul", "x places", "moved"), ("MatMul", "moved a", "y")], {"y": [6, 5]}),
        {"a": OF_ROW, "places": PLACES},
        {"x": ROWS},
        (ROWS * PLACES) @ OF_ROW,
    ),
    "a batch": (
        ({"x": [6, 8]}, [("MatMul", "x a", "y")], {"y": [6, 5]}),
        {"a": OF_ROW},
        {"x": ROWS.reshape(-1, 8)},
        ROWS.reshape(-1, 8) @ OF_ROW,
    ),
}


def save(path, network, constants):
    inputs, nodes, outputs = network
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in each.items()]
        for each in (inputs, outputs)
    ]
    made = [helper.make_node(op, given.split(), [result], **dict(*more)) for op, given, result, *more in nodes]
    graph = helper.make_graph(made, "g", *ends, [numpy_helper.from_array(a, name) for name, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    folder = tmp_path_factory.mktemp("axes")
    (folder / "mine.py").write_text(FUNCTIONS)
    return Shell(folder)


def evaluated(shell, *words):
    answer = shell.run("evaluate", "net.onnx", "--inputs", "x.npz", "--runtime", "onnxruntime", *words, "--json")
    assert answer.stdout, answer.stderr
    (record,) = json.loads(answer.stdout)
    assert record["status"] == "PASS", record["message"]
    return record["evaluation"]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_metric_is_that_of_a_plain_script(name, shell):
    network, constants, given, scores = NETWORKS[name]
    save(shell.folder / "net.onnx", network, constants)
    labels = np.where(RNG.random(scores.shape[:-1]) < 0.7, scores.argmax(axis=-1), 0)
    np.savez(shell.folder / "x.npz", **given, label=labels)
    found = evaluated(shell)
    assert found["samples"] == len(scores)
    right = np.mean(scores.argmax(axis=-1) == labels)
    assert found["value"] == pytest.approx(right) and 0.5 < right < 1


def test_an_output_without_the_axis_of_samples_has_one_value_for_each(shell):
    """Beside one that has it."""
    nodes = [*PRODUCT, ("ReduceSum", "image axes", "total", {"keepdims": 0})]
    network = (IMAGE, nodes, {"scores": [1, 5], "total": [3]})
    save(shell.folder / "net.onnx", network, {"a": OF_IMAGE, "axes": np.array([0, 2, 3])})
    np.savez(shell.folder / "x.npz", image=IMAGES, label=(FLAT @ OF_IMAGE).argmax(axis=1))
    assert evaluated(shell, "--post", "mine.py:both")["value"] == 1


def test_rows_of_a_sequence_are_no_samples(shell):
    """Each row would get the sum of those that happen to be before it."""
    network, constants, *_ = NETWORKS["a sequence that looks like a batch"]
    save(shell.folder / "net.onnx", network, constants)
    np.savez(shell.folder / "x.npz", x=ROWS.reshape(-1, 8), label=np.zeros(6 * COUNT, int))
    answer = shell.run("evaluate", "net.onnx", "--inputs", "x.npz", "--runtime", "onnxruntime")
    assert only_line(answer.stderr) == "xbench: x.npz: x is (240, 8), and the network takes (6, 8)"


@pytest.mark.parametrize("name", ["an image and a sequence", "two sequences that look like batches"])
def test_check_and_int8_take_such_samples(name, shell):
    network, constants, given, scores = NETWORKS[name]
    save(shell.folder / "net.onnx", network, constants)
    np.savez(shell.folder / "x.npz", **given, label=scores.argmax(axis=-1))
    words = ("net.onnx", "--inputs", "x.npz", "--runtime", "onnxruntime", "--mode", "forward", "--json")
    (row,) = json.loads(shell.run("check", *words).stdout)
    assert (row["status"], row["class"]) == ("PASS", "fp32")
    found = evaluated(shell, "--precision", "int8", "--max-drop", "60%")
    assert (found["samples"], found["reference"]) == (COUNT - COUNT // 8, 1)


@pytest.mark.parametrize(("name", "repeats"), [("a batch", True), ("an image and a sequence", False)])
def test_it_is_deployed_whatever_its_batch(name, repeats, shell):
    network, constants, given, scores = NETWORKS[name]
    save(shell.folder / "net.onnx", network, constants)
    np.savez(shell.folder / "x.npz", **given, label=scores.argmax(axis=1))
    out = f"deployed-{len(name)}"
    words = ("--max-drop", "60%", "--inputs", "x.npz", "--runtime", "onnxruntime", "--measure", "--budget", 0.05)
    answer = shell.run("recommend", "net.onnx", *words, "--deploy", out, "--out", f"{out}-results")
    assert answer.returncode == 0, answer.stderr
    assert (f"top1 1 on {len(scores)} samples" in answer.stderr) == repeats
    assert ("repeats none of a network that takes one sample at once" in answer.stderr) != repeats
