"""Proofs: opens a cell in a worker and compares it with the float64 oracle, before or instead of timing."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from pathlib import Path
from typing import Any

from xbench.case import CALIBRATED, Case, digest
from xbench.converters import damage
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.host import machine
from xbench.proof import kernels
from xbench.proof.bisect.search import first_wrong
from xbench.proof.record import base, impossible
from xbench.proof.tuning import as_opened, settled
from xbench.store.record import NOTHING, Record, completed
from xbench.workers.prepare import Exporter
from xbench.workers.worker import Worker, WorkerFailure, kill_all, worker_of

SEEDS = (0, 1, 2)  # the third decides if the first two disagree
DRAWS = 6  # seeds at most, if float32 itself loses too much on some
MEMORY = 3 * 2**30  # bytes that a cell may take
# Per parameter: a runtime has several copies of them, and there are two references in float64, those of a training step
# with the optimizer's arrays.
BYTES_PER_PARAMETER = {"forward": 16, "gradient": 48, "step": 96}


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

    A verdict is the worst of two seeds. If they disagree in training a third decides: rounding that carries the
    input of a ReLU across its kink changes a gradient visibly, but not on two seeds out of three; a wrong network is
    wrong on all. A seed on which float32 itself loses too much says nothing of the runtime: another takes its place.
    The ratios of all seeds are in the verdict.
    """
    paths = references(case, artifact, exporter, batches)
    opening, choice = opened_in(worker, case, artifact, paths, timeout, ranges(case, artifact, exporter))
    verdicts = _verdicts(case, artifact, exporter, worker, timeout, len(paths), batches[0])
    fields = combined(verdicts, case.steps)
    notes = (opening["tuned"] or record["note"], *choice.pop("notes"))
    fields |= {"note": ", ".join(filter(None, notes)) or None, **choice}
    fields |= {"versions": record["versions"] | opening["versions"]}
    return completed(record, fields), opening["times"]


def combined(verdicts: Sequence[dict[str, Any]], steps: int) -> dict[str, Any]:
    """The fields of a record that follow from the verdicts on its seeds, of which the worst counts."""
    counted = _counted(verdicts)
    worst = max(counted, key=lambda v: (v["status"] != "PASS", v["ratio"] is None, v["ratio"] or 0.0))
    words = (worst["message"], cut_short(worst, steps), _left_out(verdicts, counted))
    parity = worst | {"seeds": [v["ratio"] for v in verdicts]}
    return {"status": worst["status"], "message": "; ".join(filter(None, words)) or None, "parity": parity}


def _verdicts(
    case: Case,
    artifact: Artifact,
    exporter: Exporter,
    worker: Worker,
    timeout: float,
    count: int,
    batch: int,
) -> list[dict[str, Any]]:
    """The verdicts on the references that the cell was opened with, and in training on more as long as they leave it
    open."""
    verdicts = [worker.call("check", timeout, index=index) for index in range(count)]
    while case.mode != "forward" and _is_open(verdicts) and (seed := len(verdicts)) < DRAWS:
        path = exporter.reference(artifact, case.mode, batch, seed, case.data, case.steps, case.precision)
        verdicts.append(worker.call("check_more", timeout, path=str(path)))
    return verdicts


def _is_open(verdicts: Sequence[dict[str, Any]]) -> bool:
    """Whether fewer than two seeds could be judged, though not none of three, or two disagree. An infinite error needs
    no other seed."""
    clear = [v["status"] == "PASS" for v in verdicts if v["status"] != "UNVERIFIED"]
    if not all(v["ratio"] is not None for v in verdicts) or (not clear and len(verdicts) > 2):
        return False
    return len(clear) < 2 or (len(clear) == 2 and sum(clear) == 1)


def _counted(verdicts: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The verdicts that decide."""
    passed = [v for v in verdicts if v["status"] == "PASS"]
    clear = [v for v in verdicts if v["status"] != "UNVERIFIED"]
    return passed if len(passed) == 2 else clear if len(clear) >= 2 else verdicts


def _left_out(verdicts: Sequence[dict[str, Any]], counted: Sequence[dict[str, Any]]) -> str | None:
    """A message on the seeds that could not be judged, if others were in their place."""
    unclear = [v for v in verdicts if v["status"] == "UNVERIFIED"]
    if not unclear or unclear[0] in counted:
        return None
    return f"{len(unclear)} of {len(verdicts)} draws of the inputs cannot be judged: {unclear[0]['message']}"


def references(case: Case, artifact: Artifact, exporter: Exporter, batches: Sequence[int]) -> list[str]:
    """The reference files that a cell is proved on."""
    return [
        str(exporter.reference(artifact, case.mode, batch, seed, case.data, case.steps, case.precision))
        for seed, batch in zip(SEEDS[:2], batches, strict=True)
    ]


def ranges(case: Case, artifact: Artifact, exporter: Exporter) -> Sequence[str]:
    """The files of a user's samples on which the ranges of a cell are found; none if it needs none, or there are none:
    then they are those of its inputs."""
    own = exporter.own.get((artifact.folder, case.data)) if case.precision in CALIBRATED else None
    return own.calibration.files if own and own.calibration else ()


def opened_in(
    worker: Worker,
    case: Case,
    artifact: Artifact,
    paths: Sequence[str],
    timeout: float,
    calibration: Sequence[str] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Makes a cell ready in a worker; returns the opening, and what was chosen if the case leaves a choice.

    Raises:
        WorkerFailure: it cannot be made ready.
    """
    chosen, choice = settled(case, artifact, paths, worker.log.with_suffix(".race.log"), timeout, calibration)
    return kernels.ready(worker, chosen, artifact, paths, timeout, calibration), choice


def cut_short(judged: dict[str, Any], steps: int) -> str | None:
    """A message if fewer training steps were judged than requested."""
    if judged["steps"] in (0, steps):
        return None
    unseen = "; what the optimizer carries from step to step was not seen" if judged["steps"] == 1 else ""
    return f"behind step {judged['steps']} float32 itself loses too much to judge{unseen}"


def verify(case: Case, artifact: Artifact, exporter: Exporter, timeout: float, logs: Path) -> Record:
    """The record of a parity check without times; forward is compared on two batch sizes."""
    record = _verified(case, artifact, exporter, timeout, logs)
    return located(record, case, artifact, exporter, timeout) if record["status"] in ("FAIL", "CRASH") else record


def _verified(case: Case, artifact: Artifact, exporter: Exporter, timeout: float, logs: Path) -> Record:
    record = base(case, artifact, "check")
    if reason := impossible(case, artifact):
        return record | {"status": "UNSUPPORTED", "message": reason}
    log = logs / f"{digest(case.model, case.runtime, case.mode)}.log"
    worker = worker_of(case, log, timed=False, templates=exporter.templates)
    batches = [case.batch, case.batch + (case.mode == "forward")]
    try:
        record, _ = prove(record, case, artifact, exporter, worker, timeout, batches)
        if record["inputs"]:
            unread = exporter.unread(artifact, case.batch)
            record["inputs"] = [each | {"unread": unread.get(each["name"])} for each in record["inputs"]]
        record["certificate"] = certificate = worker.call("certify", timeout, given=record["graph"] == "given")
        if record["status"] == "PASS" and certificate["different"]:
            message = f"{len(certificate['different'])} parameters differ, the first {certificate['different'][0]}"
            record |= {"status": "FAIL", "message": message}
    except WorkerFailure as failure:
        record = record | outcome(failure)
    except XBenchError as error:
        record = record | {"status": "UNVERIFIED", "message": str(error)}
    finally:
        worker.stop()
    return record


def outcome(failure: WorkerFailure) -> Record:
    """The status and message of a failed job; what the user can fix is no fault of the runtime."""
    status = "UNVERIFIED" if failure.status == "ERROR" else failure.status
    return {"status": status, "message": failure.message}


def located(record: Record, case: Case, artifact: Artifact, exporter: Exporter, timeout: float) -> Record:
    """Adds the first wrong ONNX tensor, also to the message. Not of int8, whose ranges are found again for every
    graph, nor for a damaged model, which shows nothing."""
    if case.precision in CALIBRATED or damage.look(artifact):
        return record
    try:
        tensor = first_wrong(exporter, artifact, as_opened(case, artifact, record), timeout)
    except (WorkerFailure, XBenchError):
        tensor = None
    parity = dict(record["parity"] or NOTHING)
    tensor = tensor or parity.get("first_wrong")
    if not tensor:
        return record
    message = f"{record['message']}; first wrong tensor: {tensor}"
    return completed(record, {"parity": parity | {"first_wrong": tensor}, "message": message})


def verify_each(
    cases: Sequence[Case],
    artifact: Artifact,
    exporter: Exporter,
    timeout: float,
    logs: Path,
    at_once: int,
    say: Callable[[Case, str], None],
) -> Iterator[tuple[Case, Record]]:
    """The cells of one model, each with its record of `verify`, as they finish: nothing is timed, so several cells may
    share the machine.

    A cell waits while the free memory is reserved for others, which take it gradually. Whatever ends this, such as
    Ctrl-C, ends the workers too.
    """
    running: dict[Future[Record], int] = {}
    started: dict[Future[Record], Case] = {}
    free = machine.available_memory()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for case in cases:
                say(case, case.mode)
                need = MEMORY + BYTES_PER_PARAMETER[case.mode] * artifact.info["parameter_count"]
                while running and (len(running) == at_once or sum(running.values()) + need > free):
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    running = {future: bytes_ for future, bytes_ in running.items() if future not in done}
                    yield from ((started[future], future.result()) for future in done)
                free = free if running else machine.available_memory()
                future = pool.submit(verify, case, artifact, exporter, timeout, logs)
                running[future], started[future] = need, case
            yield from ((started[future], future.result()) for future in as_completed(running))
        finally:
            while not all(future.done() for future in running):
                kill_all()
                time.sleep(0.05)
