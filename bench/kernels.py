"""What the first call of a cell takes where nothing that it compiles lies on disk.

`torch.compile` keeps its kernels: a cell compiles once, and the first call of every later process is short. What the
long one took is kept beside the model, by all that it depends on, and told wherever the short one is.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xbench.bench import Case, digest, machine
from xbench.converters.artifact import Artifact
from xbench.runtimes import parse, table, version

FOLDER = "kernels"  # beside a model
SHARED = ("runtime", "mode", "batch", "device", "threads", "layout", "precision")  # by cells with the same kernels


def anew(case: Case, artifact: Artifact, opening: Mapping[str, Any]) -> float | None:
    """Seconds of a first call that found nothing on disk: of this one, or of the one that wrote what it has found; None
    where that was not seen."""
    row, first = table()[parse(case.runtime)[0]], float(opening["times"]["first_s"])
    told = {name: getattr(case, name) for name in SHARED}
    path = artifact.folder / FOLDER / f"{digest(told, version(row), machine.describe()['cpu'])}.json"
    if opening["recalled"]:
        return _read(path)
    if row.keeps:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(first))
    return first


def _read(path: Path) -> float | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, float) else None
