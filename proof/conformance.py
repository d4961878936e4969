"""Conformance tests of adapters, `xbench plugin test`: right results, and honest times.

The adapter runs small networks (`probes.py`) in a worker as every cell does: proved in every mode it has, then audited
(`contracts.py`). Three more checks are for forward alone: how many bits of a number survive, whether inputs on the
device are copied again, and whether it is as fast after hundreds of steps as a new process.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from xbench.case import MODES
from xbench.converters import temporary
from xbench.proof import probes
from xbench.proof.conformance_cell import Bench, Finding, cell
from xbench.proof.prove import prove
from xbench.proof.record import base
from xbench.runtimes import is_ours, row_of
from xbench.workers.worker import Worker, WorkerFailure

CHECKS = {
    "result": "what it computes is the network: against float64, on two inputs, in every mode",
    "timed": "what is timed does the work: outputs, gradients, weights, statistics, the optimizer's arrays",
    "clock": "the seconds it tells are those that pass",
    "begins": "putting inputs on the device computes nothing",
    "complete": "the result is complete when `wait` returns",
    "fresh": "inputs it has seen cost what others do, and new values in old arrays count",
    "random": "with dropout two runs of one input differ",
    "threads": "it uses no more CPUs than it was told threads",
    "idle": "its threads sleep while nothing is asked of it",
    "placement": "it runs on the device it was told",
    "physical": "it does not compute faster than this machine can",
    "deterministic": "two runs of one input give the same bits",
    "precision": "float32 keeps its 24 bits in a convolution and in a matrix product",
    "resident": "inputs that lie on the device are not copied inside the clock",
    "steady": "after hundreds of steps it is as fast as in a new process, and as right",
}
PROBES = ("precision", "resident", "steady")
WARM, AGE, BLOCK, ROUNDS = 1.0, 1.5, 0.05, 8  # seconds, and rounds of one block each
PAIRS = 3  # of processes that must agree before an adapter is reported to slow down
SLOWER = 1.1  # ratio to a new process that noise does not explain


def modes(runtime: str) -> list[str]:
    """The modes to test of a runtime: all it has; of our own, those that do not take minutes to prepare."""
    row = row_of(runtime)
    left_out = row.on_request if is_ours(runtime) else ()
    return [mode for mode in MODES if mode == "forward" or (row.autodiff and mode not in left_out)]


def examine(bench: Bench, say: Callable[[str], None]) -> Iterator[Finding]:
    """All checks, as they finish. If the forward pass is wrong, or not over when the clock stops, the rest is
    skipped."""
    for mode in modes(bench.runtime):
        say(f"{mode}: proof and audit")
        findings = list(cell(bench, mode, say))
        if mode != "forward":
            known = [each for each in cell(bench, mode, say, "norm") if each.check in ("result", "timed")]
            findings += [each for each in known if each.held is not True]
        yield from findings
        faults = {each.fault for each in findings if each.check in ("result", "complete") and not each.held}
        if mode == "forward" and faults:
            if faults == {"precision"}:
                yield from _probes(bench)
            return
    say("forward: precision, copies")
    yield from _probes(bench)
    say("forward: again after hundreds of steps")
    yield _steady(bench)


def _probes(bench: Bench) -> Iterator[Finding]:
    """The bits of a number that survive, and the time of a step that reads a small part of a large input."""
    worker = bench.worker("probes")
    try:
        with temporary.folder() as folder:
            images, (rows,) = probes.images(), probes.rows()
            given, _ = _answers(bench, worker, "numeric", images, folder)
            if [a.shape for a in given] != [a.shape for a in images]:
                yield Finding(
                    "precision", "forward", False, "missing_output", "its two outputs are not those of the graph"
                )
                return
            yield _precision(given, images)
            _, times = _answers(bench, worker, "slim", [rows], folder)
            yield _resident(times, _copying(rows), row_of(bench.runtime).copies)
    except WorkerFailure as failure:
        lacks = failure.status == "UNSUPPORTED"
        yield Finding("precision", "forward", None if lacks else False, None if lacks else "failed", failure.message)
    finally:
        worker.stop()


def _answers(
    bench: Bench, worker: Worker, name: str, inputs: list[np.ndarray], folder: Path
) -> tuple[list[np.ndarray], dict[str, float]]:
    """The outputs of a probe on inputs, in the worker, and the seconds it took."""
    request, given = folder / "asked.npz", folder / "given.npz"
    np.savez(request, *inputs)
    settings = {"runtime": bench.runtime, "device": bench.device, "threads": bench.threads}
    artifact = str(bench.artifact(name).folder)
    times = worker.call("respond", bench.timeout, artifact=artifact, inputs=str(request), path=str(given), **settings)
    with np.load(given, allow_pickle=False) as file:
        return [file[key] for key in file.files], times


def _precision(given: list[np.ndarray], expected: list[np.ndarray]) -> Finding:
    kept = [probes.bits(a, b) for a, b in zip(given, expected, strict=True)]
    words = f"{kept[0]} of 24 bits come through a convolution, {kept[1]} through a matrix product"
    kind = probes.kind_of(min(kept))
    good = kind == "float32"
    return Finding("precision", "forward", good, None if good else "precision", f"{words}{'' if good else f': {kind}'}")


def _copying(rows: np.ndarray) -> float:
    """Seconds this machine takes to copy an array."""
    target, times = np.empty_like(rows), []
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(target, rows)
        times.append(time.perf_counter() - start)
    return min(times)


def _resident(times: dict[str, float], copy: float, declared: bool = False) -> Finding:
    if times["forward_s"] < copy / 2:
        return Finding("resident", "forward", True)
    if declared:
        return Finding(
            "resident", "forward", None, None, "its interface copies the inputs of every call; that is timed"
        )
    words = (
        f"a step that reads 2 kB of 32 MiB takes {times['forward_s'] * 1e3:.3g} ms; copying them, {copy * 1e3:.3g} ms"
    )
    return Finding("resident", "forward", False, "copies_inputs", f"copies inputs inside the clock: {words}")


def _steady(bench: Bench) -> Finding:
    """Whether a process that has run steps for a while is as fast as a new one.

    Two processes of one program may differ all their life, sometimes by a tenth, whatever their age. So what looks slow
    is measured again with new pairs, and counts only if each of them shows it.
    """
    for _ in range(PAIRS):
        try:
            ratios = _aged_by_new(bench)
        except WorkerFailure as failure:
            return Finding("steady", "forward", False, "changes", failure.message)
        if np.median(ratios) < SLOWER or np.quantile(ratios, 0.25) < 1:
            return Finding("steady", "forward", True)
    words = f"{np.median(ratios):.2f} times as slow as in a new process"
    return Finding("steady", "forward", False, "slows_down", words)


def _aged_by_new(bench: Bench) -> list[float]:
    """The fastest step of a process that has run a while over that of a new one, once per round; they take turns.

    Raises:
        WorkerFailure: one of them failed, or became wrong.
    """
    case, artifact, workers = bench.case("forward"), bench.artifact("work"), [bench.worker("aged"), bench.worker("new")]
    blocks: list[list[float]] = [[], []]
    try:
        for worker in workers:
            prove(base(case, artifact, "kit"), case, artifact, bench.exporter, worker, bench.timeout, [case.batch] * 2)
            worker.call("arm", bench.timeout, plane=case.plane)
            worker.call("warm", bench.timeout, seconds=WARM)
            if worker is workers[0]:
                worker.call("block", bench.timeout, seconds=AGE, limit=10**6, seed=0)
            worker.pause()
        for number in range(ROUNDS):
            for worker, kept in zip(workers, blocks, strict=True):
                worker.resume()
                block = worker.call("block", bench.timeout, seconds=BLOCK, limit=10**6, seed=number)
                worker.pause()
                kept.append(min(block["samples"]))  # the least disturbed step
    finally:
        for worker in workers:
            worker.stop()
    return [aged / new for aged, new in zip(*blocks, strict=True)]
