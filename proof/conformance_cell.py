"""One cell of the conformance tests: an adapter on a small network in one mode, proved, audited and timed as usual."""

import contextlib
import statistics
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from xbench.case import Case
from xbench.converters.artifact import Artifact
from xbench.converters.source import with_options
from xbench.errors import XBenchError
from xbench.proof import contracts, physics, probes
from xbench.proof.explain import explain
from xbench.proof.prove import outcome, prove
from xbench.proof.record import base, impossible
from xbench.proof.timed import Judge, Looks, contracts_of
from xbench.proof.watch import Watch
from xbench.store.record import Record
from xbench.workers import cost
from xbench.workers.prepare import Exporter
from xbench.workers.worker import Worker, WorkerFailure, worker_of

DROPOUT = "dropout_on"  # a mistake of parity/explain, recognised by its zeros
AUDIT = 0.2  # seconds
PATIENCE = 3.0  # seconds: long, because no timing waits for it, and adapters as slow as NumPy are asked everything too
TURNS, STEPS = 12, 8  # blocks that are judged, and the steps counted in each
OPTIMIZER = "sgd,lr=0.01,momentum=0.9"  # its state between steps is judged too


@dataclass(frozen=True)
class Finding:
    """One check in one mode. `held` is None if it could not be checked; `fault` is a name of the fault for scripts."""

    check: str
    mode: str
    held: bool | None
    fault: str | None = None
    says: str | None = None


@dataclass(frozen=True)
class Bench:
    """Shared settings and resources of the checks of one adapter."""

    runtime: str
    device: str
    threads: int
    exporter: Exporter
    models: dict[str, Path]
    logs: Path
    timeout: float

    def case(self, mode: str, model: str = "work") -> Case:
        return Case(self.word(model), self.runtime, mode, probes.BATCH, self.device, self.threads)

    def artifact(self, name: str) -> Artifact:
        return self.exporter.artifact(self.word(name))

    def word(self, name: str) -> str:
        return with_options(str(self.models[name]), [], [], OPTIMIZER)

    def worker(self, name: str) -> Worker:
        return worker_of(self.case("forward"), self.logs / f"{name}.log")


def cell(bench: Bench, mode: str, say: Callable[[str], None], model: str = "work") -> Iterator[Finding]:
    """Proves one mode, audits the opened worker, and judges timed blocks."""
    case, artifact = bench.case(mode, model), bench.artifact(model)
    record, worker = base(case, artifact, "kit"), bench.worker(mode)
    if reason := impossible(case, artifact):
        yield Finding("result", mode, None, says=reason)
        return
    kept: dict[str, contracts.Contract] = {}
    try:
        record, _ = prove(record, case, artifact, bench.exporter, worker, bench.timeout, [case.batch, case.batch])
        worker.call("arm", bench.timeout, plane=case.plane)
        facts, kept = contracts.audited(worker, case, bench.timeout, AUDIT, PATIENCE)
        if kept["clock"].held is not False:
            kept |= _timed_or_wrong(bench, case, artifact, worker, facts, say)
    except WorkerFailure as failure:
        record |= outcome(failure)
    finally:
        worker.stop()
    if record["status"] != "PASS" and bench.exporter.renewed(artifact):
        yield from cell(bench, mode, say, model)
        return
    if record["status"] == "FAIL":
        say(f"{mode}: what does the failure look like?")
    yield _result(bench, case, artifact, record, kept)
    for name, contract in kept.items():
        yield Finding(name, mode, contract.held, None if contract.held is not False else name, contract.says)


def _timed_or_wrong(
    bench: Bench, case: Case, artifact: Artifact, worker: Worker, facts: contracts.Facts, say: Callable[[str], None]
) -> dict[str, contracts.Contract]:
    """Like `_timed`; a result that the worker itself finds wrong breaks the promise too."""
    try:
        return _timed(bench, case, artifact, worker, facts, say)
    except WorkerFailure as failure:
        if failure.status != "FAIL":
            raise
        return {"timed": contracts.Contract(False, failure.message)}


def _timed(
    bench: Bench, case: Case, artifact: Artifact, worker: Worker, facts: contracts.Facts, say: Callable[[str], None]
) -> dict[str, contracts.Contract]:
    """Checks the promises on timed blocks, as some adapters behave differently when timed; ends the worker. Blocks
    have a fixed number of steps, so that a busy machine hides nothing."""
    judge, looks, watch = Judge(artifact, bench.exporter, uuid.uuid4().hex, bench.logs), Looks(), Watch()
    samples, kept = list[float](), dict[str, contracts.Contract]()
    for number in range(TURNS):
        block = worker.call("block", bench.timeout, seconds=PATIENCE, limit=STEPS, seed=judge.seed(number), share=1.0)
        passed = worker.passed
        looks.add(block)
        samples += block["samples"]
        asks = judge.asks(case, number, number + 1 == TURNS)
        states = judge.take(case, worker, bench.timeout, looks) if asks else []
        worker.pause()
        kept |= watch.look(case, worker, block, passed)
        judge.judge(number, states)
        looks.states += states
        worker.resume()
    step = statistics.median(samples)
    kept |= contracts_of(case, facts, looks, step)
    return kept | {"physical": physics.judge(case, cost.whole(case, worker, bench.timeout, say), step)}


def _result(
    bench: Bench, case: Case, artifact: Artifact, record: Record, kept: dict[str, contracts.Contract]
) -> Finding:
    """The verdict of a proof; a failure with the name of the fault."""
    if record["status"] in ("PASS", "UNSUPPORTED"):
        return Finding("result", case.mode, record["status"] == "PASS" or None, says=record["message"])
    random = bool(kept) and kept["deterministic"].held is False
    fault, words = _fault(bench, case, artifact, record, random)
    return Finding("result", case.mode, False, fault, f"{record['message']}{words}")


def _fault(bench: Bench, case: Case, artifact: Artifact, record: Record, random: bool) -> tuple[str, str]:
    """The name of the fault of a wrong result, and words to add to the record's message."""
    parity = record["parity"]
    if not parity:
        faults = {"outputs": "missing_output", "where the graph says": "wrong_type", "not an array": "wrong_type"}
        return next((fault for words, fault in faults.items() if words in str(record["message"])), "failed"), ""
    if parity["class"] == "fp32":  # it failed after its proof
        return "failed", ""
    if parity["ratio"] is None:
        return "not_finite", ""
    known = []
    if random or parity["class"] == "wrong":
        with contextlib.suppress(XBenchError):
            known = explain(case, artifact, parity["first_wrong"], bench.exporter, bench.timeout, bench.logs)
    if random:  # any other explanation of one draw does not explain the next
        known = [each for each in known if each["mistake"] == DROPOUT]
    if known:
        return known[0]["mistake"], f": {known[0]['says']}"
    if random:
        return "random", ": and another time otherwise"
    if parity["class"] == "wrong":
        return "wrong", ""
    return "precision", f": as {'TF32' if parity['class'] == 'tf32' else 'float16 or bfloat16'} would be"
