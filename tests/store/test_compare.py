"""`xbench compare` finds what became slower, does not report chance, and loses nothing."""

import json
import math
import zlib

import numpy as np
import pytest

from xbench.stats.ratio import SESSION, Estimate
from xbench.store.comparison import adjusted, chance, compare
from xbench.store.results import Store, open_store

CASE = {"model": "lenet", "runtime": "torch", "mode": "forward"}


def record(median: float | None = 1.0, key: str = "k", status: str = "PASS", **case) -> dict:
    """A record of one process of six blocks that differ by 0.5 %."""
    case = CASE | case
    name = f"{key}-{sorted(case.items())}"
    factors = np.random.default_rng(zlib.crc32(str(median).encode())).lognormal(0, 0.005, 6)
    blocks = [{"round": n, "process": 0, "samples": [(median or 0) * f]} for n, f in enumerate(factors)]
    times = {"median_s": median, "low_s": median, "high_s": median, "converged": True, "blocks": blocks}
    parts = {"message": "lost its way" if status != "PASS" else None, "machine": {"cpu": "a", "cpus": 2}}
    return {"schema": 3, "key": name, "case": case, "status": status, "times": times if median else None, **parts}


def drawn(generator: np.random.Generator, runs: int, cells: int, factor: float = 1.0) -> list[dict]:
    """`runs` runs of some cells, each off by the variation between runs at different times."""
    return [
        record(factor * math.exp(generator.normal(0, SESSION)), batch=cell + 1)
        for _ in range(runs)
        for cell in range(cells)
    ]


@pytest.mark.parametrize(
    ("value", "freedom", "p"), [(2.776, 4, 0.05), (12.706, 1, 0.05), (1.96, 10**4, 0.05), (0, 3, 1)]
)
def test_the_probability_is_students(value, freedom, p):
    assert chance(Estimate(value, 1.0, freedom)) == pytest.approx(p, rel=2e-3)
    assert chance(Estimate(-value, 1.0, freedom)) == pytest.approx(p, rel=2e-3)
    assert chance(Estimate(0.0, 0.0, 4)) == 1 and chance(Estimate(0.1, 0.0, 4)) == 0


def test_the_correction_is_benjaminis_and_hochbergs():
    assert adjusted([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    assert adjusted([0.9, 0.001]) == pytest.approx([0.9, 0.002])
    assert adjusted([]) == []


@pytest.mark.parametrize("runs", [1, 3])
def test_of_stores_that_do_not_differ_hardly_any_is_said_to(runs):
    """50 pairs of 20 cells: uncorrected, every pair would have one that looks slower or faster."""
    generator, reported = np.random.default_rng(runs), 0
    for _ in range(50):
        changes = compare(drawn(generator, runs, 20), drawn(generator, runs, 20))
        reported += any(change.verdict in ("slower", "faster") for change in changes)
    assert reported <= 6


def test_the_processes_of_one_run_are_one_observation():
    """Each side is one run of eight processes, all off by the same effect of their time: called different as rarely
    as runs of one process."""
    generator, reported = np.random.default_rng(9), 0
    for _ in range(200):
        sides = []
        for _ in range(2):
            run = record(moment := math.exp(generator.normal(0, SESSION)))
            blocks = [
                {**block, "process": process, "samples": [moment * generator.lognormal(0, 0.005)]}
                for process in range(8)
                for block in run["times"]["blocks"]
            ]
            sides.append([run | {"times": run["times"] | {"blocks": blocks}}])
        (change,) = compare(*sides)
        assert change.runs == (1, 1)
        reported += change.verdict != "same"
    assert reported <= 20


def test_of_what_is_said_to_be_slower_at_most_one_in_twenty_is_not():
    """A quarter of 40 cells is 15 % slower, measured six times a side."""
    generator, hits, false = np.random.default_rng(5), 0, 0
    for _ in range(20):
        old = drawn(generator, 6, 40)
        new = [r for r in drawn(generator, 6, 40) if r["case"]["batch"] > 10]
        new += [r for r in drawn(generator, 6, 40, 1.15) if r["case"]["batch"] <= 10]
        slower = [change for change in compare(old, new) if change.verdict == "slower"]
        hits += sum(change.case.batch <= 10 for change in slower)
        false += sum(change.case.batch > 10 for change in slower)
    assert hits >= 0.9 * 200 and false <= 0.05 * (hits + false) + 6


def test_runs_count_and_those_of_another_version_do_not():
    old = [record(9.0, key="older")] + [record(1.0 + step / 1000) for step in range(3)]
    (change,) = compare(old, [record(1.2), record(1.21)])
    assert change.runs == (3, 2) and change.verdict == "slower"
    assert change.ratio.value == pytest.approx(1.2, rel=0.02)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (record(), record(None, status="FAIL"), "lost"),
        (record(None, status="CRASH"), record(), "fixed"),
        (record(None, status="FAIL"), record(None, status="OOM"), "failing"),
        (record(), record() | {"machine": {"cpu": "b", "cpus": 2}}, "other machine"),
        (record(), record(), "same"),
        (record(), None, "only old"),
        (None, record(), "only new"),
        (record(), record() | {"times": None}, "same"),
    ],
)
def test_what_became_of_a_cell(old, new, verdict):
    (change,) = compare([old] if old else [], [new] if new else [])
    assert change.verdict == verdict
    assert change.is_worse(0.0) is (verdict == "lost")


def store(folder, records) -> Store:
    opened = open_store(folder)
    for each in records:
        opened.append(each)
    return opened


@pytest.fixture
def stores(shell):
    old = [record(1.0), record(1.0, runtime="jax"), record(1.0, runtime="tvm")] * 3
    new = [record(1.3), record(1.001, runtime="jax"), record(None, status="FAIL", runtime="tvm")] * 3
    for name, records in (("old", old), ("new", new)):
        store(shell.folder / name, records)
    return shell


def test_the_command_names_what_is_worse_and_exits_with_1_where_it_was_asked_to(stores):
    answer = stores.run("compare", "old", "new")
    assert answer.returncode == 0 and "1.30" in answer.stdout and "lost its way" in answer.stdout
    failed = stores.run("compare", "old", "new", "--fail-on", "3%")
    assert failed.returncode == 1
    assert failed.stderr.splitlines() == [
        "lenet forward batch 1, tvm, cpu, 1 thread: lost",
        "lenet forward batch 1, torch, cpu, 1 thread: slower",
    ]
    patient = stores.run("compare", "old/results.jsonl", "new", "--fail-on", "0.5")
    assert patient.returncode == 1 and "torch" not in patient.stderr
    changes = json.loads(stores.run("compare", "old", "new", "--json").stdout)
    assert [(each["runtime"], each["verdict"]) for each in changes] == [
        ("tvm", "lost"),
        ("torch", "slower"),
        ("jax", "same"),
    ]
    assert changes[1]["ratio"] == pytest.approx(1.3, rel=0.02)
    assert changes[1]["ratio_low"] < changes[1]["ratio"] < changes[1]["ratio_high"]
    assert stores.run("compare", "old", "new", "--markdown").stdout.count("\n") == 5


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("old", "nowhere"), "no results in nowhere"),
        (("old", "new", "--fail-on", "x"), "--fail-on must be a share such as 3% or 0.03, not 'x'"),
        (("old", "new", "--fail-on", "-3%"), "--fail-on must be a share"),
        (("old", "new", "--fail-on", "nan"), "--fail-on must be a share"),
        (("old", "new", "--json", "--markdown"), "exclude one another"),
        (("old", "apart"), "have no cell in common"),
    ],
)
def test_bad_input_is_one_line(stores, words, line):
    store(stores.folder / "apart", [record(1.0, model="alexnet")])
    answer = stores.run("compare", *words)
    assert answer.returncode == 2 and line in answer.stderr and "Traceback" not in answer.stderr
    assert answer.stdout == "" and len(answer.stderr.splitlines()) == 1
