"""Makes a cell ready in a worker, and knows the time of its first call when no compiled kernels are on disk.

`torch.compile` keeps its kernels: a cell compiles once, and the first call of every later process is short. The time of
the long one is stored next to the model, by all that it depends on, and reported wherever the short one is.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from xbench.case import Case, digest
from xbench.converters import seals
from xbench.converters.artifact import Artifact
from xbench.host import machine
from xbench.runtimes import row_of, version
from xbench.workers.worker import Worker

FOLDER = "kernels"  # next to a model
SETTINGS = ("runtime", "mode", "device", "threads", "layout", "precision")  # of a worker


def ready(
    worker: Worker,
    case: Case,
    artifact: Artifact,
    references: Sequence[str],
    timeout: float,
    calibration: Sequence[str] = (),
) -> dict[str, Any]:
    """Opens a cell and makes its first call; returns the times and what the runtime reports of itself. `calibration`
    are files of samples for its ranges.

    Raises:
        WorkerFailure: it cannot be made ready.
    """
    settings = {name: getattr(case, name) for name in SETTINGS}
    where: dict[str, Any] = {"artifact": str(artifact.folder), "references": list(references)}
    where["calibration"] = list(calibration)
    opening: dict[str, Any] = worker.call("open_cell", timeout, **settings, **where)
    opening["times"]["anew_s"] = _cold(case, artifact, opening)
    return opening


def _cold(case: Case, artifact: Artifact, opening: Mapping[str, Any]) -> float | None:
    """Seconds of a first call without kernels on disk: this one, or the one that wrote the kernels found; None if that
    was not measured."""
    row, first = row_of(case.runtime), float(opening["times"]["first_s"])
    settings = {name: getattr(case, name) for name in (*SETTINGS, "batch")}
    name = digest(settings, version(row, case.runtime), machine.processor(case.device))
    path = artifact.folder / FOLDER / f"{name}.json"
    if opening["recalled"]:
        seconds = seals.kept(path, name)
        return seconds if isinstance(seconds, float) else None
    if row.keeps:
        with contextlib.suppress(OSError):  # if the cache cannot be written to, later processes do not know
            path.parent.mkdir(exist_ok=True)
            seals.keep(path, name, first)
    return first
