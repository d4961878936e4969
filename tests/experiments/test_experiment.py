"""The loop of all experiments: stored cells are not measured again, a failure does not stop the others."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

from xbench.case import Case, digest
from xbench.errors import XBenchError
from xbench.experiments.experiment import Experiment, Lab, run
from xbench.proof.record import base
from xbench.store.results import open_store

CASES = [Case("lenet", runtime, threads=1) for runtime in ("torch", "onnxruntime")]


class Shown:
    """Keeps the output of a run; ends it, as Ctrl-C would, after some records."""

    def __init__(self, ends_after: int | None = None) -> None:
        self.notes, self.lines, self.skipped, self.ends_after = [], [], 0, ends_after

    def say(self, words):
        pass

    def note(self, words):
        self.notes.append(words)

    def skip(self, number=1):
        self.skipped += number

    def finish(self, words):
        self.lines.append(words)
        if len(self.lines) == self.ends_after:
            raise KeyboardInterrupt


@dataclass(frozen=True)
class Parts(Experiment):
    """Two records per cell, "a" and "b"; the statuses of the second are scripted."""

    name: ClassVar[str] = "parts"
    file: ClassVar[str] = "parts.jsonl"

    second: str = "PASS"

    @property
    def records(self):
        return 2

    def keys(self, case, artifact, lab):
        return [digest(case.runtime, part) for part in "ab"]

    def measure(self, cases, wanted, artifact, lab):
        for case in cases:
            for part, status in (("a", "PASS"), ("b", self.second)):
                if digest(case.runtime, part) in wanted:
                    fields = {"key": digest(case.runtime, part), "status": status, "message": part}
                    yield base(case, artifact, "scripted") | fields


@pytest.fixture
def measured(tmp_path, lenet):
    """Run an experiment in one folder; return the outcome, the measured parts, and the output."""

    def once(experiment=Parts(), cases=CASES, shown=None, again="none", **given):
        shown = shown or Shown()
        store = open_store(tmp_path / "out", experiment.file)
        before = len(store.read())
        with Lab(tmp_path, shown, **given) as lab:
            lab.given["lenet"] = lenet
            try:
                outcome = run(experiment, cases, lab, store, again)
            except KeyboardInterrupt:
                outcome = None
        made = [f"{record['case']['runtime']} {record['message']}" for record in store.read()[before:]]
        return outcome, made, shown

    return once


ALL = ["torch a", "torch b", "onnxruntime a", "onnxruntime b"]


def test_what_is_stored_is_not_measured_again(measured):
    outcome, made, shown = measured()
    assert (made, outcome.kept, outcome.exit_code, shown.skipped) == (ALL, 0, 0, 0)
    again, made, shown = measured()
    assert (made, again.kept, shown.skipped) == ([], 4, 4)
    assert [json.dumps(each, sort_keys=True) for each in again.records] == [
        json.dumps(json.loads(json.dumps(each)), sort_keys=True) for each in outcome.records
    ]


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_run_that_is_ended_goes_on_where_it_was(measured, after):
    """Within a cell, too."""
    first, made, _ = measured(shown=Shown(ends_after=after))
    assert (first, made) == (None, ALL[:after])
    second, made, _ = measured()
    assert (made, second.kept) == (ALL[after:], after)
    assert [f"{each['case']['runtime']} {each['message']}" for each in second.records] == ALL


def test_what_failed_is_measured_again_where_that_is_asked_for(measured):
    outcome, _, _ = measured(Parts("FAIL"))
    assert outcome.exit_code == 1
    assert measured(Parts("FAIL"))[1] == []
    outcome, made, _ = measured(again="failed")
    assert (made, outcome.exit_code) == (["torch b", "onnxruntime b"], 0)
    assert measured(again="all")[1] == ALL


def test_a_record_that_lacks_what_it_must_have_is_measured_again(measured, tmp_path):
    measured()
    store = tmp_path / "out/parts.jsonl"
    first, *others = (json.loads(line) for line in store.read_text().splitlines())
    del first["message"]
    store.write_text("".join(json.dumps(each) + "\n" for each in (first, *others)))
    assert measured()[1] == ALL[:1]


def test_cells_are_left_out_that_nobody_would_ask_for(tmp_path, lenet):
    """TVM takes minutes to compile a training step, so it is only done on request."""
    cases = [Case("lenet", "tvm", "step"), CASES[0]]
    with Lab(tmp_path, Shown()) as lab:
        lab.given["lenet"] = lenet
        outcome = run(Parts(), cases, lab, open_store(tmp_path, "parts.jsonl"), strict=False)
    assert [case.runtime for case, _ in outcome.left_out] == ["tvm"]
    assert [each["case"]["runtime"] for each in outcome.records] == ["torch", "torch"]


def test_a_model_that_cannot_be_exported_keeps_no_other_from_its_turn(measured):
    cases = [Case("./gone.onnx", "torch"), *CASES, Case("./gone.onnx", "torch", "step")]
    outcome, made, shown = measured(cases=cases, keep_going=True)
    assert (made, outcome.exit_code, shown.skipped) == (ALL, 2, 4)
    assert len(shown.notes) == 1 and "gone.onnx" in shown.notes[0], "once, however many cells it has"


def test_a_single_model_that_cannot_be_exported_is_an_error(measured):
    with pytest.raises(XBenchError, match=r"gone\.onnx"):
        measured(cases=[Case("./gone.onnx", "torch")])
