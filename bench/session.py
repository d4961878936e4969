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

from xbench.bench import AUTO, Case, XBenchError, digest, machine
from xbench.bench.prepare import Exporter
from xbench.bench.record import Record, base, impossible
from xbench.bench.statistics import median_interval, relative_half_width
from xbench.bench.worker import Worker, WorkerFailure
from xbench.converters.artifact import Artifact

SEEDS = (0, 1, 2)  # the third decides where the first two disagree


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


def prove(
    record: Record,
    case: Case,
    artifact: Artifact,
    exporter: Exporter,
    worker: Worker,
    timeout: float,
    batches: Sequence[int],
) -> tuple[Record, dict[str, Any]]:
    """Opens the cell in a worker and compares it with the oracle on several seeds; returns the record with the verdict,
    and the times of the opening.

    A verdict is the worst of two seeds. Where they disagree in training a third decides: rounding that carries the
    input of a ReLU across its kink changes a gradient visibly, but not on two seeds out of three; a wrong network is
    wrong on all. The ratios of all seeds are in the verdict.
    """
    paths = [
        str(exporter.reference(artifact, case.mode, batch, seed, case.data))
        for seed, batch in zip(SEEDS[:2], batches, strict=True)
    ]
    opening = worker.call(
        "open_cell",
        timeout,
        artifact=str(artifact.folder),
        runtime=case.runtime,
        mode=case.mode,
        device=case.device,
        threads=case.threads,
        layout=case.layout,
        references=paths,
    )
    verdicts = [worker.call("check", timeout, index=index) for index in range(len(paths))]
    ratios = [v["ratio"] for v in verdicts]
    passed = [v for v in verdicts if v["status"] == "PASS"]
    if case.mode != "forward" and len(passed) == 1 and all(v["ratio"] is not None for v in verdicts):
        path = str(exporter.reference(artifact, case.mode, batches[0], SEEDS[2], case.data))
        verdicts.append(worker.call("check_more", timeout, path=path))
        passed = [v for v in verdicts if v["status"] == "PASS"]
        ratios.append(verdicts[-1]["ratio"])
        verdicts = passed if len(passed) == 2 else verdicts
    worst = max(verdicts, key=lambda v: (v["status"] != "PASS", v["ratio"] is None, v["ratio"] or 0.0))
    found = {"status": worst["status"], "message": worst["message"], "parity": worst | {"seeds": ratios}}
    chosen = opening["layout"]
    if chosen:  # shown beside the runtime's name
        found["note"] = ", ".join(filter(None, (record["note"], chosen["chosen"])))
    found |= {"layout": chosen, "versions": record["versions"] | opening["versions"]}
    return record | found, opening["times"]


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
        if record["status"] == "PASS":
            warmup = worker.call("warm", protocol.timeout, plane=case.plane, seconds=protocol.budget)
            worker.pause()
            return Open(case, record | {"times": opening | {"warmup": warmup}}, worker)
        worker.stop()
        return located(record, case, artifact, exporter, protocol.timeout)
    except WorkerFailure as failure:
        worker.stop()
        failed = record | _outcome(failure)
        return located(failed, case, artifact, exporter, protocol.timeout) if failure.status == "CRASH" else failed
    except XBenchError as error:
        worker.stop()
        return record | {"status": "UNVERIFIED", "message": str(error)}
    except BaseException:
        worker.stop()
        raise


def verify(case: Case, artifact: Artifact, exporter: Exporter, protocol: Protocol, logs: Path) -> Record:
    """The record of a parity check without times; forward is compared on two batch sizes."""
    record = base(case, artifact, "check")
    if reason := impossible(case, artifact):
        return record | {"status": "UNSUPPORTED", "message": reason}
    worker = Worker(logs / f"{digest(case.runtime, case.mode)}.log", case.device, case.threads)
    batches = [case.batch, case.batch + (case.mode == "forward")]
    try:
        record, _ = prove(record, case, artifact, exporter, worker, protocol.timeout, batches)
        record["certificate"] = certificate = worker.call("certify", protocol.timeout)
        if record["status"] == "PASS" and certificate["different"]:
            message = f"{len(certificate['different'])} parameters differ, the first {certificate['different'][0]}"
            record |= {"status": "FAIL", "message": message}
    except WorkerFailure as failure:
        record = record | _outcome(failure)
    except XBenchError as error:
        record = record | {"status": "UNVERIFIED", "message": str(error)}
    finally:
        worker.stop()
    return (
        located(record, case, artifact, exporter, protocol.timeout) if record["status"] in ("FAIL", "CRASH") else record
    )


def _outcome(failure: WorkerFailure) -> Record:
    """The status and the line of a failed job; what the user can mend is no fault of the runtime."""
    status = "UNVERIFIED" if failure.status == "ERROR" else failure.status
    return {"status": status, "message": failure.message}


def located(record: Record, case: Case, artifact: Artifact, exporter: Exporter, timeout: float) -> Record:
    """Adds the first wrong ONNX tensor, and says it in the message."""
    layout = (record.get("layout") or {}).get("chosen", "nchw" if case.layout == AUTO else case.layout)
    try:
        tensor = exporter.first_wrong(artifact, case, layout, timeout)
    except (WorkerFailure, XBenchError):
        tensor = None
    parity = dict(record["parity"] or {})
    tensor = tensor or parity.get("first_wrong")
    if not tensor:
        return record
    return record | {
        "parity": parity | {"first_wrong": tensor},
        "message": f"{record['message']}; first wrong tensor: {tensor}",
    }


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
                final = cell.record | {"times": None} | _outcome(failure)
            if final:
                alive.remove(cell)
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
