"""Opens a cell in a worker that may be timed: verified and audited there. Nothing is measured elsewhere."""

from pathlib import Path

from xbench.case import Case, digest
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.proof import contracts
from xbench.proof.prove import located, outcome, prove
from xbench.proof.record import impossible
from xbench.store.record import Record, completed
from xbench.workers.prepare import Exporter
from xbench.workers.worker import Worker, WorkerFailure, worker_of


def opened(
    case: Case, record: Record, artifact: Artifact, exporter: Exporter, timeout: float, audit: float, logs: Path
) -> tuple[Record, Worker | None]:
    """The record of a cell, and its worker, armed for the case's plane; None if it may not be timed, and the record
    says why. `audit` is the seconds of the audit. If it may be timed, `times` of the record has the times of its
    opening."""
    if reason := impossible(case, artifact):
        return record | {"status": "UNSUPPORTED", "message": reason}, None
    worker = worker_of(case, logs / f"{digest(case.runtime, case.mode)}.log")
    try:
        batches = [case.batch, case.batch]
        record, opening = prove(record, case, artifact, exporter, worker, timeout, batches)
        if record["status"] != "PASS":
            worker.stop()
            unsupported = record["status"] == "UNSUPPORTED"  # such as one that ignores the requested precision
            return record if unsupported else located(record, case, artifact, exporter, timeout), None
        worker.call("arm", timeout, plane=case.plane)
        facts, kept = contracts.audited(worker, case, timeout, audit)
        words = "; ".join(filter(None, (record["message"], *contracts.told(kept))))
        record |= {"contracts": contracts.as_dicts(kept), "audit": {**facts}, "message": words or None}
        if reason := contracts.broken(kept, case.runtime):
            worker.stop()
            return record | {"status": "FAIL", "message": reason}, None
        return completed(record, {"times": {**opening, "proof_s": facts["proof_s"]}}), worker
    except WorkerFailure as failure:
        worker.stop()
        return failed(record, failure, case, artifact, exporter, timeout), None
    except XBenchError as error:
        worker.stop()
        return record | {"status": "UNVERIFIED", "message": str(error)}, None
    except BaseException:
        worker.stop()
        raise


def failed(
    record: Record, failure: WorkerFailure, case: Case, artifact: Artifact, exporter: Exporter, timeout: float
) -> Record:
    """The record of a cell whose worker failed, without times; a crash with the part of the graph that causes it."""
    updated = record | {"times": None} | outcome(failure)
    return located(updated, case, artifact, exporter, timeout) if failure.status == "CRASH" else updated
