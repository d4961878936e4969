"""`xbench recommend --max-drop`: only cells whose answers are shown to be good enough are ranked."""

import json

import pytest
import stores
from fault_kit import only_line

from xbench.errors import XBenchError
from xbench.experiments.evaluate import Evaluate
from xbench.recommend.quality import Quality, choose_quality

FOUND = {"inputs": "x.npz", "labels": None, "post": None, "output": None, "less": False, "confidence": 0.95}
FOUND |= {"calibration": None, "samples": 900, "content": "c", "reference": 0.95, "accepted": 0.01, "needed": None}
FOUND |= {"constant": 0.1, "changed": 3, "changed_share": 0.003, "gained": 1, "lost": 2, "p_value": 1.0, "worst": []}


def evaluation(runtime, low, high, precision="fp32", verdict="no worse", status="PASS", metric="top1", **found):
    """A record of `evaluation.jsonl`, whose difference has this interval; None: it has none."""
    value = None if low is None else 0.95 + (low + high) / 2
    made = FOUND | {"metric": metric, "value": value, "difference": value, "low": low, "high": high} | found
    message = None if status == "PASS" else "its worker ended"
    record = stores.record("lenet", runtime, status=status, precision=precision, batch=32, message=message)
    return record | {"times": None, "evaluation": made | {"verdict": verdict if low is not None else None}}


def lacks(quality, *evaluated, runtime="torch", **fields):
    record = stores.record("lenet", runtime, **fields)
    return quality.lacks(record, quality.of(evaluated, "lenet"))


@pytest.mark.parametrize(
    ("quality", "made", "why"),
    [
        (Quality(0.01, True), evaluation("torch", -0.004, 0.004), ""),
        (
            Quality(0.01, True),
            evaluation("torch", -0.012, 0.004),
            "top1 may be 1.20% worse than in float64, over 1.00%",
        ),
        (Quality(0.0, True), evaluation("torch", 0.001, 0.004), ""),
        (Quality(0.0, True), evaluation("torch", -0.5, 0.5, verdict="same"), ""),
        (Quality(0.01, True), evaluation("jax", 0, 0), "its answers were not evaluated: `xbench evaluate` does that"),
        (
            Quality(0.01, True),
            evaluation("torch", None, None, status="CRASH"),
            "its top1 is not known: its worker ended",
        ),
        (
            Quality(0.01, True),
            evaluation("torch", 0.0, 0.001, status="FAIL"),
            "its top1 does not count: its worker ended",
        ),
        (
            Quality(0.1, False),
            evaluation("torch", -1, 0.2, metric="perplexity", less=True, reference=20.0),
            "0.2 worse",
        ),
        (Quality(0.02, True), evaluation("torch", -1, 0.2, metric="perplexity", less=True, reference=20.0), ""),
    ],
)
def test_a_cell_is_good_enough_if_its_interval_excludes_a_larger_loss(quality, made, why):
    assert (lacks(quality, made) == "") == (why == "") and why in lacks(quality, made)


def test_the_last_evaluation_of_the_same_precision_and_model_counts():
    quality = Quality(0.01, True)
    bad, good = evaluation("torch", -0.3, -0.2, "int8", "worse", "FAIL"), evaluation("torch", -0.001, 0.001, "int8")
    assert "30.00% worse" in lacks(quality, bad, precision="int8")
    assert lacks(quality, bad, good, precision="int8") == ""
    assert "not evaluated" in lacks(quality, bad, good)
    assert "not evaluated" in lacks(quality, good, precision="int8", artifact="another version")


def test_several_metrics_or_sets_of_samples_must_be_named():
    two = [evaluation("torch", 0, 0.1), evaluation("torch", 0, 0.1, metric="f1")]
    with pytest.raises(XBenchError, match="lenet was evaluated with --metric f1 and top1: say which"):
        Quality(0.01, True).of(two, "lenet")
    assert [each["evaluation"]["metric"] for each in Quality(0.01, True, "f1").of(two, "lenet")] == ["f1"]
    two[1]["evaluation"] |= {"metric": "top1", "inputs": "y.npz"}
    with pytest.raises(XBenchError, match=r"--inputs x\.npz and y\.npz"):
        Quality(0.01, True).of(two, "lenet")


def test_a_loss_is_a_number_or_a_percentage():
    assert choose_quality("0.5%", None, None, None) == Quality(0.005, True)
    assert choose_quality("0.005", "f1", "x.npz", None) == Quality(0.005, False, "f1", "x.npz")
    assert choose_quality(None, None, None, None) is None
    for words in (("-1", None, None, None), ("1%", "f2", None, None), (None, "f1", None, None)):
        with pytest.raises(XBenchError):
            choose_quality(*words)


def test_the_fastest_of_those_that_are_good_enough_is_taken(shell):
    out = shell.folder / "out"
    fast = {"parity": {"class": "int8"}, "precision": "int8"}
    timed = [stores.record("lenet", "openvino", median=0.001, **fast), stores.record("lenet", "openvino", median=0.002)]
    stores.write(out, [*timed, stores.record("lenet", "torch", median=0.003)])
    evaluated = [evaluation("openvino", -0.03, -0.01, "int8", "worse", "FAIL"), evaluation("openvino", -0.001, 0.001)]
    (out / Evaluate.file).write_text("".join(f"{json.dumps(each)}\n" for each in evaluated))
    words = [
        "recommend",
        "lenet",
        "--out",
        "out",
        "--threads",
        2,
        "--machine",
        "AMD",
        "--precision",
        "fp32,int8",
        "--json",
    ]
    assert json.loads(shell.run(*words).stdout)["best"] == "openvino (int8)"
    answer = json.loads(shell.run(*words, "--max-drop", "1%").stdout)
    assert (answer["best"], answer["question"]["max_drop"]) == ("openvino", 0.01)
    assert {each["cell"]: each["why"] for each in answer["excluded"]} == {
        "openvino (int8)": "top1 may be 3.00% worse than in float64, over 1.00%",
        "torch": "its answers were not evaluated: `xbench evaluate` does that",
    }
    assert json.loads(shell.run(*words, "--max-drop", "5%").stdout)["best"] == "openvino (int8)"
    failed = shell.run(*words, "--labels", "x.npy")
    assert only_line(failed.stderr) == "xbench: --labels is for --max-drop: what may the answers lose?"
