"""The cost of a timed cell, as in its record: docs/results.md, `cost`."""

from collections.abc import Callable
from typing import Any

from xbench.case import Case
from xbench.workers import machine_peaks
from xbench.workers.worker import Worker, WorkerFailure


def whole(case: Case, worker: Worker, timeout: float, say: Callable[[str], None]) -> dict[str, Any] | None:
    """What the worker counted during its steps, and this machine's peaks; ends the worker, which would otherwise
    disturb the probe. None if the worker cannot answer any more: its times stay valid."""
    try:
        worker.resume()
        counted = worker.call("cost", timeout, batch=case.batch)
    except WorkerFailure:
        return None
    worker.stop()
    best = machine_peaks.measured(case.device, case.threads, worker.log.parent, say) or {}
    return {**counted, "peak_flops": best.get("flops"), "bandwidth": best.get("bandwidth")}
