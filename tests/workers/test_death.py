"""The cause of a worker's death: out of memory only if the kernel counted it."""

import os
import signal
import sys

import pytest

from xbench.runtimes import Killed
from xbench.runtimes.support.remote import Host
from xbench.workers import death
from xbench.workers import worker as worker_file
from xbench.workers.worker import Worker, WorkerFailure

UNKNOWN = "the worker was killed (signal SIGKILL), by whom is not known"


def write(root, place, text):
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


VMSTAT = ("proc/vmstat", "nr_free_pages 1\noom_kill 40\nnr_x 2\n")
V1 = "4:memory:/job\n3:cpu,cpuacct:/elsewhere\n"


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ([], None),
        ([VMSTAT], 40),
        ([("proc/vmstat", "nr_free_pages 1\n")], None),
        ([VMSTAT, ("proc/self/cgroup", "0::/a/b\n"), ("sys/fs/cgroup/a/b/memory.events", "oom 3\noom_kill 2\n")], 2),
        ([VMSTAT, ("proc/self/cgroup", "0::/outside\n"), ("sys/fs/cgroup/memory.events", "oom 3\noom_kill 5\n")], 5),
        ([VMSTAT, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.events", "oom_kill 7\n")], 7),
        ([VMSTAT, ("proc/self/cgroup", V1), ("sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill 1\n")], 1),
        ([VMSTAT, ("proc/self/cgroup", V1), ("sys/fs/cgroup/memory/memory.oom_control", "oom_kill 3\n")], 3),
        ([VMSTAT, ("proc/self/cgroup", V1), ("sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\n")], 40),
        ([VMSTAT, ("proc/self/cgroup", "of no form\n")], 40),
        ([VMSTAT, ("proc/self/cgroup", "0::/a\n")], 40),
    ],
    ids=[
        *("nobody counts", "of the machine", "an old kernel", "version 2", "version 2 in a container", "of the root"),
        *("version 1", "version 1 in a container", "an old version 1", "damaged", "a cgroup that is not counted"),
    ],
)
def test_the_kernel_is_asked_where_it_counts(tmp_path, files, count):
    for place, text in files:
        write(tmp_path, place, text)
    assert death.oom_kills(tmp_path) == count


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """A new worker, on a machine whose kernel has killed 4 processes; its log has a line."""
    monkeypatch.setattr(death, "ROOT", tmp_path)
    write(tmp_path, "proc/vmstat", "oom_kill 4\n")
    made = Worker(tmp_path / "worker.log")
    yield made
    made.stop()


def failure(worker):
    with pytest.raises(WorkerFailure) as failed:
        worker.call("arm", 60, plane="resident")
        worker.call("warm", 60, seconds=0.1)
    return failed.value.status, failed.value.message


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        ("oom_kill 4\n", ("CRASH", UNKNOWN)),
        ("oom_kill 5\n", ("OOM", "out of memory: the kernel killed the worker")),
        ("", ("CRASH", UNKNOWN)),
    ],
)
def test_a_killed_worker_is_out_of_memory_where_the_kernel_has_counted_it(worker, tmp_path, counted, expected):
    write(tmp_path, "proc/vmstat", counted)
    os.kill(worker.process.pid, signal.SIGKILL)
    assert failure(worker) == expected


def opened(worker, artifact, runtime):
    settings = {"mode": "forward", "device": "cpu", "threads": 1, "layout": "nchw", "precision": "fp32"}
    paths = [str(each) for each in sorted(artifact.folder.glob("reference-forward-synthetic-b2-s[01]-*.npz"))]
    return worker.call("open_cell", 60, artifact=str(artifact.folder), runtime=runtime, references=paths, **settings)


def test_what_the_kernel_killed_before_the_last_answer_is_no_evidence(worker, tmp_path, lenet):
    write(tmp_path, "proc/vmstat", "oom_kill 9\n")
    opened(worker, lenet, "null")
    os.kill(worker.process.pid, signal.SIGKILL)
    assert failure(worker) == ("CRASH", UNKNOWN)


def test_another_signal_is_named_whatever_the_kernel_has_counted(worker, tmp_path):
    write(tmp_path, "proc/vmstat", "oom_kill 5\n")
    os.kill(worker.process.pid, signal.SIGTERM)
    status, message = failure(worker)
    assert (status, message.startswith("the worker ended with signal SIGTERM")) == ("CRASH", True)


def test_a_killed_worker_is_not_blamed_for_what_it_said_last(worker):
    worker.log.write_text("terminate called after throwing std::bad_alloc\n")
    worker.process.kill()
    assert failure(worker) == ("CRASH", UNKNOWN)


def test_the_death_of_a_worker_is_seen_though_its_child_holds_the_pipe(tmp_path, faults, lenet):
    """A forked child has both ends of the pipe: no end of file shows that its parent is dead."""
    worker = Worker(tmp_path / "worker.log")
    try:
        with pytest.raises(WorkerFailure, match="by whom is not known"):
            opened(worker, lenet, "fault_killed_parent")
    finally:
        worker.stop()


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (1, ("OOM", "out of memory: the kernel killed the process of chainer")),
        (2, ("CRASH", "the process of chainer was killed (signal SIGKILL), by whom is not known")),
        (None, ("CRASH", "the process of chainer was killed (signal SIGKILL), by whom is not known")),
    ],
)
def test_the_killed_process_of_a_framework_is_named_as_a_worker_is(tmp_path, monkeypatch, before, expected):
    monkeypatch.setattr(death, "ROOT", tmp_path)
    write(tmp_path, "proc/vmstat", "oom_kill 2\n")
    host = Host("chainer", sys.executable, {})
    host.process.kill()

    def job():
        host.ask("recalled")

    monkeypatch.setattr(worker_file, "_job", lambda name: job)
    answer = worker_file._answer("any", {}, before)
    assert (answer["status"], answer["error"]) == expected
    with pytest.raises(Killed):
        host.ask("recalled")
