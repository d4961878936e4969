"""`xbench widen`: the nodes that a planted outlier spoils are found on each runtime, and stay in float32."""

import json
import subprocess
import sys

import pytest
from fault_kit import Shell, only_line
from places import ROOT


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder with digits.onnx, outlier.onnx and digits.npz of examples/digits.py."""
    folder = tmp_path_factory.mktemp("widen")
    subprocess.run([sys.executable, ROOT / "examples" / "digits.py", folder], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def shell(place):
    return Shell(place)


def widened(shell, *words, code=0, model="outlier.onnx"):
    answer = shell.run("widen", model, "--inputs", "digits.npz", "--json", "--budget", "0", *words)
    assert answer.returncode == code, answer.stderr
    (record,) = json.loads(answer.stdout)
    return record


@pytest.fixture(scope="module", params=["onnxruntime", "openvino"])
def found(request, shell):
    return widened(shell, "--runtime", request.param)


def test_the_nodes_of_an_outlier_stay_in_float32(found):
    widening, runtime = found["widening"], found["case"]["runtime"]
    assert found["status"] == "PASS"
    around = {"conv2d", "conv2d_1", "max_pool2d"}  # the channel goes from one convolution to the other
    assert widening["wide"]
    assert set(widening["wide"]) <= around
    order = sorted(widening["nodes"], key=lambda node: node["error"], reverse=True)
    assert {node["tensor"] for node in order[:2]} <= around
    assert order[0]["error"] > 10 * next(n["error"] for n in order if n["tensor"] not in around)
    operators = {node["tensor"]: node["operator"] for node in order}
    assert (operators["conv2d_1"], operators["score"]) == ("Conv", "Gemm"), runtime


def test_every_set_is_an_evaluation_and_only_the_good_ones_count(found, place):
    exact, *points = found["widening"]["points"]
    assert (exact["precision"], exact["status"], exact["wide"]) == ("fp32", "PASS", [])
    assert (points[0]["wide"], points[0]["status"]) == ([], "FAIL")
    good = [point for point in points if point["status"] == "PASS"]
    assert min(len(point["wide"]) for point in good) == len(found["widening"]["wide"])
    assert all((point["low"] >= -found["widening"]["accepted"]) == (point["status"] == "PASS") for point in points)
    lines = (place / "xbench-results/evaluation.jsonl").read_text().splitlines()
    stored = {record["case"]["runtime"]: record for record in map(json.loads, lines)}
    for point in points:
        assert stored[point["word"]]["evaluation"]["value"] == point["value"]
    assert found["widening"]["trials"] == len(points)


def test_what_was_evaluated_is_not_evaluated_again(shell, found, place):
    file = place / "xbench-results/evaluation.jsonl"
    before = file.read_text()
    again = widened(shell, "--runtime", found["case"]["runtime"])
    assert again["widening"] == found["widening"]
    assert file.read_text() == before


def test_the_word_is_for_other_commands(shell, found):
    word = next(p["word"] for p in found["widening"]["points"][1:] if p["wide"] == found["widening"]["wide"])
    answer = shell.run("evaluate", "outlier.onnx", "--inputs", "digits.npz", "--runtime", word, "--precision", "int8")
    assert answer.returncode == 0, answer.stdout


def test_where_all_may_be_narrow_none_is_wide_and_the_times_are_side_by_side(shell):
    words = ("--runtime", "onnxruntime", "--budget", "0.1")
    record = widened(shell, *words, model="digits.onnx")
    exact, full = record["widening"]["points"]
    assert (record["widening"]["wide"], record["widening"]["trials"], record["status"]) == ([], 1, "PASS")
    assert exact["ratio"] == 1
    assert full["ratio_low"] <= full["ratio"] <= full["ratio_high"]
    table = shell.run("widen", "digits.onnx", "--inputs", "digits.npz", *words)
    assert "every node may be in the lower precision" in table.stdout


def test_a_bound_that_no_set_meets_is_said_with_what_was_tried(shell):
    """100 samples cannot exclude a loss of 0.1 %, however many nodes are in float32."""
    record = widened(shell, "--runtime", "onnxruntime", "--limit", "100", "--max-drop", "0.1%", code=1)
    assert (record["status"], record["widening"]["wide"]) == ("FAIL", None)
    assert record["message"].startswith("it is not good enough even with all but one of ")
    few = widened(shell, "--runtime", "onnxruntime", "--max-drop", "1%", "--evaluations", "1", code=1)
    assert few["message"] == "no set of nodes was good enough in 1 evaluation: --evaluations tries more"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--precision", "fp32"), "--precision fp32: widen is for a lower one, such as int8"),
        (("--runtime", "litert"), "litert cannot leave single nodes in float32 if the others are in int8"),
        (("--runtime", "openvino", "--precision", "fp16"), "openvino cannot leave single nodes in float32"),
        (("--runtime", "onnxruntime:wide=conv2d"), "widen finds these nodes itself: write onnxruntime"),
        (("--evaluations", "0"), "evaluations must be at least 1, not 0"),
        (("--budget", "-1"), "budget must be at least 0"),
        (("--metric", "top2"), "unknown metric 'top2'"),
    ],
)
def test_a_wrong_word_is_one_line(shell, words, line):
    answer = shell.run("widen", "digits.onnx", "--inputs", "digits.npz", *words)
    assert answer.returncode == 2, answer.stderr
    assert line in only_line(answer.stderr)


def test_the_report_draws_the_points(shell, found):
    assert shell.run("report", "--output", "widened.html").returncode == 0
    page = (shell.folder / "widened.html").read_text()
    assert "Nodes that stay in float32" in page
    assert f"outlier.onnx {found['case']['runtime']} int8, top1 on digits.npz" in page
