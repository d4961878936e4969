"""Times are checked against the parent's clock, the machine's peak rate and the given CPUs: adapters that spoil
one of them (`time_cheats.py`) get no time, with a reason; honest ones of the same kind get theirs."""

import os
import time

import pytest
import time_cheats
from fault_kit import is_alive

from xbench.case import Case
from xbench.experiments.session import run
from xbench.experiments.settings import Protocol
from xbench.host import clock, process_tree
from xbench.proof import conformance_cell, contracts, physics, probes
from xbench.runtimes import RUNTIMES
from xbench.workers.worker import Worker

QUICK = Protocol(budget=0.3, timeout=120)
BATCH = 32
OPEN = Case("lenet", "torch", threads=1)


@pytest.fixture
def ours(faults, monkeypatch, tmp_path):
    """Put rows into xbench's own table, here and in every worker, as if xbench shipped them."""
    lines = ["from xbench.runtimes._rows import RUNTIMES, Row"]
    for kind in time_cheats.OURS:
        monkeypatch.setitem(RUNTIMES, time_cheats.name(kind), time_cheats.row(kind, events=("cpu",)))
        place = f"xbench_time_cheats:{kind.__name__}"
        lines += [
            f"RUNTIMES[{time_cheats.name(kind)!r}] = Row({place!r}, ('xbench-faults',), 'faults', events=('cpu',))"
        ]
    site = tmp_path / "ours"
    site.mkdir()
    (site / "sitecustomize.py").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(site), os.environ["PYTHONPATH"])))


def timed(kind, mode, plane, lenet, exporter, folder):
    case = Case("lenet", time_cheats.name(kind), mode, BATCH if mode == "forward" else 2, threads=1, plane=plane)
    (record,) = run([case], lenet, exporter, QUICK, folder, lambda words: None)
    return record


@pytest.mark.parametrize("kind", time_cheats.EXPECTED, ids=lambda kind: kind.__name__)
def test_an_adapter_whose_time_cannot_be_is_caught_and_gets_none(kind, ours, lenet, exporter, tmp_path):
    promise, mode, plane = time_cheats.EXPECTED[kind]
    if promise == "threads" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("there is no second CPU to use")
    record = timed(kind, mode, plane, lenet, exporter, tmp_path)
    assert (record["status"], record["times"]) == ("FAIL", None), record["message"]
    if promise != "physical":  # judged last: a step that is too fast was not computed, which an earlier check sees
        assert record["contracts"][promise]["held"] is False, record["contracts"]
        assert record["contracts"][promise]["says"] in record["message"]


@pytest.mark.parametrize("kind", [k for k, (promise, _, _) in time_cheats.EXPECTED.items() if promise == "physical"])
def test_what_is_faster_than_the_machine_is_called_so(kind, faults, exporter, tmp_path):
    _, mode, _ = time_cheats.EXPECTED[kind]
    bench = conformance_cell.Bench(time_cheats.name(kind), "cpu", 1, exporter, probes.write(tmp_path), tmp_path, 120)
    findings = {each.check: each for each in conformance_cell.cell(bench, mode, lambda words: None, "work")}
    assert findings["physical"].held is False, findings


def test_a_clock_that_runs_backwards_is_no_time(ours, lenet, exporter, tmp_path):
    record = timed(time_cheats.OwnBackward, "forward", "resident", lenet, exporter, tmp_path)
    assert record["status"] in ("FAIL", "CRASH") and record["times"] is None
    assert "clock" in record["message"]


@pytest.mark.parametrize(("kind", "plane"), [(time_cheats.Hosted, "resident"), (time_cheats.Hosted, "host")])
def test_an_honest_clock_of_another_process_is_believed(kind, plane, ours, lenet, exporter, tmp_path):
    record = timed(kind, "forward", plane, lenet, exporter, tmp_path)
    assert record["status"] == "PASS", record["message"]


def test_an_honest_clock_of_a_device_is_believed(ours, lenet, exporter, tmp_path):
    record = timed(time_cheats.TrueEvents, "forward", "device", lenet, exporter, tmp_path)
    assert record["status"] == "PASS", record["message"]
    assert {"clock", "physical", "threads"} <= record["contracts"].keys()


# ***** the clock *****

PACE = {"steps": 100, "told_s": 1.0, "parent_s": 1.0, "shortest_s": 9e-3, "unseen_s": 0.0}


@pytest.mark.parametrize(
    ("found", "held"),
    [
        ({}, True),
        ({"parent_s": 1.2}, True),  # the parent had to wait before it could look
        ({"parent_s": 2.0}, False),
        ({"parent_s": 60.0}, False),
        ({"parent_s": 0.5}, False),
        ({"shortest_s": 0.0}, False),
        ({"shortest_s": -1e-9}, False),
        ({"parent_s": 2.0, "unseen_s": 0.9}, True),  # the way to another process
        ({"parent_s": 2.0, "unseen_s": 0.9, "span_s": 2.0}, True),  # or a busy machine
        ({"parent_s": 2.0, "unseen_s": 0.9, "span_s": 1.0}, False),  # half a clock on a busy machine
        ({"missing": 0.5}, False),
        ({"missing": 0.1, "here": 0.1}, True),
        ({"here": 0.9}, False),
        ({"parent_s": 2.0, "late_s": 0.9}, None),  # and here too
        ({"parent_s": 2.0, "late_s": 0.5}, False),
        ({"told_s": 1e-3, "parent_s": 2e-3}, None),
        ({"told_s": 2e-2, "parent_s": 3.9e-2, "blocks": 6}, None),  # the slack of six blocks
        ({"steps": 10**6, "told_s": 1.0, "parent_s": 2.0}, None),  # more time between the steps than in them
    ],
)
def test_what_clock_is_believed(found, held):
    assert contracts.clock(PACE | found).held is held


def test_our_clock_is_not_the_one_that_an_adapter_can_put_into_time(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    assert clock.now() > 0
    assert 0 < clock.resolution() < 1e-3


# ***** the machine *****

COST = {"flop": 10**9, "bytes": 4 * 10**6, "peak_flops": 1e11, "bandwidth": 1e10}


@pytest.mark.parametrize(
    ("found", "seconds", "precision", "held"),
    [
        ({}, 1e-2, "fp32", True),
        ({}, 1e-2 / 23, "fp32", True),
        ({}, 1e-2 / 25, "fp32", False),
        ({}, 1e-2 / 25, "bf16", True),
        ({}, 1e-2 / 400, "bf16", False),
        ({}, 1e-2 / 400, "int8", True),
        ({"flop": None}, 1e-2 / 100, "fp32", True),
        ({"flop": 3 * 10**8, "bytes": 10**9}, 1e-2, "fp32", False),  # 1 GB in 10 ms, of memory that copies 10 GB/s
        ({"flop": 3 * 10**8, "bytes": 10**9}, 2e-2, "fp32", True),
        ({"flop": 10**8, "bytes": 10**9}, 1e-2, "fp32", True),  # most of it may stay unread
        ({"flop": 10**7, "bytes": 10**7}, 9e-6, "fp32", False),  # from a cache, where it may be
        ({"peak_flops": None, "bandwidth": None}, 1e-4, "fp32", None),
        ({"peak_flops": None, "bandwidth": None}, 1e-9, "fp32", False),
        ({"flop": 0, "bytes": 0}, 1e-5, "fp32", None),
    ],
)
def test_what_no_machine_does(found, seconds, precision, held, tmp_path):
    case = Case("lenet", "torch", threads=1, precision=precision)
    assert physics.judge(case, COST | found, seconds, caches_of(tmp_path, "16384K")).held is held


def caches_of(folder, size):
    """Linux's description of two CPUs with one cache each and a shared one."""
    for cpu in range(2):
        for index, shared in enumerate((str(cpu), "0-1")):
            place = folder / f"cpu{cpu}/cache/index{index}"
            place.mkdir(parents=True)
            facts = {"level": f"{index + 1}", "type": "Unified", "size": size if index else "32K"}
            for name, text in (facts | {"shared_cpu_list": shared}).items():
                (place / name).write_text(text + "\n")
    return folder


def test_each_cache_counts_once(tmp_path):
    assert physics.cached(caches_of(tmp_path, "1024K")) == (1024 + 2 * 32) << 10
    assert physics.cached(tmp_path / "none") == 0


def test_where_caches_are_unknown_all_may_lie_in_them(tmp_path):
    cost = COST | {"flop": 3 * 10**8, "bytes": 10**9}
    assert physics.judge(OPEN, cost, 1e-2, tmp_path).held is True


# ***** CPUs and processes *****


@pytest.mark.parametrize(
    ("told", "cpu", "elsewhere", "held"),
    [(1, 1.0, (), True), (1, 1.04, (), True), (1, 1.3, (), False), (2, 2.0, (), True), (2, 2.6, (), False)]
    + [(1, 0.5, {1}, False)],
)
def test_what_cpus_may_be_used_while_it_is_timed(told, cpu, elsewhere, held):
    assert contracts.limited(told, cpu, 1.0, 1, elsewhere).held is held


def opened(kind, lenet, exporter, folder):
    """A worker with the opened cell of a cheat."""
    worker = Worker(folder / "worker.log")
    paths = [str(exporter.reference(lenet, "forward", 2, seed, "synthetic")) for seed in (0, 1)]
    settings = {"mode": "forward", "device": "cpu", "threads": 1, "layout": "nchw", "references": paths}
    worker.call("open_cell", 60, artifact=str(lenet.folder), runtime=time_cheats.name(kind), **settings)
    return worker


def until(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def state(process):
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_process_that_left_the_group_is_stopped_resumed_and_ended_with_its_worker(faults, lenet, exporter, tmp_path):
    worker = opened(time_cheats.Daemon, lenet, exporter, tmp_path)
    try:
        worker.call("check", 60, index=0)
        members = [each for each in process_tree.members(worker.process.pid) if is_alive(each)]
        assert any(os.getsid(each) != worker.process.pid for each in members)
        worker.pause()
        assert until(lambda: {state(process) for process in members} <= {"T", "Z"})  # each when it has a CPU again
        worker.resume()
        assert worker.call("check", 60, index=0)["status"] == "PASS"
    finally:
        worker.stop()
    assert until(lambda: not any(map(is_alive, members)))  # each when it has a CPU again


def test_what_a_worker_left_behind_that_ended_by_itself_is_ended_too(faults, lenet, exporter, tmp_path):
    worker = opened(time_cheats.Daemon, lenet, exporter, tmp_path)
    members = process_tree.members(worker.process.pid)
    worker.process.kill()
    worker.process.wait()
    worker.stop()
    assert until(lambda: not any(map(is_alive, members)))
