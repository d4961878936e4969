"""Models converted for runtimes: whether each takes one, its kernels, and a model in the runtime's own form."""

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from xbench import runtimes
from xbench.case import AUTO, STEPS, SYNTHETIC, Case, digest
from xbench.converters import UnsupportedOps, cache, operators_of, seals, temporary
from xbench.converters.artifact import Artifact
from xbench.converters.printable import file_name, shell
from xbench.errors import XBenchError
from xbench.experiments.choose import batch_of
from xbench.experiments.experiment import Experiment, Lab
from xbench.host import machine
from xbench.proof.prove import SEEDS, opened_in, references
from xbench.proof.record import base, expected, impossible, key, no_layout
from xbench.proof.tuning import settled
from xbench.runtimes import _configuration
from xbench.store.record import Record, by_name, completed
from xbench.workers.prepare import Exporter, converted
from xbench.workers.samples import OwnSamples
from xbench.workers.worker import Worker, WorkerFailure, worker_of


@dataclass(frozen=True)
class Convert(Experiment):
    """One record per model and runtime: whether the runtime takes the model. `forms` are the runtimes in whose own form
    it is written too, below `output`, for the batch of the case if that is fixed there; `oracle` says whether the
    float64 results that `time` needs are computed, `kernels` whether the kernels that a runtime keeps are compiled,
    `cold` whether the outcome of an earlier call is ignored."""

    name: ClassVar[str] = "convert"
    file: ClassVar[str] = "convert.jsonl"

    forms: Sequence[str] = ()
    output: Path = Path("xbench-models")
    oracle: bool = False
    kernels: bool = False
    cold: bool = False

    @property
    def again(self) -> str:
        """Which stored records are made again: all if files must exist afterwards, else failed ones."""
        return "all" if self.forms or self.oracle or self.kernels or self.cold else "failed"

    def group(self, case: Case) -> Hashable:
        """Nothing is timed, and a failed computation on a model stops none of its conversions."""
        return case.model

    def need(self, cases: Sequence[Case]) -> None:
        """
        Raises:
            XBenchError: the forms of two models would be written to one folder.
        """
        owners: dict[Path, str] = {}
        for model in dict.fromkeys(case.model for case in cases if self.forms):
            folder = _folder(model, self.output)
            if (owner := owners.setdefault(folder, model)) != model:
                raise XBenchError(f"{owner} and {model} would both be written to {folder}; give one another --output")

    def keys(self, case: Case, artifact: Artifact, lab: Lab) -> Sequence[str]:
        return [digest(key(case, artifact), "convert", str(artifact.folder))]

    def measure(self, cases: Sequence[Case], wanted: Collection[str], artifact: Artifact, lab: Lab) -> Iterator[Record]:
        for case in cases:
            if self.oracle:
                lab.once(("oracle", artifact.name), partial(_compute_references, case.model, artifact, lab))
            lab.say(case, "convert")
            row = self._made(case, artifact, lab)
            record = base(case, artifact, uuid.uuid4().hex[:12]) | {"key": self.keys(case, artifact, lab)[0]}
            outcome = {name: row.pop(name) for name in ("status", "message")}
            yield completed(record, {**outcome, "command": self._command(case), "conversion": row})

    def _made(self, case: Case, artifact: Artifact, lab: Lab) -> dict[str, Any]:
        row = convert(artifact, case.runtime, case.device, lab.logs, self.cold)
        if case.runtime in self.forms and row["status"] == "CONVERTED":
            row |= save(artifact, case, lab.exporter, self.output, lab.logs)
        if self.kernels and row["status"] == "CONVERTED":
            row |= _compile(artifact, case, lab.exporter, lab.logs)
        return row

    def _command(self, case: Case) -> str:
        words = ["xbench", "convert", case.model, "--runtime", case.runtime, "--device", case.device]
        words += ["--to", case.runtime, "--layout", case.layout] if case.runtime in self.forms else []
        return shell(*words, "--rerun")

    def line(self, record: Record) -> str:
        return line(row_of(record))


def row_of(record: Record) -> dict[str, Any]:
    """The row of a record (`xbench convert --json`)."""
    case = record["case"]
    made: dict[str, Any] = {**by_name(record["conversion"])}
    own: dict[str, Any] = {"model": case["model"], "runtime": case["runtime"], "status": record["status"]}
    own |= {"operators": made["operators"], "message": record["message"]}
    return own | made | own  # in this order, whatever is stored in `conversion`


def _folder(model: str, output: Path) -> Path:
    return output / file_name(Path(model).stem)


def _compute_references(model: str, artifact: Artifact, lab: Lab) -> None:
    """The references of a cell with the batch of `time`; without them the model is left out.

    Raises:
        XBenchError: it cannot be computed, unless the lab keeps going.
    """
    lab.progress.say(f"{model}: float64")
    trained = artifact.info["loss"] and artifact.parameters
    try:
        for mode in ("forward", "step") if trained else ("forward",):
            for seed in SEEDS[:2]:
                lab.exporter.reference(artifact, mode, batch_of(model, 1), seed, SYNTHETIC, STEPS)
    except XBenchError as error:
        lab.refuse(model, error)


def _compile(artifact: Artifact, case: Case, exporter: Exporter, logs: Path) -> dict[str, Any]:
    """Makes the first call of a runtime that keeps its kernels, in a worker as `time` opens it in its default modes;
    returns what changes in the row: the seconds by mode, null if the kernels existed already."""
    seconds: dict[str, float | None] = {}
    for mode in ("forward", "step") if runtimes.row_of(case.runtime).keeps else ():
        own = replace(case, mode=mode, batch=batch_of(case.model, 1), threads=machine.cpus())
        if not expected(own, artifact) or impossible(own, artifact):
            continue
        worker = worker_of(own, logs / "kernels.log")
        try:
            paths = references(own, artifact, exporter, [own.batch] * 2)
            opening, _ = opened_in(worker, own, artifact, paths, 600)
        except WorkerFailure as failure:
            return {"status": failure.status, "operators": failure.operators or {}, "message": failure.message}
        except XBenchError as error:  # no reference, no first call
            return {"message": str(error)}
        finally:
            worker.stop()
        seconds[mode] = None if opening["recalled"] else opening["times"]["first_s"]
    return {"kernels": seconds} if seconds else {}


def line(row: Mapping[str, Any]) -> str:
    """The outcome of a conversion, for a log."""
    detail = f": {row['message']}" if row["message"] else f" in {row['seconds']:.1f} s"
    made = {mode: seconds for mode, seconds in row.get("kernels", {}).items() if seconds}
    detail += f", kernels of {' and '.join(f'{mode} in {s:.1f} s' for mode, s in made.items())}" if made else ""
    detail += f": {row['files'][0]}" if row.get("files") else ""
    return f"{row['model']} -> {row['runtime']}: {row['status']}{detail}"


def convert(artifact: Artifact, runtime: str, device: str, logs: Path, cold: bool = False) -> dict[str, Any]:
    """Converts for one runtime, or returns an earlier call's result for the same version of it, unless `cold`."""
    now = runtimes.version(runtimes.row_of(runtime), runtime)
    path = converted(artifact, runtime)
    of = f"{artifact.digest} {runtime}"
    known: dict[str, Any] | None = seals.kept(path, of)
    if known and not cold and known.get("version") == now and known.get("device") == device:
        return known
    start = time.perf_counter()
    row = _outcome(artifact, runtime, device, logs) | {"version": now, "device": device}
    row |= {"seconds": round(time.perf_counter() - start, 3), "folder": str(artifact.folder)}
    if row["status"] in ("CONVERTED", "UNSUPPORTED"):
        with cache.writing():
            seals.keep(path, of, row)
    return row


def _outcome(artifact: Artifact, runtime: str, device: str, logs: Path) -> dict[str, Any]:
    """Whether the runtime takes the model: looked up if the text uses our own table, else tried in a worker."""
    if runtimes.is_ours(runtime) and (own := runtimes.row_of(runtime).operators):
        known = operators_of(own)
        missing = UnsupportedOps({name: n for name, n in artifact.operators.items() if name not in known})
        module = own == "torch" and artifact.info["origin"] == "zoo"  # PyTorch runs the module itself
        if module or not missing.operators:
            return {"status": "CONVERTED", "operators": {}, "message": None}
        message = f"operators missing: {missing}"
        return {"status": "UNSUPPORTED", "operators": missing.operators, "message": message}
    worker = Worker(logs / "convert.log", device, timed=False)
    try:
        worker.call("convertible", 600, artifact=str(artifact.folder), runtime=runtime, device=device)
    except WorkerFailure as failure:
        return {"status": failure.status, "operators": failure.operators or {}, "message": failure.message}
    finally:
        worker.stop()
    return {"status": "CONVERTED", "operators": {}, "message": None}


def save(
    artifact: Artifact,
    case: Case,
    exporter: Exporter,
    output: Path,
    logs: Path,
    own: OwnSamples | None = None,
) -> dict[str, Any]:
    """Writes a model in a runtime's own form, in one piece; returns what changes in its row. `own` are a user's samples
    on which the precision of the case is calibrated."""
    if reason := no_layout(case.runtime, case.layout):
        return {"status": "UNSUPPORTED", "message": reason, "files": []}
    exporter.renewed(artifact)  # as the output is distributed without a further check
    target = _folder(case.model, output) / file_name(case.runtime)
    with contextlib.ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            made = stack.enter_context(temporary.folder(target.parent, temporary.HIDDEN)) / target.name
            made.mkdir()
        except OSError as error:
            raise XBenchError(f"cannot write to {target.parent}: {error.strerror}") from error
        row = runtimes.row_of(case.runtime)
        settings: dict[str, Any] = {"python": _configuration.worker(case.runtime), "row": row}
        worker = Worker(logs / "save.log", case.device, timed=False, templates=exporter.templates, **settings)
        stack.callback(worker.stop)
        try:
            plain = Case(case.model, case.runtime, "forward", case.batch, case.device, layout=case.layout)
            data = own.data if own else SYNTHETIC
            needed = case.layout == AUTO or own
            paths = [str(exporter.reference(artifact, "forward", case.batch, 0, data))] if needed else []
            chosen, _ = settled(plain, artifact, paths, logs / "layouts.log", 600)
            where = {"artifact": str(artifact.folder), "folder": str(made), "name": target.parent.name}
            made_of: dict[str, Any] = {name: getattr(chosen, name) for name in ("runtime", "device", "layout", "batch")}
            made_of |= {"precision": case.precision, "reference": paths[0] if own else None}
            made_of |= {"calibration": list(own.calibration.files) if own and own.calibration else []}
            saved = worker.call("save", 1800, **where, **made_of)
        except WorkerFailure as failure:
            return {"status": failure.status, "operators": failure.operators or {}, "message": failure.message}
        if not saved["files"]:
            return {"message": f"{case.runtime} has no form of its own", "files": []}
        shutil.rmtree(target, ignore_errors=True)
        os.rename(made, target)
    return {"files": [str(target / file) for file in saved["files"]]}
