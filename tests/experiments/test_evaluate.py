"""`xbench evaluate`: metrics equal a plain script's, no answer changes in float32, a worse runtime and a careless
loader are distinguished, and the user's mistakes are one line."""

import json
import re
import shutil

import numpy as np
import onnxruntime
import pytest
from fault_kit import Shell, only_line
from sklearn.metrics import f1_score

from xbench.case import data_in_words
from xbench.data.own.preview import picture
from xbench.stats import paired

RUNTIMES = ("torch", "onnxruntime", "openvino", "jax")
FUNCTIONS = """
import numpy as np

def batches():
    data = np.load("digits.npz")
    for first in range(0, 200, 7):
        yield {"image": data["image"][first : first + 7], "label": data["label"][first : first + 7]}

def endless():
    while True:
        yield np.zeros((5, 1, 8, 8), np.float32), np.zeros(5, int)

def breaks():
    yield np.zeros((2, 1, 8, 8), np.float32), np.zeros(2, int)
    raise OSError("the disk is gone")

def hits(outputs, labels):
    return outputs.argmax(1) == labels

def loss(outputs, labels):
    return float(-np.mean(outputs[np.arange(len(labels)), labels]))

def fails(outputs, labels):
    raise KeyError("label")

def words(scores):
    return ["zero one two three four five six seven eight nine".split()[each] for each in scores.argmax(1)]

def few(scores):
    return scores[:1]
"""


@pytest.fixture(scope="module")
def place(digits, tmp_path_factory):
    """A copy of the example's files, and functions."""
    folder = shutil.copytree(digits, tmp_path_factory.mktemp("evaluate"), dirs_exist_ok=True)
    (folder / "mine.py").write_text(FUNCTIONS)
    return folder


@pytest.fixture(scope="module")
def shell(place):
    return Shell(place)


@pytest.fixture(scope="module")
def scores(place):
    """What ONNX Runtime's own API says, and the labels."""
    data = np.load(place / "digits.npz")
    session = onnxruntime.InferenceSession(place / "digits.onnx")
    return session.run(None, {"image": data["image"]})[0], data["label"]


def evaluated(shell, *words, code=0, inputs="digits.npz"):
    """The records of a command."""
    answer = shell.run("evaluate", "digits.onnx", "--inputs", inputs, "--json", *words)
    assert answer.returncode == code, answer.stderr
    return json.loads(answer.stdout)


def on(*runtimes):
    return [word for runtime in runtimes for word in ("--runtime", runtime)]


def test_in_float32_no_answer_changes_and_the_metric_is_that_of_a_plain_script(shell, scores):
    outputs, labels = scores
    records = evaluated(shell, *on(*RUNTIMES))
    assert [record["status"] for record in records] == ["PASS"] * len(RUNTIMES)
    for record in records:
        found = record["evaluation"]
        assert found["value"] == found["reference"] == np.mean(outputs.argmax(1) == labels)
        assert (found["changed"], found["verdict"], found["worst"]) == (0, "same", [])
        assert (found["samples"], record["parity"]["class"]) == (len(labels), "fp32")
        assert data_in_words(record["case"]["data"]) == "digits.npz"
        assert " --inputs digits.npz --metric top1 --max-drop 1% " in record["command"]


def test_what_was_evaluated_is_not_evaluated_again_until_the_data_change(shell, place):
    words = [*on("onnxruntime"), "--metric", "f1", "--out", "again"]
    first = evaluated(shell, *words)
    answer = shell.run("evaluate", "digits.onnx", "--inputs", "digits.npz", *words, "--json")
    assert "1 cell was measured before; --rerun measures again" in answer.stderr
    assert json.loads(answer.stdout) == first
    data = dict(np.load(place / "digits.npz"))
    np.savez(place / "changing.npz", **data)
    third = evaluated(shell, *words, inputs="changing.npz")
    np.savez(place / "changing.npz", image=data["image"][::-1], label=data["label"][::-1])
    fourth = evaluated(shell, *words, inputs="changing.npz")
    assert third[0]["evaluation"]["content"] != fourth[0]["evaluation"]["content"]
    assert third[0]["evaluation"]["value"] == fourth[0]["evaluation"]["value"]


def test_every_precision_is_paired_with_the_same_reference(shell, scores, place):
    """int8 is calibrated on samples that are not evaluated."""
    words = ["--precision", "fp32", "--precision", "int8", *on("onnxruntime"), "--metric", "f1"]
    exact, small = evaluated(shell, *words)
    outputs, labels = scores
    kept = np.arange(len(labels)) % 8 != 7
    kept[8 * 128 :] = True
    plain = f1_score(labels[kept], outputs.argmax(1)[kept], average="macro")
    assert exact["evaluation"]["value"] == small["evaluation"]["reference"] == plain
    assert exact["evaluation"]["samples"] == kept.sum()
    assert 0 < small["evaluation"]["changed"] < 30 and small["evaluation"]["value"] != plain
    assert small["evaluation"]["low"] < small["evaluation"]["difference"] < small["evaluation"]["high"]
    changed = small["evaluation"]["worst"]
    assert len(changed) == small["evaluation"]["changed"]
    for each in changed:
        index = int(each["sample"].removeprefix("digits.npz[").removesuffix("]"))
        assert (each["label"], each["reference"]) == (str(labels[index]), str(outputs[index].argmax()))
        assert each["answer"] != each["reference"]


@pytest.mark.parametrize("runtime", ["openvino", "litert", "torch_compile"])
def test_int8_is_made_by_the_runtimes_own_tool(shell, runtime):
    """With ranges of real samples few answers change; in float32 none does."""
    words = ["--precision", "fp32", "--precision", "int8", "--max-drop", "2%"]
    exact, small = evaluated(shell, *words, *on(runtime))
    assert (exact["evaluation"]["verdict"], exact["status"]) == ("same", "PASS")
    assert (small["evaluation"]["verdict"], small["parity"]["class"]) == ("no worse", "int8")
    assert 0 < small["evaluation"]["changed"] < 30
    assert (small["evaluation"]["form_bytes"] is None) == (runtime == "torch_compile")


def test_the_size_is_that_of_the_form_that_is_written(shell):
    """int8 has a quarter of the weights' bytes; torchao's network is not written."""
    exact, small = evaluated(shell, "--precision", "fp32", "--precision", "int8", *on("onnxruntime"))
    assert shell.run("convert", "digits.onnx", "--to", "onnxruntime", "--output", "form").returncode == 0
    sizes = [path.stat().st_size for path in (shell.folder / "form").rglob("*.onnx")]
    assert exact["evaluation"]["form_bytes"] == sum(sizes)
    assert small["evaluation"]["form_bytes"] < exact["evaluation"]["form_bytes"] / 2
    table = shell.run("evaluate", "digits.onnx", "--inputs", "digits.npz", *on("onnxruntime")).stdout
    assert table.splitlines()[1].endswith(" size") and " KiB" in table


def test_the_report_shows_the_metric_and_the_samples_that_changed(shell):
    words = ["--precision", "fp32", "--precision", "int8", *on("onnxruntime"), "--out", "shown"]
    _, small = evaluated(shell, *words)
    assert shell.run("report", "--out", "shown", "--output", "shown.html").returncode == 0
    page = (shell.folder / "shown.html").read_text()
    assert "Answers on data" in page and "digits.onnx, top1 on 787 samples of digits.npz" in page
    changed = small["evaluation"]["worst"][0]
    assert f"{changed['sample']}: {changed['answer']} instead of {changed['reference']}" in page
    assert page.count("<figure><img src=") == min(small["evaluation"]["changed"], 12)
    index = int(changed["sample"].removeprefix("digits.npz[").removesuffix("]"))
    assert changed["image"] == picture(np.load(shell.folder / "digits.npz")["image"][index])


def test_samples_for_calibration_that_are_evaluated_too_are_refused(shell, place):
    data = np.load(place / "digits.npz")
    np.savez(place / "ranges.npz", image=data["image"][700:730])
    np.savez(place / "others.npz", image=np.roll(data["image"], 1, axis=3)[:64])
    words = ["--precision", "int8", *on("onnxruntime")]
    answer = shell.run("evaluate", "digits.onnx", "--inputs", "digits.npz", *words, "--calibrate", "ranges.npz")
    assert (answer.returncode, only_line(answer.stderr)) == (
        2,
        "xbench: --calibrate ranges.npz: digits.npz[700] is also evaluated, in digits.npz",
    )
    (record,) = evaluated(shell, *words, "--calibrate", "others.npz", "--max-drop", "5%")
    assert (record["status"], record["evaluation"]["samples"]) == ("PASS", len(data["label"]))


def test_a_careless_loader_is_told_apart_from_a_wrong_runtime(shell):
    answer = shell.run("evaluate", "digits.onnx", "--inputs", "inverted.npz", *on("onnxruntime"))
    assert answer.returncode == 0
    assert re.search(r"the reference itself has \d\.\d\d%, and a constant answer has 11\.01%", answer.stdout)
    assert "no runtime caused it" in answer.stdout


def test_a_verdict_needs_enough_samples_and_says_how_many(shell):
    words = ["--limit", 40, *on("onnxruntime"), "--precision", "fp16", "--max-drop", "0.5%"]
    (record,) = evaluated(shell, *words, code=1)
    found = record["evaluation"]
    assert (record["status"], found["verdict"], found["samples"]) == ("UNVERIFIED", "unclear", 40)
    assert record["message"].startswith("too few samples: a loss of more than 0.50% is not excluded; ")
    assert f"{found['needed']:,} like these would exclude it" in record["message"]
    assert found["needed"] == paired.samples_needed(paired.Difference(0.0, found["low"], found["high"]), 40, 0.005)


def test_a_users_function_gives_batches_of_any_size(shell, scores):
    outputs, labels = scores
    (record,) = evaluated(shell, *on("onnxruntime"), inputs="mine.py:batches")
    assert record["evaluation"]["samples"] == 203
    assert record["evaluation"]["value"] == np.mean(outputs[:203].argmax(1) == labels[:203])
    (record,) = evaluated(shell, *on("onnxruntime"), "--limit", 33, inputs="mine.py:endless")
    assert record["evaluation"]["samples"] == 33


def test_a_users_metric_is_one_number_or_one_for_each_sample(shell, scores):
    outputs, labels = scores
    (hits,) = evaluated(shell, *on("onnxruntime"), "--metric", "mine.py:hits")
    assert hits["evaluation"]["value"] == np.mean(outputs.argmax(1) == labels)
    words = ["--metric", "mine.py:loss", "--less-is-better", "--max-drop", "1%"]
    (loss,) = evaluated(shell, *on("onnxruntime"), *words)
    assert loss["evaluation"]["value"] == pytest.approx(-np.mean(outputs[np.arange(len(labels)), labels]), rel=1e-6)
    assert loss["evaluation"]["accepted"] == pytest.approx(0.01 * abs(loss["evaluation"]["reference"]))


def test_post_processing_makes_the_answers(shell, scores, place):
    outputs, labels = scores
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    (place / "names.txt").write_text("".join(f"{names[label]}\n" for label in labels))
    words = ["--post", "mine.py:words", "--metric", "word-error", "--labels", "names.txt"]
    (record,) = evaluated(shell, *on("onnxruntime"), *words)
    assert record["evaluation"]["value"] == np.mean(outputs.argmax(1) != labels)
    assert record["evaluation"]["less"] is True


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("digits.onnx", "--inputs", "digits.npz", "--metric", "top-1"), "unknown metric 'top-1': did you mean top1?"),
        (("digits.onnx", "--inputs", "digits.npz", "--max-drop", "a bit"), "--max-drop must be a number of at least 0"),
        (("digits.onnx", "--inputs", "digits.npz", "--confidence", "95"), "--confidence must be from 0.5 to below 1"),
        (("digits.onnx", "--inputs", "digits.npz", "--output", "logits"), "--output logits: the outputs are score"),
        (("digits.onnx", "--inputs", "nothing.npz"), "no file or folder nothing.npz"),
        (("digits.onnx", "--inputs", "mine.py:breaks"), "mine.py:breaks raises OSError: the disk is gone"),
        (("digits.onnx", "--inputs", "digits.npz", "--metric", "mine.py:fails"), "fails raises KeyError: 'label'"),
        (("digits.onnx", "--inputs", "digits.npz", "--metric", "mine.py:missing"), "has no attribute 'missing'"),
        (("digits.onnx", "--inputs", "digits.npz", "--post", "mine.py:few"), "gives 1 answers for 32 samples"),
        (("digits.onnx", "--inputs", "unlabelled.npz"), "the metric compares answers with labels: give --labels"),
        (("digits.onnx", "--inputs", "badly.npz"), "badly.npz[3]: label 12 is none of the network's 10 classes"),
    ],
)
def test_a_users_mistake_is_one_line(shell, place, words, line):
    images = np.zeros((5, 1, 8, 8), np.float32)
    np.savez(place / "unlabelled.npz", image=images)
    np.savez(place / "badly.npz", image=images, label=np.array([1, 2, 3, 12, 4]))
    answer = shell.run("evaluate", *words, *on("onnxruntime"), "--out", "mistakes")
    assert answer.returncode == 2, answer.stdout
    assert line in only_line(answer.stderr)


def test_check_and_time_compute_on_a_users_samples(shell):
    answer = shell.run("check", "digits.onnx", "--inputs", "digits.npz", *on("onnxruntime"), "--json")
    (row,) = json.loads(answer.stdout)
    assert (row["status"], row["inputs"]) == ("PASS", None)
    answer = shell.run("time", "digits.onnx", "--inputs", "digits.npz", *on("onnxruntime"), "--budget", 0.05, "--json")
    (row,) = json.loads(answer.stdout)
    assert row["status"] == "PASS" and row["data"].startswith("inputs:digits.npz#")
    answer = shell.run("check", "lenet", "--inputs", "digits.npz", *on("onnxruntime"))
    assert answer.returncode == 2
    assert only_line(answer.stderr).endswith(
        "digits.npz: x is (899, 1, 8, 8), and the network takes (batch, 1, 28, 28)"
    )
    answer = shell.run("time", "lenet", "--inputs", "digits.npz", "--data", "digits", *on("onnxruntime"))
    assert only_line(answer.stderr) == "xbench: --inputs and --data exclude one another: give one of them"
