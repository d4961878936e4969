"""The whole cost of a cell that has been timed, as its record keeps it: docs/results.md, `cost`."""

from collections.abc import Callable
from typing import Any

from xbench.case import Case
from xbench.workers import machine_peaks
from xbench.workers.worker import Worker, WorkerFailure


def whole(case: Case, worker: Worker, timeout: float, say: Callable[[str], None]) -> dict[str, Any] | None:
    """What the worker counted while it stepped, and this machine's peaks; ends the worker, as what else it does would
    disturb the probe. None where the worker cannot tell any more: its times stand all the same."""
    try:
        worker.resume()
        counted = worker.call("cost", timeout, batch=case.batch)
    except WorkerFailure:
        return None
    worker.stop()
    best = machine_peaks.measured(case.device, case.threads, worker.log.parent, say) or {}
    return {**counted, "peak_flops": best.get("flops"), "bandwidth": best.get("bandwidth")}
