"""One comparison: all cells that differ only in the runtime, proved first, then timed in interleaved blocks.

The workers of all cells are alive at once, exactly one awake. They are opened in random order: on some machines the
last is faster for as long as it lives. A round gives every cell one block, in random order, so that a drift of the
machine affects all of them alike; ratios are later taken round by round. A disturbed block is reported
and run again. A cell's process ends when its interval is narrow enough or its budget is spent; with
several processes (`Protocol.processes`) the cells are then opened again, for as many rounds. A cell is recorded at once
when its last process has ended.
"""

import itertools
import random
import statistics
import uuid
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from xbench.case import Case
from xbench.converters.artifact import Artifact
from xbench.experiments.evaluate import Evaluate
from xbench.experiments.experiment import Experiment, Lab
from xbench.experiments.rounds import Open, rounds
from xbench.experiments.settings import Protocol
from xbench.host import machine
from xbench.proof import contracts, physics
from xbench.proof.open_cell import failed, opened
from xbench.proof.record import base, key
from xbench.proof.timed import Judge
from xbench.stats.ratio import median_over_processes
from xbench.stats.series import WINDOW, drift, resemblance, steady_from
from xbench.stats.statistics import relative_half_width
from xbench.store import results
from xbench.store.record import NOTHING, Record, completed, known
from xbench.workers.prepare import Exporter
from xbench.workers.samples import OwnSamples
from xbench.workers.worker import WorkerFailure


@dataclass(frozen=True)
class Time(Experiment):
    """One record per cell; cells that differ only in the runtime are timed together. Cells that compute on the samples
    of an `evaluation` are calibrated as the network that it judges, on the batches of its own size."""

    name: ClassVar[str] = "time"
    file: ClassVar[str] = results.FILE

    protocol: Protocol
    evaluation: tuple[Evaluate, int] | None = field(default=None, kw_only=True)

    def samples(self, case: Case, artifact: Artifact, lab: Lab) -> OwnSamples | None:
        if self.evaluation is None or case.own != self.evaluation[0].inputs:
            return super().samples(case, artifact, lab)
        evaluate, batch = self.evaluation
        given = evaluate.samples(case, artifact, lab)
        return replace(given, calibration=evaluate.samples(replace(case, batch=batch), artifact, lab).calibration)

    def group(self, case: Case) -> Hashable:
        return case.group

    def keys(self, case: Case, artifact: Artifact, lab: Lab) -> Sequence[str]:
        return [key(case, artifact)]

    def measure(self, cases: Sequence[Case], wanted: Collection[str], artifact: Artifact, lab: Lab) -> Iterator[Record]:
        return run(cases, artifact, lab.exporter, self.protocol, lab.logs, lab.progress.say)

    def line(self, record: Record) -> str:
        case, times = record["case"], record["times"]
        name = f"{case['model']} {case['runtime']} {case['mode']}"
        if not times:
            return f"{name}: {record['status']}: {record['message']}"
        converged = "" if times["converged"] else ", not converged"
        return f"{name}: {record['status']}, {times['median_s'] * 1e3:.3f} ms{converged}"


def run(
    cases: Sequence[Case],
    artifact: Artifact,
    exporter: Exporter,
    protocol: Protocol,
    logs: Path,
    say: Callable[[str], None],
) -> Iterator[Record]:
    """Verifies and times the cells of one group; yields each record once it is final."""
    session = uuid.uuid4().hex[:12]
    shuffle = random.Random(session).shuffle
    waiting = in_order(cases, 0, session)
    judge = Judge(artifact, exporter, session, logs)

    def begin(case: Case) -> "Open | Record":
        say(f"{case.runtime}: load, compile, check")
        return warmed(case, base(case, artifact, session, protocol.words), artifact, exporter, protocol, logs)

    while waiting:
        alive: list[Open] = []
        numbers = itertools.count()
        try:
            while waiting and (not alive or machine.available_memory() > protocol.memory):
                cell = begin(waiting.pop(0))
                if isinstance(cell, Open):
                    alive.append(cell)
                else:
                    yield cell
            for left in reversed(range(protocol.processes)):
                timed: list[Open] = []
                for ended in rounds(alive, numbers, protocol, judge, say, shuffle):
                    if isinstance(ended, Open):
                        timed.append(ended)
                    if not (isinstance(ended, Open) and left):
                        yield _final(ended, protocol) if isinstance(ended, Open) else ended
                before = {cell.case: cell for cell in timed if left}
                for case in in_order(before, protocol.processes - left, session):
                    cell = begin(case)
                    if isinstance(cell, Open):
                        alive.append(_continued(cell, before[case]))
                    else:
                        yield cell
        finally:
            for cell in alive:
                cell.worker.stop()


def in_order(cases: Iterable[Case], process: int, session: str) -> list[Case]:
    """The order in which the cases' processes of this number are opened: random, and every second time the previous
    order reversed, so that the gain of being last and the loss of being first cancel."""
    order = sorted(cases, key=astuple)
    random.Random(f"{session} {process // 2}").shuffle(order)
    return order[::-1] if process % 2 else order


def _continued(cell: Open, before: Open) -> Open:
    """A cell in a new process, with results of earlier ones."""
    cell.processes, cell.blocks = before.processes + cell.processes, before.blocks
    cell.repeated, cell.cpu, cell.wall = before.repeated, before.cpu, before.wall
    return cell


def warmed(
    case: Case, record: Record, artifact: Artifact, exporter: Exporter, protocol: Protocol, logs: Path
) -> Open | Record:
    """A warmed-up cell, or the record of its failure."""
    record, worker = opened(case, record, artifact, exporter, protocol.timeout, protocol.audit, logs)
    if worker is None:
        return record
    try:
        warmup = worker.call("warm", protocol.timeout, seconds=protocol.budget)
        worker.pause()
        first = {**known(record["times"]), "warmup": warmup, "steady_from": steady_from(warmup)}
        return Open(case, record | {"times": None}, worker, [first])
    except WorkerFailure as failure:
        worker.stop()
        return failed(record, failure, case, artifact, exporter, protocol.timeout)
    except BaseException:
        worker.stop()
        raise


def _final(cell: Open, protocol: Protocol) -> Record:
    """The record of a cell whose last process has ended."""
    interval = median_over_processes(cell.blocks, np.random.default_rng(0))
    medians = [
        [statistics.median(each["samples"]) for each in cell.blocks if each["process"] == number]
        for number in range(len(cell.processes))
    ]
    drifts = [drift(series) or 0.0 for series in medians]
    compiled, cold = ([each[name] for each in cell.processes] for name in ("compile_s", "anew_s"))
    times = {
        "load_s": statistics.median(each["load_s"] for each in cell.processes),
        "compile_s": None if None in compiled else statistics.median(compiled),
        "first_s": statistics.median(each["first_s"] for each in cell.processes),
        "anew_s": None if None in cold else statistics.median(cold),
        "median_s": interval.median,
        "low_s": interval.low,
        "high_s": interval.high,
        "converged": len(cell.blocks) >= protocol.blocks and relative_half_width(interval) <= protocol.target,
        "drift": max(drifts, key=abs),
        "resemblance": max(resemblance(series) for series in medians),
        "processes": cell.processes,
        "blocks": cell.blocks,
        "repeated": cell.repeated,
        "cpus": cell.cpu / cell.wall if cell.wall else None,
    }
    physical = {"physical": physics.judge(_computing(cell), cell.record["cost"], times["median_s"])}
    known(cell.record["contracts"]).update(contracts.as_dicts(physical))
    if reason := contracts.broken(physical, cell.case.runtime):
        return cell.record | {"status": "FAIL", "message": reason}
    words = "; ".join(filter(None, (cell.record["message"], *_remarks(times, protocol))))
    return completed(cell.record, {"times": times, "message": words or None})


def _computing(cell: Open) -> Case:
    """The case in the precision of its computation: a file may have 16 bits itself."""
    narrow = (cell.record["parity"] or NOTHING).get("class", "fp32") != "fp32"
    return replace(cell.case, precision="fp16") if narrow and cell.case.precision == "fp32" else cell.case


def _remarks(times: dict[str, Any], protocol: Protocol) -> Iterator[str]:
    """Remarks for readers of the times."""
    long = [each for each in times["processes"] if len(each["warmup"]) >= 2 * WINDOW]  # fewer steps show nothing
    if any(each["steady_from"] is None for each in long):
        yield "was not steady when its warm-up ended"
    if abs(times["drift"]) > protocol.target:
        yield f"{'rose' if times['drift'] > 0 else 'fell'} by {abs(times['drift']):.0%} while it was timed"
    if times["anew_s"] is None:
        yield "found on disk what its first call compiles, written by none that was measured"
    reasons = [each["disturbed"] for each in times["blocks"] if each["disturbed"]]
    if 4 * len(reasons) > len(times["blocks"]):
        yield f"{len(reasons)} of {len(times['blocks'])} blocks were disturbed: {reasons[0]}"
