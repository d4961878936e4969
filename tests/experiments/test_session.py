"""A comparison from the command line: a failure stops no other, no measurement is lost or repeated."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter

import damages
import numpy as np
import pytest
from fault_kit import only_line, records, workers
from places import ROOT

from xbench.case import Case
from xbench.experiments.session import in_order
from xbench.stats.ratio import MIN_BLOCKS

RESULTS = ROOT / "docs" / "results.md"
QUICK = ("--budget", "0.1", "--mode", "forward", "--batch", 2, "--timeout", 30)
FAST, SLOW = "null:seconds=0.002", "null:seconds=0.004"


def time(shell, *runtimes, model="lenet", options=QUICK, out="out", run=None, **more):
    words = [word for runtime in runtimes for word in ("--runtime", runtime)]
    return (run or shell.run)("time", model, *words, *options, "--out", out, **more)


def by_runtime(shell, out="out"):
    return {record["case"]["runtime"]: record for record in records(shell.folder / out)}


def documented(heading_of_table: str) -> set[str]:
    """The first column of a table of docs/results.md."""
    table = RESULTS.read_text().partition(heading_of_table)[2].partition("\n\n")[0]
    return {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}


def test_every_fault_is_recorded_and_the_others_are_timed(shell, lenet):
    faults = {
        "fault_killed": ("CRASH", "the worker was killed (signal SIGKILL), by whom is not known"),
        "fault_late_abort": ("CRASH", "the worker ended with signal SIGABRT"),
        "fault_late_hang": ("TIMEOUT", "no answer to block within 20 s"),
        "fault_late_wrong": ("FAIL", "while it was timed output/"),
        "fault_infinite": ("FAIL", "not finite or of another shape; first wrong tensor: "),
        "fault_remembers": ("FAIL", "times the float32 noise off"),
    }
    good = (FAST, "fault_babbles")
    answer = time(shell, FAST, *faults, "fault_babbles", options=(*QUICK[:-1], 20), run=shell.apart)
    assert answer.returncode == 1
    stored = by_runtime(shell)
    assert set(stored) == {*faults, *good}
    for runtime, (status, words) in faults.items():
        assert stored[runtime]["status"] == status, stored[runtime]
        assert words in stored[runtime]["message"]
        assert stored[runtime]["message"].isprintable()
        assert stored[runtime]["times"] is None
    assert all(stored[runtime]["status"] == "PASS" for runtime in good)
    assert all(len(stored[runtime]["times"]["blocks"]) >= 3 for runtime in good)
    assert not shell.survivors()


def test_a_failed_cell_is_never_ranked(shell, lenet):
    assert time(shell, FAST, "fault_infinite").returncode == 1
    rows = {row["runtime"]: row for row in json.loads(shell.run("show", "--out", "out", "--json").stdout)}
    assert rows[FAST]["ratio"] == 1
    assert [rows["fault_infinite"][name] for name in ("status", "ratio", "median_s")] == ["FAIL", None, None]


def test_a_crash_is_located_in_the_graph(shell, two_outputs):
    time(shell, "fault_unloadable", model=two_outputs.info["name"])
    message = by_runtime(shell)["fault_unloadable"]["message"]
    assert message.startswith("RuntimeError: cannot load this model; first wrong tensor: ")
    assert message.isprintable()


@pytest.mark.parametrize(("runtime", "tensor"), [("fault_wrong_first", "left"), ("fault_wrong_second", "right")])
def test_one_wrong_output_of_two_fails_and_is_named(shell, two_outputs, runtime, tensor):
    assert time(shell, runtime, model=two_outputs.info["name"]).returncode == 1
    record = by_runtime(shell)[runtime]
    assert (record["status"], record["parity"]["first_wrong"]) == ("FAIL", tensor)


def test_records_hold_what_the_documentation_says(shell, lenet):
    assert time(shell, FAST, "fault_infinite").returncode == 1
    stored = by_runtime(shell)
    fields, times = documented("| field | type | meaning |"), documented("| field | meaning |")
    assert {"schema", "case", "machine"} <= fields
    assert {"load_s", "low_s", "high_s", "cpus"} <= times
    assert all(set(record) == fields for record in stored.values())
    assert set(stored[FAST]["times"]) == times
    assert {"class", "worst_tensor", "ratio", "first_wrong", "tensors"} <= set(stored[FAST]["parity"])


def test_a_slow_step_is_recorded_though_its_budget_is_too_small(shell, lenet):
    assert time(shell, "fault_slow:seconds=0.3").returncode == 0
    record = by_runtime(shell)["fault_slow:seconds=0.3"]
    assert (record["status"], record["times"]["converged"]) == ("PASS", False)
    assert 0.3 <= record["times"]["median_s"] < 0.5


def test_a_ratio_is_the_median_over_the_common_rounds(shell, lenet):
    assert time(shell, FAST, SLOW, options=("--budget", "1", *QUICK[2:])).returncode == 0
    rows = {row["runtime"]: row for row in json.loads(shell.run("show", "--out", "out", "--json").stdout)}
    stored = by_runtime(shell, "out")
    fast, slow = (
        {block["round"]: float(np.median(block["samples"])) for block in stored[runtime]["times"]["blocks"]}
        for runtime in (FAST, SLOW)
    )
    common = fast.keys() & slow.keys()
    assert len(common) >= 3
    assert stored[FAST]["session"] == stored[SLOW]["session"]
    assert rows[SLOW]["paired"]
    ratio = float(np.exp(np.median([np.log(slow[number] / fast[number]) for number in common])))
    assert rows[SLOW]["ratio"] == pytest.approx(ratio, rel=1e-9)  # how near to 2 depends on the machine


def test_every_process_of_a_cell_is_proved_warmed_and_timed(shell, lenet):
    options = (*QUICK[2:], "--budget", 1, "--processes", 3)  # two slow blocks exceed a smaller budget
    assert time(shell, FAST, SLOW, options=options).returncode == 0
    for record in by_runtime(shell, "out").values():
        blocks, processes = record["times"]["blocks"], record["times"]["processes"]
        assert [len(each["warmup"]) > 0 for each in processes] == [True] * 3
        assert sorted({block["process"] for block in blocks}) == [0, 1, 2]
        assert all(sum(block["process"] == number for block in blocks) >= 3 for number in range(3))
        rounds = [block["round"] for block in blocks]
        assert len(set(rounds)) == len(rounds), "a round belongs to one process"
    rounds = [
        {(b["process"], b["round"]) for b in record["times"]["blocks"]} for record in by_runtime(shell, "out").values()
    ]
    common = Counter(process for process, _ in set.intersection(*rounds))  # a disturbed round is not
    rows = json.loads(shell.run("show", "--out", "out", "--json").stdout)
    assert [row["paired"] for row in rows] == [True, max(common.values(), default=0) >= MIN_BLOCKS]


def test_a_process_that_fails_behind_others_is_no_time(shell, lenet):
    """The mark is in the run's folder: the second process sees it."""
    word = f"fault_second:mark={shell.folder / 'mark'}"
    assert time(shell, FAST, word, options=(*QUICK, "--processes", "2")).returncode == 1
    stored = by_runtime(shell, "out")
    assert (stored[word]["status"], stored[word]["times"]) == ("CRASH", None)
    assert stored[FAST]["status"] == "PASS" and len(stored[FAST]["times"]["processes"]) == 2


def test_a_block_that_others_disturb_is_run_again_and_then_told(shell, lenet):
    """Two processes that never sleep share the only CPU of the cell."""
    words = (*QUICK[2:], "--budget", "1.5", "--threads", "1")
    with spinning(2, min(os.sched_getaffinity(0))):
        assert time(shell, FAST, options=words).returncode == 0
    (record,) = records(shell.folder / "out")
    repeated = record["times"]["repeated"]
    assert 2 <= len(repeated) <= 6  # fewer than 6 if half of the budget is used first
    for block in repeated:  # a hypervisor that takes CPU time too is named first
        assert block["health"]["others"] > 0.05
        assert re.match("other processes used|the hypervisor took", block["disturbed"])
    assert re.search("blocks were disturbed: (other processes used|the hypervisor took)", record["message"])


@contextlib.contextmanager
def spinning(number: int, cpu: int):
    """Run `number` processes that keep one CPU busy."""
    code = f"import os\nos.sched_setaffinity(0, [{cpu}])\nwhile True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(number)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_a_finished_run_times_nothing_again_and_starts_no_worker(shell, lenet):
    time(shell, FAST, "fault_killed")
    before = (shell.folder / "out/results.jsonl").read_bytes()
    watched = shell.folder / "sitecustomize.py"
    watched.write_text(
        "import subprocess\nstart = subprocess.Popen.__init__\ndef watch(self, words, *more, **options):\n"
        "    if any('xbench.workers.' in str(word) for word in words): raise SystemExit('a worker was started')\n"
        "    start(self, words, *more, **options)\nsubprocess.Popen.__init__ = watch\n"
    )
    again = time(shell, FAST, "fault_killed", PYTHONPATH=shell.python_path(shell.folder))
    assert again.returncode == 1, again.stderr
    assert "2 cells were measured before" in again.stderr
    assert FAST in again.stdout
    assert (shell.folder / "out/results.jsonl").read_bytes() == before
    rerun = time(shell, FAST, options=(*QUICK, "--rerun"), PYTHONPATH=shell.python_path(shell.folder))
    assert "a worker was started" in rerun.stderr, "the watch does not watch"


def test_rerun_times_everything_again_and_retry_only_what_failed(shell, lenet):
    time(shell, FAST, "fault_killed")
    time(shell, FAST, "fault_killed", options=(*QUICK, "--retry"))
    assert [record["case"]["runtime"] for record in records(shell.folder / "out")[2:]] == ["fault_killed"]
    time(shell, FAST, "fault_killed", options=(*QUICK, "--rerun"))
    assert sorted(record["case"]["runtime"] for record in records(shell.folder / "out")[3:]) == ["fault_killed", FAST]


def test_another_batch_and_another_number_of_threads_are_other_cells(shell, lenet):
    time(shell, FAST, options=("--budget", "0.1", "--mode", "forward", "--batch", "1,2", "--threads", 1))
    time(shell, FAST, options=("--budget", "0.1", "--mode", "forward", "--batch", "2", "--threads", 2))
    cells = [(record["case"]["batch"], record["case"]["threads"]) for record in records(shell.folder / "out")]
    assert sorted(cells) == [(1, 1), (2, 1), (2, 2)]


def test_a_training_step_on_a_runtime_that_cannot_train_is_a_recorded_cell(shell, lenet):
    assert time(shell, FAST, options=("--budget", "0.1", "--mode", "step", "--batch", 2)).returncode == 0
    (record,) = records(shell.folder / "out")
    assert record["status"] == "UNSUPPORTED"
    assert record["message"] == f"{FAST} cannot train: it has no step"


def test_a_runtime_word_may_hold_any_characters(shell, lenet):
    word = "null:seconds=0.001,place=/a%b" + "c" * 300
    assert time(shell, word).returncode == 0
    assert list(by_runtime(shell)) == [word]


def test_a_record_names_the_command_that_measures_it_again(shell, lenet):
    word = f"{FAST},place=/a folder/$b"
    assert time(shell, word, options=(*QUICK, "--processes", 2)).returncode == 0
    (record,) = records(shell.folder / "out")
    _, *words = shlex.split(record["command"])
    assert shell.run(*words, "--out", "again").returncode == 0
    (again,) = records(shell.folder / "again")
    assert [again[name] for name in ("key", "command")] == [record[name] for name in ("key", "command")]
    assert len(again["times"]["processes"]) == len(record["times"]["processes"]) == 2


def test_a_file_that_is_no_model_does_not_stop_the_models_behind_it(shell, lenet):
    (shell.folder / "bad.onnx").write_bytes(b"\x08\x07 no model")
    answer = shell.run("time", "bad.onnx", "lenet", "--runtime", FAST, *QUICK, "--out", "out")
    assert answer.returncode == 2
    assert "bad.onnx is not a valid ONNX file" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert [record["case"]["model"] for record in records(shell.folder / "out")] == ["lenet"]


def test_a_cell_whose_model_was_damaged_is_timed_when_it_was_made_again(shell, own_cache):
    (graph,) = own_cache.glob("models/lenet-*/inference.onnx")
    middle = graph.stat().st_size // 2
    damages.quietly(graph, lambda old: old[:middle] + b"\x7f" * 400 + old[middle + 400 :])  # a hundred huge weights
    answer = time(shell, "onnxruntime", XBENCH_CACHE=str(own_cache))
    record = by_runtime(shell)["onnxruntime"]
    assert answer.returncode == 0 and record["status"] == "PASS" and record["times"]
    assert "measured again, as its model in the cache was damaged: inference.onnx" in record["message"]
    assert f"xbench: warning: {graph.parent} was damaged (inference.onnx has another content)" in answer.stderr


def test_a_full_disk_is_one_line_and_what_was_measured_stays(shell, lenet):
    time(shell, FAST)
    before = (shell.folder / "out/results.jsonl").read_bytes()
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 99},) * 2)\n"
    (shell.folder / "sitecustomize.py").write_text(limited)
    full = time(shell, SLOW, PYTHONPATH=shell.python_path(shell.folder))
    assert full.returncode == 2
    assert "free some space" in only_line(full.stderr)
    assert (shell.folder / "out/results.jsonl").read_bytes() == before
    assert not shell.survivors()


def test_ctrl_c_leaves_a_valid_store_and_no_worker(shell, lenet):
    process = shell.start("time", "lenet", "--runtime", "fault_killed", "--runtime", "fault_late_hang", *QUICK)
    log = shell.folder / "stderr.log"
    assert shell.until(lambda: "[1/2] lenet fault_killed" in log.read_text()), "nothing is recorded"
    assert shell.until(lambda: workers(shell.mark)), "nothing to interrupt"
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    line = log.read_text().splitlines()[-1]
    assert line == "xbench: interrupted; what was measured is kept"
    assert [record["case"]["runtime"] for record in records(shell.folder / "xbench-results")] == ["fault_killed"]
    assert not shell.survivors()


def test_cells_are_opened_in_random_order_and_then_backwards():
    cases = [Case("lenet", runtime, "forward", 2, layout=layout) for runtime in "abc" for layout in ("nchw", "nhwc")]
    passes = [in_order(cases, process, "a session") for process in range(6)]
    assert all(set(order) == set(cases) for order in passes)
    assert [passes[n + 1] == passes[n][::-1] for n in (0, 2, 4)] == [True] * 3
    assert len({tuple(order) for order in passes}) == 6
    assert len({tuple(in_order(cases, 0, str(number))) for number in range(20)}) > 15


def test_what_convert_computed_of_the_oracle_time_does_not_compute_again(shell, own_cache):
    (folder,) = own_cache.glob("models/lenet-*")
    for reference in folder.glob("reference-*"):
        reference.unlink()
    assert shell.run("convert", "lenet", "--to", "null", "--oracle", XBENCH_CACHE=str(own_cache)).returncode == 0
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("reference-*.npz")}
    assert len(before) == 4, "forward and step, two seeds each"
    words = ("--budget", "0.1", "--mode", "forward")
    assert time(shell, FAST, options=words, XBENCH_CACHE=str(own_cache)).returncode == 0
    assert {path.name: path.stat().st_mtime_ns for path in folder.glob("reference-*.npz")} == before


def test_a_runtime_of_another_python_stands_beside_ours(shell, lenet):
    """Two versions of a runtime are compared in the same rounds: the other environment's Python runs the worker."""
    other = shell.folder / "other/bin/python"
    other.parent.mkdir(parents=True)
    other.write_text(f'#!/bin/sh\ntouch {shell.folder}/used\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    word = f"{FAST},python={other}"
    assert time(shell, FAST, word).returncode == 0
    assert (shell.folder / "used").exists()
    assert {record["status"] for record in by_runtime(shell).values()} == {"PASS"} and word in by_runtime(shell)
    missing = time(shell, f"{FAST},python=/nowhere/python")
    assert missing.returncode == 2 and only_line(missing.stderr).endswith("there is no Python at /nowhere/python")
