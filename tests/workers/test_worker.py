"""A worker may do anything: its parent gets a result, or a status and one line, and no process is left."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fault_kit import cpu_seconds, is_alive

from xbench.proof import contracts
from xbench.runtimes import RUNTIMES
from xbench.workers import death
from xbench.workers.cell import Cell, step_of
from xbench.workers.prepare import ORACLE, Exporter
from xbench.workers.template import Templates
from xbench.workers.variables import environment
from xbench.workers.worker import Worker, WorkerFailure

PATIENCE = 60.0  # seconds for a job that should return at once, on a busy machine


@pytest.fixture
def start(tmp_path, faults):
    """Starts workers, and ends them after the test."""
    with contextlib.ExitStack() as stack:
        templates = Templates()
        stack.callback(templates.close)

        def started(device="cpu", threads=1, forked=False):
            how = {"timed": False, "templates": templates, "row": RUNTIMES["onnxruntime"]} if forked else {}
            worker = Worker(tmp_path / "worker.log", device, threads, **how)
            stack.callback(worker.stop)
            return worker

        yield started


def cell(artifact, runtime):
    """The arguments of the job `open_cell`."""
    paths = [str(artifact.folder / f"reference-forward-synthetic-b2-s{seed}-v{ORACLE}.npz") for seed in (0, 1)]
    options = {"mode": "forward", "device": "cpu", "threads": 1, "layout": "nchw", "precision": "fp32"}
    return {"artifact": str(artifact.folder), "runtime": runtime, "references": paths, **options}


def open_cell(worker, artifact, runtime, seconds=PATIENCE):
    return worker.call("open_cell", seconds, **cell(artifact, runtime))


def until(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize(
    ("runtime", "status", "message"),
    [
        ("fault_raises", "CRASH", "ValueError: the kernel is missing"),
        ("fault_unloadable", "CRASH", "RuntimeError: cannot load this model"),
        ("fault_aborts", "CRASH", "the worker ended with signal SIGABRT"),
        ("fault_exits", "CRASH", "the worker ended with exit code 7: leaving now"),
        ("fault_leaves", "CRASH", "the worker ended with exit code 0"),
        ("fault_hoards", "OOM", "out of memory: Unable to allocate 64.0 MiB"),
        ("fault_killed", "CRASH", "the worker was killed (signal SIGKILL), by whom is not known"),
    ],
)
def test_a_fault_becomes_a_status_and_one_line(start, lenet, runtime, status, message, forked):
    worker = start(forked=forked)
    with pytest.raises(WorkerFailure) as failure:
        open_cell(worker, lenet, runtime)
    assert failure.value.status == status
    assert failure.value.message.startswith(message)
    assert "\n" not in failure.value.message
    assert worker.process.poll() is not None


def test_a_worker_outlives_the_thread_that_asked_for_it(start, lenet):
    """Linux ends a process with the thread that started it, if it is set to end with its parent."""
    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(start).result()
        pool.submit(open_cell, worker, lenet, "fault_babbles").result()
    time.sleep(0.5)
    assert worker.call("check", PATIENCE, index=0)["status"] == "PASS"


def test_a_worker_that_hangs_is_ended_when_its_time_is_up(start, lenet):
    worker, begin = start(), time.monotonic()
    with pytest.raises(WorkerFailure, match="no answer to open_cell within 4 s") as failure:
        open_cell(worker, lenet, "fault_hangs", seconds=4)
    assert failure.value.status == "TIMEOUT"
    assert 4 <= time.monotonic() - begin < 10
    assert not is_alive(worker.process.pid)


def test_what_a_worker_prints_goes_to_its_log_and_spoils_nothing(start, lenet):
    worker = start()
    open_cell(worker, lenet, "fault_babbles")
    assert worker.call("check", PATIENCE, index=0)["status"] == "PASS"
    log = worker.log.read_bytes()
    assert bytes(range(256)) in log
    assert b'{"result": null}' in log


def test_garbage_in_the_log_stays_out_of_the_message(start, lenet):
    worker = start()
    open_cell(worker, lenet, "fault_babbles")
    os.killpg(worker.process.pid, signal.SIGSEGV)
    with pytest.raises(WorkerFailure) as failure:
        worker.call("check", PATIENCE, index=0)
    assert failure.value.status == "CRASH"
    assert "SIGSEGV" in failure.value.message
    assert failure.value.message.isprintable()


@pytest.mark.parametrize(
    ("runtime", "wrong"), [("fault_wrong_first", "left"), ("fault_wrong_second", "right"), ("fault_infinite", "left")]
)
def test_a_wrong_answer_fails_and_names_its_tensor(start, two_outputs, runtime, wrong):
    worker = start()
    open_cell(worker, two_outputs, runtime)
    result = worker.call("check", PATIENCE, index=0)
    assert result["status"] == "FAIL"
    assert result["class"] != "fp32"
    assert result["first_wrong"] == f"output/{wrong}"


def test_a_runtime_that_repeats_its_first_answer_fails_on_the_second_input(start, lenet):
    worker = start()
    open_cell(worker, lenet, "fault_remembers")
    assert [worker.call("check", PATIENCE, index=index)["status"] for index in (0, 1)] == ["PASS", "FAIL"]


def test_a_runtime_that_is_right_only_until_it_is_timed_fails(start, lenet):
    worker = start()
    open_cell(worker, lenet, "fault_late_wrong")
    assert worker.call("check", PATIENCE, index=0)["status"] == "PASS"
    with pytest.raises(WorkerFailure, match="while it was timed") as failure:
        worker.call("block", PATIENCE, seconds=0.01, limit=10, seed=0)
    assert failure.value.status == "FAIL"


def test_what_looks_broken_is_measured_again_in_many_rounds(start, lenet, monkeypatch):
    """However long putting inputs takes: on a busy machine all of a few steps on new inputs may be disturbed, and
    none of those on old ones."""
    worker, case = start(), contracts.Case("lenet", "fault_slow_put", batch=2, threads=1)
    open_cell(worker, lenet, case.runtime)
    worker.call("arm", PATIENCE, plane="resident")
    monkeypatch.setattr(contracts, "broken", lambda kept, runtime: "it looks so")
    facts, _ = contracts.audited(worker, case, PATIENCE, 0.1)
    assert len(facts["fresh_s"]) == len(facts["repeated_s"]) == contracts.AGAIN


def test_a_job_of_another_name_is_one_line_too(start):
    with pytest.raises(WorkerFailure) as failure:
        start().call("dance", PATIENCE)
    assert failure.value.status == "CRASH"
    assert "dance" in failure.value.message


def test_a_call_after_the_end_of_a_worker_fails_in_one_line(start):
    worker = start()
    worker.process.kill()
    worker.process.wait()
    with pytest.raises(WorkerFailure, match="the worker was killed"):
        worker.call("arm", PATIENCE, plane="resident")
        worker.call("warm", PATIENCE, seconds=0.1)


def test_a_paused_worker_uses_no_cpu_and_goes_on_when_resumed(start, lenet):
    worker = start()
    open_cell(worker, lenet, "fault_spins")
    pid = worker.process.pid
    before = cpu_seconds(pid)
    assert until(lambda: cpu_seconds(pid) > before + 0.1), "the fake does not spin"
    worker.pause()
    time.sleep(0.1)
    paused = cpu_seconds(pid)
    time.sleep(0.5)
    assert cpu_seconds(pid) == paused
    worker.resume()
    assert worker.call("check", PATIENCE, index=0)["status"] == "PASS"


def test_the_parent_sleeps_while_a_worker_is_measured(start, lenet):
    worker = start()
    open_cell(worker, lenet, "null:seconds=0.002")
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    block = worker.call("block", PATIENCE, seconds=2, limit=10**6, seed=0)
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - begin
    assert len(block["samples"]) > 100
    assert wall > 2
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.01 * wall


def test_an_interrupted_call_ends_the_worker(start, lenet):
    worker = start()
    timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        open_cell(worker, lenet, "fault_hangs")
    assert not is_alive(worker.process.pid)


ORPHAN = """
import os, signal, sys
from pathlib import Path
from xbench.workers.cell import Cell, step_of
from xbench.workers.prepare import ORACLE, Exporter
from xbench.workers.worker import Worker
worker = Worker(Path(sys.argv[1]))
{act}
print(worker.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    "act",
    [
        pytest.param("import time; time.sleep(1.5)", id="idle"),
        pytest.param("import time; time.sleep(1.5); worker.pause()", id="stopped"),
        pytest.param("os.write(worker._requests, sys.argv[2].encode())", id="just started, with work for ever"),
    ],
)
def test_a_worker_dies_with_its_parent(tmp_path, faults, lenet, act):
    request = json.dumps({"job": "open_cell", "arguments": cell(lenet, "fault_hangs")}) + "\n"
    words = [sys.executable, "-P", "-c", ORPHAN.format(act=act), str(tmp_path / "log"), request]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    pid = int(ended.stdout)
    try:
        assert until(lambda: not is_alive(pid), 5), "the worker outlives its parent"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_the_environment_of_a_worker_says_the_number_of_threads_in_every_dialect(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    settings = environment("cpu", 3)
    assert {settings[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS", "TVM", "NUMEXPR")} == {"3"}


def test_a_worker_on_the_cpu_sees_no_gpu_and_float32_means_float32(monkeypatch):
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    settings = environment("cpu", 1)
    assert (settings["CUDA_VISIBLE_DEVICES"], settings["JAX_PLATFORMS"]) == ("-1", "cpu")
    assert settings["NVIDIA_TF32_OVERRIDE"] == "0"
    assert "ONEDNN_DEFAULT_FPMATH_MODE" not in settings


def test_a_worker_on_the_gpu_keeps_the_gpu_that_the_user_chose(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    assert environment("cuda", 1)["CUDA_VISIBLE_DEVICES"] == "2"
    assert environment("cuda", 1)["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false", "all cells share one GPU"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_worker_runs_on_as_many_cpus_as_it_has_threads(start, lenet, threads):
    worker = start(threads=threads)
    open_cell(worker, lenet, "null")
    assert len(os.sched_getaffinity(worker.process.pid)) == min(threads, len(os.sched_getaffinity(0)))


def test_ending_a_worker_twice_closes_nothing_that_was_opened_in_between(start):
    worker = start()
    worker.stop()
    ends = os.pipe(), os.pipe()
    worker.stop()
    for end in (number for pair in ends for number in pair):
        os.close(end)  # raises if something else has closed it


@pytest.mark.parametrize("sign", death.OUT_OF_MEMORY)
def test_every_sign_of_a_full_memory_is_ours_to_read(start, sign):
    worker = start()
    worker.log.write_text(f"one line\nterminate called after throwing std::{sign}\n")
    worker.process.terminate()
    assert worker._death().status == "OOM"


def test_what_a_step_frees_stays_with_its_process_unless_the_user_says_otherwise(monkeypatch):
    assert int(environment("cpu", 1)["MALLOC_TRIM_THRESHOLD_"]) >= 2**30
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert environment("cpu", 1)["MALLOC_TRIM_THRESHOLD_"] == "131072"


def test_threads_of_a_worker_that_times_nothing_spin_less_before_they_sleep(monkeypatch):
    """Beside a busy process they wait for threads that have no CPU."""
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    assert "GOMP_SPINCOUNT" not in environment("cpu", 2), "a timed runtime has the settings of its users"
    assert int(environment("cpu", 2, timed=False)["GOMP_SPINCOUNT"]) < 300_000
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    assert environment("cpu", 2, timed=False)["GOMP_SPINCOUNT"] == "7"


def test_the_oracle_is_not_timed(monkeypatch, tmp_path):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setenv("XBENCH_CACHE", str(tmp_path))
    exporter = Exporter(tmp_path)
    exporter.artifact("lenet")
    (worker,) = exporter._worker
    variables = Path(f"/proc/{worker.process.pid}/environ").read_text().split("\0")
    exporter.close()
    assert any(each.startswith("GOMP_SPINCOUNT=") for each in variables)


class Remembering:
    """A runtime that says whether the result of the last step was still there when the next began."""

    last, kept = None, False

    def put(self, arrays):
        return tuple(arrays)

    def forward(self, *inputs):
        self.kept = self.kept or bool(self.last and self.last())
        result = Result()
        self.last = weakref.ref(result)
        return result

    def gradients(self, inputs, labels):
        return self.forward()

    def wait(self, result):
        pass

    def get(self, outputs):
        return []

    fetch = get


class Result:
    """Something that can be referred to weakly."""


@pytest.mark.parametrize("plane", ["resident", "host"])
@pytest.mark.parametrize("mode", ["forward", "gradient"])
def test_a_step_lets_go_of_the_result_of_the_one_before(plane, mode, monkeypatch):
    monkeypatch.setattr("xbench.workers.cell.Trainer", Remembering)
    runtime, reference = Remembering(), {"input/0": np.zeros(1, np.float32), "labels": np.zeros(1, np.int64)}
    step = step_of(Cell(None, runtime, mode, [reference], plane=plane), reference)
    for _ in range(3):
        step()
    assert runtime.last is not None
    assert not runtime.kept
