"""One comparison: all cells that differ in the runtime alone, proved first, then timed in interleaved blocks.

The workers of all cells are alive at once, exactly one awake. A round gives every cell one block, in random order, so
that a drift of the machine meets all of them alike; ratios are later taken round by round. A cell ends when its
interval is narrow enough or its budget is spent, and is recorded at once.
"""

import itertools
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xbench.bench import Case, XBenchError, contracts, cost, digest, machine
from xbench.bench.prepare import Exporter
from xbench.bench.proof import located, outcome, prove
from xbench.bench.record import Record, base, impossible
from xbench.bench.statistics import median_interval, relative_half_width
from xbench.bench.worker import Worker, WorkerFailure
from xbench.converters.artifact import Artifact
from xbench.runtimes import parse, table


@dataclass(frozen=True)
class Protocol:
    """How long and how exactly to time: `budget` is the seconds of sampling a cell, and at most as many of warming up;
    `target` is the half width of the interval over the median."""

    budget: float = 2.0
    target: float = 0.02
    timeout: float = 600.0
    min_blocks: int = 6
    max_samples: int = 200
    memory: int = 3 * 2**30

    @property
    def block(self) -> float:
        return self.budget / 15

    @property
    def audit(self) -> float:
        return self.budget / 15


@dataclass
class Open:
    """A cell whose worker is alive and proved equal."""

    case: Case
    record: Record
    worker: Worker
    blocks: list[dict[str, Any]] = field(default_factory=list)
    spent: float = 0.0
    cpu: float = 0.0
    wall: float = 0.0


def run(
    cases: Sequence[Case],
    artifact: Artifact,
    exporter: Exporter,
    protocol: Protocol,
    logs: Path,
    say: Callable[[str], None],
) -> Iterator[Record]:
    """Proves and times the cells of one group; yields each record as soon as it is final."""
    session, waiting = uuid.uuid4().hex[:12], list(cases)
    while waiting:
        alive: list[Open] = []
        try:
            while waiting and (not alive or machine.available_memory() > protocol.memory):
                case = waiting.pop(0)
                say(f"{case.runtime}: load, compile, check")
                cell = _open(case, base(case, artifact, session), artifact, exporter, protocol, logs)
                if isinstance(cell, Open):
                    alive.append(cell)
                else:
                    yield cell
            yield from _rounds(alive, protocol, say)
        finally:
            for cell in alive:
                cell.worker.stop()


def _open(
    case: Case, record: Record, artifact: Artifact, exporter: Exporter, protocol: Protocol, logs: Path
) -> Open | Record:
    """An open cell, or the record of why there is none."""
    if reason := impossible(case, artifact):
        return record | {"status": "UNSUPPORTED", "message": reason}
    worker = Worker(logs / f"{digest(case.runtime, case.mode)}.log", case.device, case.threads)
    try:
        batches = [case.batch, case.batch]
        record, opening = prove(record, case, artifact, exporter, worker, protocol.timeout, batches)
        if record["status"] != "PASS":
            worker.stop()
            return located(record, case, artifact, exporter, protocol.timeout)
        worker.call("arm", protocol.timeout, plane=case.plane)
        facts, kept = contracts.audited(worker, case, protocol.timeout, protocol.audit)
        words = "; ".join(filter(None, (record["message"], *contracts.told(kept))))
        record |= {"contracts": contracts.as_dicts(kept), "audit": facts, "message": words or None}
        if reason := contracts.broken(kept, table()[parse(case.runtime)[0]].hidden):
            worker.stop()
            return record | {"status": "FAIL", "message": reason}
        warmup = worker.call("warm", protocol.timeout, seconds=protocol.budget)
        worker.pause()
        return Open(case, record | {"times": opening | {"warmup": warmup}}, worker)
    except WorkerFailure as failure:
        worker.stop()
        failed = record | outcome(failure)
        return located(failed, case, artifact, exporter, protocol.timeout) if failure.status == "CRASH" else failed
    except XBenchError as error:
        worker.stop()
        return record | {"status": "UNVERIFIED", "message": str(error)}
    except BaseException:
        worker.stop()
        raise


def _rounds(alive: list[Open], protocol: Protocol, say: Callable[[str], None]) -> Iterator[Record]:
    """Gives every cell a block a round until each has converged or spent its budget."""
    shuffle = random.Random(0).shuffle
    for number in itertools.count():
        if not alive:
            return
        shuffle(alive)
        for cell in list(alive):
            say(f"{cell.case.runtime}: round {number + 1}")
            try:
                _block(cell, number, protocol)
                final = _finished(cell, protocol)
            except WorkerFailure as failure:
                final = cell.record | {"times": None} | outcome(failure)
            if final:
                alive.remove(cell)
                if final["status"] == "PASS":
                    final = final | {"cost": cost.whole(cell.case, cell.worker, protocol.timeout, say)}
                cell.worker.stop()
                yield final


def _block(cell: Open, number: int, protocol: Protocol) -> None:
    cell.worker.resume()
    result = cell.worker.call("block", protocol.timeout, seconds=protocol.block, limit=protocol.max_samples)
    cell.worker.pause()
    cell.blocks.append({"round": number, "samples": result["samples"], "lead": result["lead"]})
    cell.spent += sum(result["samples"]) + sum(result["lead"])
    cell.cpu, cell.wall = cell.cpu + result["cpu_s"], cell.wall + result["wall_s"]


def _finished(cell: Open, protocol: Protocol) -> Record | None:
    """The final record, or None while more blocks are wanted."""
    out_of_budget = cell.spent >= protocol.budget and len(cell.blocks) >= 3
    enough = len(cell.blocks) >= protocol.min_blocks
    long_step = cell.spent >= 4 * protocol.budget  # a step longer than the budget: stop with what there is
    if not (out_of_budget or enough or long_step):
        return None
    interval = median_interval([block["samples"] for block in cell.blocks], np.random.default_rng(0))
    width = relative_half_width(interval)
    converged = enough and width <= protocol.target
    if not (converged or out_of_budget or long_step):
        return None
    times = cell.record["times"] | {
        "median_s": interval.median,
        "low_s": interval.low,
        "high_s": interval.high,
        "converged": converged,
        "blocks": cell.blocks,
        "cpus": cell.cpu / cell.wall if cell.wall else None,
    }
    return cell.record | {"times": times}
