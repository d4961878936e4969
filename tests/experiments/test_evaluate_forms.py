"""`xbench evaluate` on networks of other forms, and on what could make its number wrong."""

import json

import numpy as np
import onnx
import pytest
from fault_kit import Shell, only_line
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(8, 4)).astype(np.float32)
ROWS = RNG.normal(size=(403, 8)).astype(np.float32)
LABELS = (ROWS @ WEIGHT).argmax(1)
FUNCTIONS = """
import time

import numpy as np

ROWS, LABELS = (np.load("rows.npz")[name] for name in ("x", "label"))

def reused():
    x = np.empty((50, 8), np.float32)
    for first in range(0, 400, 50):
        x[...] = ROWS[first : first + 50]
        yield x, LABELS[first : first + 50].copy()

def single():
    for row, label in zip(ROWS[:30], LABELS[:30]):
        yield row, label

def endless():
    while True:
        yield np.zeros((5, 8), np.float32), np.zeros(5, int)

def hangs():
    yield ROWS[:5], LABELS[:5]
    time.sleep(1000)

def in_place(outputs, labels):
    outputs -= outputs.max(axis=1, keepdims=True)
    np.exp(outputs, out=outputs)
    outputs /= outputs.sum(axis=1, keepdims=True)
    return float(outputs[np.arange(len(labels)), labels].mean())

def leaves(outputs, labels):
    raise SystemExit(3)

def median(outputs, labels):
    return float(np.median(np.isfinite(outputs).all(axis=1)))

def equal():
    for label in (0, 1, 2):
        yield np.zeros(8, np.float32), label

def sizes():
    for number in range(40):
        length = 4 + 2 * (number % 3)
        yield np.full((3, length), number, np.int64) % 5, np.full((3, length), 1)

def fussy(outputs, labels):
    if not np.isfinite(outputs).all():
        raise ValueError("not finite")
    return 1.0
"""


def save(place, name, nodes, inputs, outputs, **constants):
    def values(shapes):
        return [helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each, shape in shapes.items()]

    stored = [numpy_helper.from_array(array, each) for each, array in constants.items()]
    graph = helper.make_graph([helper.make_node(*each[:3], **(each[3:] or ({},))[0]) for each in nodes], name, [], [])
    graph.input.extend(values(inputs))
    graph.output.extend(values(outputs))
    graph.initializer.extend(stored)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), place / f"{name}.onnx"
    )


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """The folder of small networks and of their samples."""
    place = tmp_path_factory.mktemp("forms")
    product = [("MatMul", ["x", "w"], ["y"])]
    save(place, "rows", product, {"x": ["batch", 8]}, {"y": ["batch", 4]}, w=WEIGHT)
    save(place, "four", product, {"x": [4, 8]}, {"y": [4, 4]}, w=WEIGHT)
    save(place, "one", product, {"x": [8]}, {"y": [4]}, w=WEIGHT)
    turned = [("Transpose", ["x"], ["y"], {"perm": [1, 0, 2]})]
    save(place, "turned", turned, {"x": ["batch", 32, 4]}, {"y": [32, "batch", 4]})
    np.savez(place / "rows.npz", x=ROWS, label=LABELS)
    many = RNG.normal(size=(64, 32, 4)).astype(np.float32)
    np.savez(place / "turned.npz", x=many, label=many.argmax(2))
    (place / "mine.py").write_text(FUNCTIONS)
    return Shell(place)


def evaluated(shell, model, inputs, *words, runtime="onnxruntime"):
    words = ["evaluate", f"{model}.onnx", "--inputs", inputs, "--runtime", runtime, *words, "--json"]
    answer = shell.run(*words)
    assert answer.stdout, answer.stderr
    (record,) = json.loads(answer.stdout)
    return record


def refused(shell, model, inputs, *words):
    answer = shell.run("evaluate", f"{model}.onnx", "--inputs", inputs, "--runtime", "onnxruntime", *words)
    assert answer.returncode == 2, answer.stdout
    return only_line(answer.stderr)


def test_a_metric_that_falls_though_no_highest_score_changes_is_worse(shell):
    """The class of the highest score is always the first; the scores of the others are lost after the samples that the
    outputs are compared on."""
    slices = [("Slice", ["x", "s0", "e0", "ax"], ["v"]), ("Slice", ["x", "e0", "e1", "ax"], ["far"])]
    sums = [("Add", ["v", "far"], ["a"]), ("Sub", ["a", "far"], ["b"]), ("Add", ["b", "first"], ["y"])]
    places = {name: np.array([value]) for name, value in {"s0": 0, "e0": 6, "e1": 7, "ax": 1}.items()}
    first = np.array([100, 0, 0, 0, 0, 0], np.float32)
    save(shell.folder, "lost", slices + sums, {"x": ["batch", 7]}, {"y": ["batch", 6]}, first=first, **places)
    labels = RNG.integers(0, 6, 400)
    scores = RNG.normal(size=(400, 6)).astype(np.float32)
    scores[np.arange(400), labels] += 6
    far = np.where(np.arange(400)[:, None] < 64, 0, 1e9).astype(np.float32)
    np.savez(shell.folder / "lost.npz", x=np.concatenate([scores, far], axis=1), label=labels)
    for metric in ("map", "top5"):
        record = evaluated(shell, "lost", "lost.npz", "--metric", metric)
        assert (record["status"], record["evaluation"]["verdict"]) == ("FAIL", "worse")
        assert (record["evaluation"]["changed"], record["parity"]["class"]) == (0, "fp32")


def test_a_precision_that_a_runtime_ignores_does_not_pass(shell):
    save(shell.folder, "relu", [("Relu", ["x"], ["y"])], {"x": ["batch", 4]}, {"y": ["batch", 4]})
    whole = RNG.integers(0, 50, (600, 4)) + np.arange(4) / 4
    np.savez(shell.folder / "relu.npz", x=whole.astype(np.float32), label=whole.argmax(1))
    record = evaluated(shell, "relu", "relu.npz", "--precision", "fp16")
    assert (record["status"], record["message"]) == ("UNSUPPORTED", "was told fp16, and computes in float32")
    assert record["evaluation"]["value"] == 1


def test_a_function_may_use_its_arrays_again(shell):
    record = evaluated(shell, "rows", "mine.py:reused")
    assert (record["evaluation"]["value"], record["evaluation"]["samples"]) == (1, 400)


def test_a_metric_may_change_what_it_gets(shell):
    record = evaluated(shell, "rows", "rows.npz", "--metric", "mine.py:in_place", "--precision", "fp16")
    found = record["evaluation"]
    assert found["low"] <= found["difference"] <= found["high"]


@pytest.mark.parametrize(("option", "words"), [("--metric", ()), ("--post", ("--metric", "top1"))])
def test_a_changed_function_is_called_again(shell, option, words):
    """Its results are stored by the content of its file."""
    file = shell.folder / f"changing{option.strip('-')}.py"
    values = []
    for sign in ("", "-"):
        file.write_text(f"def f(y, *labels):\n    return {sign}y if not labels else {sign}1.0\n")
        values.append(evaluated(shell, "rows", "rows.npz", *words, option, f"{file.name}:f")["evaluation"]["value"])
    assert values[0] == 1 != values[1]


def test_labels_of_another_type_are_others(shell):
    files = {}
    for name, dtype in (("whole", np.int32), ("float", np.float32)):
        np.save(shell.folder / f"{name}.npy", np.zeros(403, dtype))  # the same bytes
        record = evaluated(shell, "rows", "rows.npz", "--labels", f"{name}.npy", "--out", "types")
        files[name] = record["evaluation"]["content"]
    assert files["whole"] != files["float"]


def test_a_graph_of_a_fixed_batch_is_filled_up(shell):
    for words in ((), ("--precision", "int8")):
        record = evaluated(shell, "four", "rows.npz", "--max-drop", "5%", *words)
        assert (record["status"], record["evaluation"]["samples"]) == ("PASS", 353 if words else 403)


def test_a_graph_of_one_sample_gets_one_at_once(shell):
    record = evaluated(shell, "one", "mine.py:single")
    assert (record["evaluation"]["value"], record["evaluation"]["samples"]) == (1, 30)


def test_an_output_whose_first_axis_is_not_the_samples_is_refused(shell):
    assert refused(shell, "turned", "turned.npz") == (
        "xbench: output y has the shape [32, 1, 4] for one sample: its first axis is not the samples"
    )


def test_samples_without_an_end_are_not_read_for_ever(shell):
    shell.run("convert", "rows.onnx", "--runtime", "onnxruntime")  # which may take longer than three seconds
    line = refused(shell, "rows", "mine.py:endless", "--timeout", 3)
    assert "samples were read in 3 s, and there are more: --timeout reads longer" in line
    line = refused(shell, "rows", "mine.py:hangs", "--timeout", 3)
    assert line == "xbench: your samples or functions: nothing within 3 s"


def test_a_loss_that_every_draw_of_the_samples_shows_is_worse(shell):
    np.savez(shell.folder / "huge.npz", x=ROWS * 1e5, label=LABELS)
    words = ("--metric", "mine.py:median", "--precision", "fp16")
    record = evaluated(shell, "rows", "huge.npz", *words, runtime="torch")
    found = record["evaluation"]
    assert (found["difference"], found["low"], found["high"], record["status"]) == (-1, -1, -1, "FAIL")


def test_equal_samples_of_a_graph_of_one_sample_are_as_many(shell):
    record = evaluated(shell, "one", "mine.py:equal", "--metric", "f1")
    assert (record["evaluation"]["samples"], record["evaluation"]["reference"]) == (3, 1 / 6)


def test_samples_of_another_length_are_refused(shell):
    table = RNG.normal(size=(5, 5)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"])]
    given = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "time"])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "time", 5])
    graph = helper.make_graph(nodes, "lengths", [given], [made], [numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, shell.folder / "lengths.onnx")
    line = refused(shell, "lengths", "mine.py:sizes", "--shape", "time=6", "--metric", "perplexity")
    assert line == "xbench: mine.py:sizes: ids is (3, 4), and the network takes (batch, 6)"


def test_a_metric_that_fails_on_one_runtime_spares_the_others(shell):
    words = ["--runtime", "torch", "--runtime", "onnxruntime", "--precision", "fp16,fp32", "--metric", "mine.py:fussy"]
    answer = shell.run("evaluate", "rows.onnx", "--inputs", "huge.npz", *words, "--json")
    states = {(r["case"]["runtime"], r["case"]["precision"]): r["status"] for r in json.loads(answer.stdout)}
    assert states["torch", "fp16"] == "UNVERIFIED"
    assert states["torch", "fp32"] == states["onnxruntime", "fp32"] == "PASS"


def test_a_metric_that_leaves_the_process_is_named(shell):
    assert "leaves raises SystemExit: 3" in refused(shell, "rows", "rows.npz", "--metric", "mine.py:leaves")
    line = refused(shell, "rows", "rows.npz", "--less-is-better")
    assert line == "xbench: --less-is-better is for a metric of your own: top1 is known"


def test_what_overflows_is_worse_and_no_crash(shell):
    np.savez(shell.folder / "large.npz", x=np.concatenate([ROWS[:100], ROWS[100:] * 3e4]), label=LABELS)
    for metric in ("top1", "map", "perplexity"):
        words = ("--metric", metric, "--precision", "fp16")
        record = evaluated(shell, "rows", "large.npz", *words, runtime="torch")
        assert (record["status"], record["evaluation"]["verdict"]) == ("FAIL", "worse"), metric
        assert (record["evaluation"]["value"] is None) == (metric != "top1")
    assert record["message"] == "perplexity is not a number: an output is not finite"


def test_int8_needs_samples_to_set_aside(shell):
    record = evaluated(shell, "rows", "rows.npz", "--limit", 7)
    assert record["evaluation"]["samples"] == 7
    record = evaluated(shell, "rows", "rows.npz", "--limit", 7, "--precision", "int8")
    assert record["status"] == "UNVERIFIED"
    assert record["message"] == "rows.npz has too few samples to set some aside: int8 needs --calibrate"
