"""Models converted for runtimes: whether each takes one, its kernels, and a model in the runtime's own form."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbench.case import AUTO, STEPS, SYNTHETIC, Case
from xbench.converters import UnsupportedOps, cache, operators_of, seals, temporary
from xbench.converters.artifact import Artifact
from xbench.converters.printable import file_name
from xbench.errors import XBenchError
from xbench.experiments.choose import batch_of
from xbench.experiments.experiment import Lab
from xbench.host import machine
from xbench.proof.prove import SEEDS, opened_in, references
from xbench.proof.record import expected, no_layout
from xbench.proof.tuning import settled
from xbench.runtimes import is_ours, row_of, version
from xbench.workers.prepare import Exporter, converted
from xbench.workers.worker import Worker, WorkerFailure, worker_of

BROKEN = ("CRASH", "TIMEOUT", "OOM")  # what is no answer


@dataclass(frozen=True)
class Plan:
    """What is made of each model. `forms` are the runtimes in whose own form it is written too, below `output`, for
    `batch` where that is fixed there; `oracle` says whether the float64 results that `time` wants are computed,
    `kernels` whether those that a runtime keeps are made."""

    runtimes: Sequence[str]
    forms: Sequence[str] = ()
    output: Path = Path("xbench-models")
    batch: int = 1
    device: str = "cpu"
    layout: str = "nchw"
    oracle: bool = False
    kernels: bool = False


def each(models: Sequence[str], plan: Plan, lab: Lab) -> Iterator[dict[str, Any]]:
    """One row a model and runtime; none of a model that cannot be exported.

    Raises:
        XBenchError: two models would be written to one folder; nothing is converted.
    """
    if plan.forms:
        _need_folders(models, plan.output)
    for model in models:
        lab.progress.say(f"{model}: export to ONNX")
        artifact = lab.artifact(model)
        if artifact is None:
            lab.progress.skip(len(plan.runtimes))
            continue
        if plan.oracle:
            lab.progress.say(f"{model}: float64")
            try:
                compute_references(lab.exporter, artifact, model)
            except XBenchError as error:
                lab.refuse(model, error)
        for runtime in plan.runtimes:
            lab.progress.say(f"{model}: {runtime}")
            row = _made(artifact, model, runtime, lab.exporter, plan, lab.logs)
            if row["status"] != "CONVERTED" and (said := lab.exporter.renewed(artifact)):
                row = _made(artifact, model, runtime, lab.exporter, plan, lab.logs)
                words = f"converted again, as the model in the cache was damaged: {said}"
                row["message"] = "; ".join(filter(None, (row["message"], words)))
            lab.progress.finish(line(row))
            yield row


def _folder(model: str, output: Path) -> Path:
    return output / file_name(Path(model).stem)


def _need_folders(models: Sequence[str], output: Path) -> None:
    owners: dict[Path, str] = {}
    for model in models:
        folder = _folder(model, output)
        if (owner := owners.setdefault(folder, model)) != model:
            raise XBenchError(f"{owner} and {model} would both be written to {folder}; give one another --output")


def _made(artifact: Artifact, model: str, runtime: str, exporter: Exporter, plan: Plan, logs: Path) -> dict[str, Any]:
    row = convert(artifact, runtime, plan.device, logs)
    if runtime in plan.forms and row["status"] == "CONVERTED":
        row |= save(artifact, model, runtime, exporter, plan.device, plan.layout, plan.batch, plan.output, logs)
    if plan.kernels and row["status"] == "CONVERTED":
        row |= _compile(artifact, model, runtime, exporter, plan, logs)
    return {"model": model, "runtime": runtime, **row}


def compute_references(exporter: Exporter, artifact: Artifact, model: str) -> None:
    """What a cell of the batch that `time` takes is proved against.

    Raises:
        XBenchError: it cannot be computed.
    """
    trained = artifact.info["loss"] and artifact.parameters
    for mode in ("forward", "step") if trained else ("forward",):
        for seed in SEEDS[:2]:
            exporter.reference(artifact, mode, batch_of(model, 1), seed, SYNTHETIC, STEPS)


def _compile(
    artifact: Artifact, model: str, runtime: str, exporter: Exporter, plan: Plan, logs: Path
) -> dict[str, Any]:
    """Makes the first call of what keeps its kernels, in a worker as `time` opens it in the modes that nobody need ask
    for; returns what changes in the row: the seconds by mode, null where the kernels lay there already."""
    seconds: dict[str, float | None] = {}
    told: dict[str, Any] = {"device": plan.device, "layout": plan.layout, "threads": machine.cpus()}
    for mode in ("forward", "step") if row_of(runtime).keeps else ():
        case = Case(model, runtime, mode, batch_of(model, 1), **told)
        if not expected(case, artifact):
            continue
        worker = worker_of(case, logs / "kernels.log")
        try:
            paths = references(case, artifact, exporter, [case.batch] * 2)
            opening, _ = opened_in(worker, case, artifact, paths, 600)
        except WorkerFailure as failure:
            return {"status": failure.status, "operators": failure.operators or {}, "message": failure.message}
        except XBenchError as error:  # no reference, no first call
            return {"message": str(error)}
        finally:
            worker.stop()
        seconds[mode] = None if opening["recalled"] else opening["times"]["first_s"]
    return {"kernels": seconds} if seconds else {}


def line(row: Mapping[str, Any]) -> str:
    """What became of a conversion, for a log."""
    detail = f": {row['message']}" if row["message"] else f" in {row['seconds']:.1f} s"
    made = {mode: seconds for mode, seconds in row.get("kernels", {}).items() if seconds}
    detail += f", kernels of {' and '.join(f'{mode} in {s:.1f} s' for mode, s in made.items())}" if made else ""
    detail += f": {row['files'][0]}" if row.get("files") else ""
    return f"{row['model']} -> {row['runtime']}: {row['status']}{detail}"


def convert(artifact: Artifact, runtime: str, device: str, logs: Path) -> dict[str, Any]:
    """Converts for one runtime, or returns what an earlier call found for the same version of it."""
    now = version(row_of(runtime), runtime)
    path = converted(artifact, runtime)
    of = f"{artifact.digest} {runtime}"
    known: dict[str, Any] | None = seals.kept(path, of)
    if known and known.get("version") == now and known.get("device") == device:
        return known
    start = time.perf_counter()
    row = _outcome(artifact, runtime, device, logs) | {"version": now, "device": device}
    row |= {"seconds": round(time.perf_counter() - start, 3), "folder": str(artifact.folder)}
    if row["status"] in ("CONVERTED", "UNSUPPORTED"):
        with cache.writing():
            seals.keep(path, of, row)
    return row


def _outcome(artifact: Artifact, runtime: str, device: str, logs: Path) -> dict[str, Any]:
    """Whether the runtime takes the model: looked up where the text runs in our own table, else tried in a worker."""
    if is_ours(runtime) and (own := row_of(runtime).operators):
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
    exporter.renewed(artifact)  # as what is written is given away, and nobody judges it
    target = _folder(model, output) / file_name(runtime)
    with contextlib.ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            made = stack.enter_context(temporary.folder(target.parent, temporary.HIDDEN)) / target.name
            made.mkdir()
        except OSError as error:
            raise XBenchError(f"cannot write to {target.parent}: {error.strerror}") from error
        worker = Worker(logs / "save.log", device)
        stack.callback(worker.stop)
        try:
            case = Case(model, runtime, "forward", batch, device, layout=layout)
            paths = [str(exporter.reference(artifact, "forward", batch, 0, "synthetic"))] if layout == AUTO else []
            told, _ = settled(case, artifact, paths, logs / "layouts.log", 600)
            where = {"artifact": str(artifact.folder), "runtime": runtime, "device": device, "layout": told.layout}
            found = worker.call("save", 1800, batch=batch, folder=str(made), name=target.parent.name, **where)
        except WorkerFailure as failure:
            return {"status": failure.status, "operators": failure.operators or {}, "message": failure.message}
        if not found["files"]:
            return {"message": f"{runtime} has no form of its own", "files": []}
        shutil.rmtree(target, ignore_errors=True)
        os.rename(made, target)
    return {"files": [str(target / file) for file in found["files"]]}
