"""A converted model for one runtime: whether it takes it, and the model written in the runtime's own form."""

import json
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from xbench.bench import AUTO, Case, XBenchError
from xbench.bench.prepare import Exporter, converted, read_json
from xbench.bench.record import no_layout
from xbench.bench.tuning import settled
from xbench.bench.worker import Worker, WorkerFailure
from xbench.converters import UnsupportedOps, operators_of
from xbench.converters.artifact import Artifact
from xbench.runtimes import parse, table, version


def convert(artifact: Artifact, runtime: str, device: str, logs: Path) -> dict[str, Any]:
    """Converts for one runtime, or returns what an earlier call found for the same version of it."""
    now = version(table()[parse(runtime)[0]], runtime)
    path = converted(artifact, runtime)
    known = read_json(path)
    if known and known.get("version") == now and known.get("device") == device:
        return known
    start = time.perf_counter()
    row = _outcome(artifact, runtime, device, logs) | {"version": now, "device": device}
    row |= {"seconds": round(time.perf_counter() - start, 3), "folder": str(artifact.folder)}
    if row["status"] in ("CONVERTED", "UNSUPPORTED"):
        path.write_text(json.dumps(row))
    return row


def _outcome(artifact: Artifact, runtime: str, device: str, logs: Path) -> dict[str, Any]:
    """Whether the runtime takes the model: looked up where the text runs in our own table, else tried in a worker."""
    if own := table()[parse(runtime)[0]].operators:
        known = operators_of(own)
        missing = UnsupportedOps({name: n for name, n in artifact.operators.items() if name not in known})
        module = own == "torch" and artifact.info["origin"] == "zoo"  # PyTorch runs the module itself
        if module or not missing.operators:
            return {"status": "CONVERTED", "operators": {}, "message": None}
        message = f"operators missing: {missing}"
        return {"status": "UNSUPPORTED", "operators": missing.operators, "message": message}
    worker = Worker(logs / "convert.log", device)
    try:
        worker.call("convertible", 600, artifact=str(artifact.folder), runtime=runtime, device=device)
    except WorkerFailure as failure:
        return {"status": failure.status, "operators": failure.operators or {}, "message": failure.message}
    finally:
        worker.stop()
    return {"status": "CONVERTED", "operators": {}, "message": None}


def save(
    artifact: Artifact,
    model: str,
    runtime: str,
    exporter: Exporter,
    device: str,
    layout: str,
    batch: int,
    output: Path,
    logs: Path,
) -> dict[str, Any]:
    """Writes a model in a runtime's own form, in one piece; returns what changes in its row."""
    if reason := no_layout(runtime, layout):
        return {"status": "UNSUPPORTED", "message": reason, "files": []}
    name = re.sub(r"\W", "_", Path(model).stem)
    target = output / name / re.sub(r"\W", "_", runtime)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        place = tempfile.mkdtemp(prefix=".xbench-", dir=target.parent)
    except OSError as error:
        raise XBenchError(f"cannot write to {target.parent}: {error.strerror}") from error
    worker = Worker(logs / "save.log", device)
    try:
        case = Case(model, runtime, "forward", batch, device, layout=layout)
        paths = [str(exporter.reference(artifact, "forward", batch, 0, "synthetic"))] if layout == AUTO else []
        told, _ = settled(case, artifact, paths, logs / "layouts.log", 600)
        where = {"artifact": str(artifact.folder), "runtime": runtime, "device": device, "layout": told.layout}
        found = worker.call("save", 1800, batch=batch, folder=place, name=name, **where)
        if not found["files"]:
            return {"message": f"{runtime} has no form of its own", "files": []}
        shutil.rmtree(target, ignore_errors=True)
        os.chmod(place, 0o755)  # a temporary folder is its owner's alone
        os.rename(place, target)
    except WorkerFailure as failure:
        return {"status": failure.status, "operators": failure.operators or {}, "message": failure.message}
    finally:
        worker.stop()
        shutil.rmtree(place, ignore_errors=True)
    return {"files": [str(target / file) for file in found["files"]]}
