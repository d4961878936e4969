"""The fault kit: does an adapter compute what it should, and is its time what it seems? `xbench plugin test`.

The adapter runs small networks (`probes.py`) in a worker as every cell does: proved in every mode it has, then audited
(`contracts.py`). Three more questions are asked of forward alone: how many bits of a number come through, whether
inputs that lie on the device are copied again, and whether it is as fast after hundreds of steps as a new process is.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xbench.bench import MODES, Case, XBenchError, contracts, probes
from xbench.bench.explain import explain
from xbench.bench.prepare import Exporter
from xbench.bench.proof import outcome, prove
from xbench.bench.record import Record, base, impossible
from xbench.bench.worker import Worker, WorkerFailure
from xbench.converters.artifact import Artifact
from xbench.runtimes import _configuration, is_ours, parse, table

CHECKS = {
    "result": "what it computes is the network: against float64, on two inputs, in every mode",
    "begins": "putting inputs on the device computes nothing",
    "complete": "the result is complete when `wait` returns",
    "fresh": "inputs it has seen cost what others do, and new values in old arrays count",
    "threads": "it uses no more CPUs than it was told threads",
    "idle": "its threads sleep while nothing is asked of it",
    "placement": "it runs on the device it was told",
    "deterministic": "two runs of one input give the same bits",
    "precision": "float32 keeps its 24 bits in a convolution and in a matrix product",
    "resident": "inputs that lie on the device are not copied inside the clock",
    "steady": "after hundreds of steps it is as fast as in a new process, and as right",
}
DROPOUT = "dropout_on"  # of parity/explain: told by its zeros
PROBES = ("precision", "resident", "steady")
WARM, AUDIT, AGE, BLOCK, ROUNDS = 1.0, 0.2, 1.5, 0.05, 8  # seconds, and rounds of one block each
PATIENCE = 3.0  # seconds: no time waits for the kit, which asks everything of adapters as slow as NumPy, too
PAIRS = 3  # of processes that must agree before an adapter is said to slow down
SLOWER = 1.1  # times as slow as a new process is what no noise excuses


@dataclass(frozen=True)
class Finding:
    """One check in one mode. `held` is None where it could not be asked; `fault` names what was found, for scripts."""

    check: str
    mode: str
    held: bool | None
    fault: str | None = None
    says: str | None = None


@dataclass(frozen=True)
class Bench:
    """What the checks of one adapter share."""

    runtime: str
    device: str
    threads: int
    exporter: Exporter
    models: dict[str, Path]
    logs: Path
    timeout: float

    def case(self, mode: str) -> Case:
        return Case(str(self.models["work"]), self.runtime, mode, probes.BATCH, self.device, self.threads)

    def artifact(self, name: str) -> Artifact:
        return self.exporter.artifact(str(self.models[name]))

    def worker(self, name: str) -> Worker:
        return Worker(self.logs / f"{name}.log", self.device, self.threads, _configuration.worker(self.runtime))


def modes(runtime: str) -> list[str]:
    """The modes that are asked of a runtime: all that it has; of ours, those that do not take minutes to prepare."""
    row = table()[parse(runtime)[0]]
    left_out = row.on_request if is_ours(runtime) else ()
    return [mode for mode in MODES if mode == "forward" or (row.autodiff and mode not in left_out)]


def examine(bench: Bench, say: Callable[[str], None]) -> Iterator[Finding]:
    """All checks, as they come. A runtime whose forward pass is wrong, or not over when the clock stops, is not asked
    the rest."""
    for mode in modes(bench.runtime):
        say(f"{mode}: proof and audit")
        found = list(_cell(bench, mode, say))
        yield from found
        faults = {each.fault for each in found if each.check in ("result", "complete") and not each.held}
        if mode == "forward" and faults:
            if faults == {"precision"}:
                yield from _probes(bench)
            return
    say("forward: precision, copies")
    yield from _probes(bench)
    say("forward: again after hundreds of steps")
    yield _steady(bench)


def _cell(bench: Bench, mode: str, say: Callable[[str], None]) -> Iterator[Finding]:
    """The proof of one mode, and the audit of what was opened for it."""
    case, artifact = bench.case(mode), bench.artifact("work")
    record, worker = base(case, artifact, "kit"), bench.worker(mode)
    if reason := impossible(case, artifact):
        yield Finding("result", mode, None, says=reason)
        return
    kept: dict[str, contracts.Contract] = {}
    try:
        record, _ = prove(record, case, artifact, bench.exporter, worker, bench.timeout, [case.batch, case.batch])
        worker.call("arm", bench.timeout, plane=case.plane)
        _, kept = contracts.audited(worker, case, bench.timeout, AUDIT, PATIENCE)
    except WorkerFailure as failure:
        record |= outcome(failure)
    finally:
        worker.stop()
    if record["status"] == "FAIL":
        say(f"{mode}: what does the failure look like?")
    yield _result(bench, case, artifact, record, kept)
    for name, contract in kept.items():
        yield Finding(name, mode, contract.held, None if contract.held is not False else name, contract.says)


def _result(
    bench: Bench, case: Case, artifact: Artifact, record: Record, kept: dict[str, contracts.Contract]
) -> Finding:
    """The verdict of a proof; a wrong one with the name of what is wrong."""
    if record["status"] in ("PASS", "UNSUPPORTED"):
        return Finding("result", case.mode, record["status"] == "PASS" or None, says=record["message"])
    random = bool(kept) and kept["deterministic"].held is False
    fault, words = _fault(bench, case, artifact, record, random)
    return Finding("result", case.mode, False, fault, f"{record['message']}{words}")


def _fault(bench: Bench, case: Case, artifact: Artifact, record: Record, random: bool) -> tuple[str, str]:
    """The name of a wrong result, and what is to be said of it beside the record's message."""
    parity = record["parity"]
    if not parity:
        faults = {"outputs": "missing_output", "where the graph says": "wrong_type", "not an array": "wrong_type"}
        return next((fault for words, fault in faults.items() if words in str(record["message"])), "failed"), ""
    if parity["class"] == "fp32":  # it broke down behind its proof
        return "failed", ""
    if parity["ratio"] is None:
        return "not_finite", ""
    known = []
    if random or parity["class"] == "wrong":
        with contextlib.suppress(XBenchError):
            known = explain(case, artifact, parity["first_wrong"], bench.exporter, bench.timeout, bench.logs)
    if random:  # whatever else explains one draw does not explain the next
        known = [each for each in known if each["mistake"] == DROPOUT]
    if known:
        return known[0]["mistake"], f": {known[0]['says']}"
    if random:
        return "random", ": and another time otherwise"
    if parity["class"] == "wrong":
        return "wrong", ""
    return "precision", f": as {'TF32' if parity['class'] == 'tf32' else 'float16 or bfloat16'} would be"


def _probes(bench: Bench) -> Iterator[Finding]:
    """The bits of a number that come through, and the time of a step that reads a little of a large input."""
    worker = bench.worker("probes")
    try:
        with tempfile.TemporaryDirectory(prefix="xbench-kit-") as folder:
            images, (rows,) = probes.images(), probes.rows()
            given, _ = _answers(bench, worker, "numeric", images, Path(folder))
            if [a.shape for a in given] != [a.shape for a in images]:
                yield Finding(
                    "precision", "forward", False, "missing_output", "its two outputs are not those of the graph"
                )
                return
            yield _precision(given, images)
            _, times = _answers(bench, worker, "slim", [rows], Path(folder))
            yield _resident(times, _copying(rows))
    except WorkerFailure as failure:
        lacks = failure.status == "UNSUPPORTED"
        yield Finding("precision", "forward", None if lacks else False, None if lacks else "failed", failure.message)
    finally:
        worker.stop()


def _answers(
    bench: Bench, worker: Worker, name: str, inputs: list[np.ndarray], folder: Path
) -> tuple[list[np.ndarray], dict[str, float]]:
    """What a probe gives on inputs, in the worker, and the seconds that it took."""
    asked, given = folder / "asked.npz", folder / "given.npz"
    np.savez(asked, *inputs)
    told = {"runtime": bench.runtime, "device": bench.device, "threads": bench.threads}
    artifact = str(bench.artifact(name).folder)
    times = worker.call("respond", bench.timeout, artifact=artifact, inputs=str(asked), path=str(given), **told)
    with np.load(given, allow_pickle=False) as file:
        return [file[key] for key in file.files], times


def _precision(given: list[np.ndarray], expected: list[np.ndarray]) -> Finding:
    kept = [probes.bits(a, b) for a, b in zip(given, expected, strict=True)]
    words = f"{kept[0]} of 24 bits come through a convolution, {kept[1]} through a matrix product"
    kind = probes.kind_of(min(kept))
    good = kind == "float32"
    return Finding("precision", "forward", good, None if good else "precision", f"{words}{'' if good else f': {kind}'}")


def _copying(rows: np.ndarray) -> float:
    """Seconds in which this machine copies an array."""
    target, times = np.empty_like(rows), []
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(target, rows)
        times.append(time.perf_counter() - start)
    return min(times)


def _resident(times: dict[str, float], copy: float) -> Finding:
    if times["forward_s"] < copy / 2:
        return Finding("resident", "forward", True)
    words = (
        f"a step that reads 2 kB of 32 MiB takes {times['forward_s'] * 1e3:.3g} ms; copying them, {copy * 1e3:.3g} ms"
    )
    return Finding("resident", "forward", False, "copies_inputs", f"copies inputs inside the clock: {words}")


def _steady(bench: Bench) -> Finding:
    """Whether a process that has stepped for a while is as fast as a new one.

    Two processes of one program may differ for as long as they live, now and then by a tenth, whatever their age. So
    what looks slow is asked again of new pairs, and slows down only if each of them says so.
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
    """The fastest step of a process that has stepped for a while, by that of a new one, once a round; they take turns.

    Raises:
        WorkerFailure: one of them gave up, or became wrong.
    """
    case, artifact, workers = bench.case("forward"), bench.artifact("work"), [bench.worker("aged"), bench.worker("new")]
    blocks: list[list[float]] = [[], []]
    try:
        for worker in workers:
            prove(base(case, artifact, "kit"), case, artifact, bench.exporter, worker, bench.timeout, [case.batch] * 2)
            worker.call("arm", bench.timeout, plane=case.plane)
            worker.call("warm", bench.timeout, seconds=WARM)
            if worker is workers[0]:
                worker.call("block", bench.timeout, seconds=AGE, limit=10**6)
            worker.pause()
        for _ in range(ROUNDS):
            for worker, kept in zip(workers, blocks, strict=True):
                worker.resume()
                found = worker.call("block", bench.timeout, seconds=BLOCK, limit=10**6)
                worker.pause()
                kept.append(min(found["samples"]))  # the step that nothing else disturbed
    finally:
        for worker in workers:
            worker.stop()
    return [aged / new for aged, new in zip(*blocks, strict=True)]
