"""Prepares what a cell's check needs in the cache: the converted model and its references, each made once."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xbench.case import digest
from xbench.converters import cache, damage, seals
from xbench.converters.artifact import WEIGHTS, Artifact
from xbench.converters.source import Source, parse
from xbench.data.own import fixed_batch
from xbench.errors import XBenchError
from xbench.host.machine import cpus
from xbench.runtimes import RUNTIMES
from xbench.workers.samples import OwnSamples
from xbench.workers.template import Templates
from xbench.workers.worker import Worker, WorkerFailure

EXPORT_TIMEOUT = 1800.0
EXPORTER = "xbench.converters.frontends.torch_lazy"
LARGE = 2**30  # bytes of weights or a reference, above which the worker is ended: runtimes need the memory
FILE_TIMEOUT = 600.0  # for a user's file, which may be made to take for ever
# A model.json without one of them is damaged.
FACTS = {"name", "digest", "inputs", "outputs", "operators", "program_operators", "labels", "loss", "macs"}
FACTS |= {"dead_nodes", "unused", "untraced", "untrainable", "statistics"}


@dataclass
class Exporter:
    """PyTorch's worker, started when it is first needed and kept: importing PyTorch takes seconds.

    Several threads may call; each result is made once, one after the other. A job that took more than `timeout`
    seconds, or more memory than there is, is not tried again.
    """

    logs: Path
    timeout: float = EXPORT_TIMEOUT
    _worker: list[Worker] = field(default_factory=list)
    _modules: dict[str, Artifact] = field(default_factory=dict)
    _turn: threading.RLock = field(default_factory=threading.RLock)
    _refused: dict[Path, WorkerFailure] = field(default_factory=dict)
    sources: dict[Path, Source] = field(default_factory=dict)  # of artifacts returned, by folder
    _announced: set[str] = field(default_factory=set)
    templates: Templates = field(default_factory=Templates)  # of workers that time nothing, for other users, too
    renewals: dict[Path, int] = field(default_factory=dict)  # how often an artifact was made again
    own: dict[tuple[Path, str], OwnSamples] = field(default_factory=dict)  # a user's, by artifact and word

    def call(self, job: str, timeout: float | None = None, /, **arguments: Any) -> Any:
        with self._turn:
            if not self._worker:
                traced = job == "export" and parse(arguments["word"]).kind in ("zoo", "module")
                self._worker.append(self._started("torch", *([EXPORTER] if traced else [])))
            try:
                return self._worker[0].call(job, self.timeout if timeout is None else timeout, **arguments)
            except WorkerFailure:
                self._end()
                raise

    def _started(self, framework: str, *more: str) -> Worker:
        log, row = self.logs / f"{framework}-exporter.log", RUNTIMES[framework]
        row = replace(row, preload=(*row.preload, *more))  # imported before a fork
        return Worker(log, threads=cpus(), timed=False, templates=self.templates, row=row)

    def close(self) -> None:
        self._end()
        self.templates.close()

    def _end(self) -> None:
        """Ends the worker. The next job starts another."""
        while self._worker:
            self._worker.pop().stop()

    def artifact(self, word: str) -> Artifact:
        """The converted model, from the cache or made now; a factory must be called to know its model.

        Raises:
            XBenchError: the user's file or factory is broken, or the export failed.
        """
        source = parse(word)
        if source.kind == "module":
            if word not in self._modules:
                self._modules[word] = self._exported_module(source)
            return self._modules[word]
        folder = cache.artifact_folder(source)
        if reason := cache.broken(folder):
            self._make(source, folder, reason)
        self.sources[folder] = source
        return _read(folder)

    def remarks(self, artifact: Artifact) -> list[str]:
        """Remarks on a converted model, a sentence each; none the second time."""
        if artifact.name in self._announced:
            return []
        self._announced.add(artifact.name)
        return [f"{artifact.name.partition('@')[0]}: {remark}" for remark in artifact.remarks()]

    def _make(self, source: Source, folder: Path, reason: str) -> None:
        """Exports a model of the zoo or a file to the cache, replacing a damaged artifact."""
        damage.say(folder, reason)
        with cache.written(folder) as temporary:
            self._export(source, temporary)

    def exported(self, word: str, folder: Path) -> Artifact:
        """The converted model in an empty folder, which the caller removes.

        Raises:
            XBenchError: as `artifact`.
        """
        self._export(parse(word), folder)
        return _read(folder)

    def _export(self, source: Source, folder: Path) -> None:
        """ONNX's own code crashes on some files that pass every check (onnx/onnx#8481), and ends the worker with it."""
        file = source.place
        with _clear(f"cannot export {source.place}" if source.kind in ("zoo", "module") else f"cannot read {file}"):
            if source.kind == "tensorflow":
                file = str(folder / "imported.onnx")
                self._import(source, file)
            limit = self.timeout if source.kind in ("zoo", "module") else min(FILE_TIMEOUT, self.timeout)
            self.call("export", limit, word=source.word, file=file, folder=str(folder))
            if (folder / WEIGHTS).stat().st_size > LARGE:  # a process does not release all of its memory
                self._end()

    def _import(self, source: Source, file: str) -> None:
        """A TensorFlow model as ONNX, by tf2onnx, in its own worker."""
        worker = self._started("tensorflow")
        try:
            worker.call("import_tensorflow", min(FILE_TIMEOUT, self.timeout), path=source.place, file=file)
        finally:
            worker.stop()

    def _exported_module(self, source: Source) -> Artifact:
        folder = cache.root() / "models"
        with cache.unnamed(folder, source.stem) as temporary:
            self._export(source, temporary)
            name = folder / f"{source.stem}-{digest('module', source.word, _read(temporary).digest, cache.makers())}"
            if reason := cache.broken(name):
                damage.say(name, reason)
            cache.settle(temporary, name)
        self.sources[name] = source
        return _read(name)

    def reference(
        self, artifact: Artifact, mode: str, batch: int, seed: int, data: str, steps: int = 1, precision: str = "fp32"
    ) -> Path:
        """The oracle's results for one batch, from the cache or computed now; in mode step, of `steps` training steps
        on it; with the floors of a lower precision, too, if it has some."""
        steps, own = steps if mode == "step" else 1, self.own.get((artifact.folder, data))
        path = reference_path(artifact, mode, batch, seed, own.name if own else data, steps, precision)
        arguments = {"mode": mode, "batch": batch, "seed": seed, "data": data, "steps": steps, "precision": precision}
        arguments |= {"own": own.paths(max(2, seed + 1) * batch)} if own else {}
        what = f"cannot compute the float64 reference of {artifact.name}"
        return self._added(artifact, path, "reference", what, arguments)

    def _added(self, artifact: Artifact, path: Path, job: str, what: str, arguments: dict[str, Any]) -> Path:
        """A file next to a converted model, from the cache or made now by a job from an undamaged model."""
        if damage.of_added(artifact, path) is None:  # without waiting for the exporter
            return path
        with self._turn, _clear(what):
            if reason := damage.of_added(artifact, path):
                if failure := self._refused.get(path):
                    raise failure
                damage.say(path, reason)
                self.renewed(artifact)
                with damage.added(artifact, path) as made, self._remembered(path):
                    self.call(job, artifact=str(artifact.folder), path=str(made), **arguments)
                if path.stat().st_size > LARGE:
                    self._end()
        return path

    @contextlib.contextmanager
    def _remembered(self, path: Path) -> Iterator[None]:
        try:
            yield
        except WorkerFailure as failure:
            if failure.status in ("TIMEOUT", "OOM"):  # other cells, and other modes, would wait as long again
                self._refused[path] = failure
            raise

    def renewed(self, artifact: Artifact) -> str | None:
        """Checks a converted model in the cache, and makes its damaged files again; returns what was damaged.

        Raises:
            XBenchError: it cannot be made again.
        """
        with self._turn:
            if not (damaged := damage.look(artifact)):
                return None
            self._end()  # its worker may hold damaged data
            for path, reason in damaged.items():
                if path != artifact.folder:
                    damage.say(path, reason)
                    cache.remove(path)
            if reason := damaged.get(artifact.folder, ""):
                self._make_again(artifact, reason)
                self.renewals[artifact.folder] = self.renewals.get(artifact.folder, 0) + 1
            return ", ".join(damaged.values())

    def _make_again(self, artifact: Artifact, reason: str) -> None:
        source = self.sources.get(artifact.folder)
        if source is None:
            raise XBenchError(f"{artifact.folder} is damaged ({reason}): delete it")
        if source.kind == "module":
            self._exported_module(source)
        else:
            self._make(source, artifact.folder, reason)
        if _read(artifact.folder).digest != artifact.digest:
            raise XBenchError(f"{artifact.name} was damaged ({reason}) and is exported as another network now")

    def unread(self, artifact: Artifact, batch: int) -> dict[str, list[str]]:
        """The outputs that do not depend on each input, by its name; empty if that cannot be computed: it is worth a
        remark and no more."""
        return self._computed(artifact, "unread", batch) or {}

    def coupled(self, artifact: Artifact) -> bool:
        """Whether the loss of a batch is not the mean of its parts' losses, as that of a contrastive network; False if
        that cannot be computed."""
        return self._computed(artifact, "coupled", 4) or False

    def rows_apart(self, artifact: Artifact) -> bool:
        """Whether rows of inputs of a fixed size are apart (`parity/sensitivity.py`); True if there are none."""
        return (fixed_batch(artifact.info) or 1) == 1 or self._computed(artifact, "rows_apart", 1) is not False

    def _computed(self, artifact: Artifact, job: str, batch: int) -> Any:
        """What a job says of a model, from the cache or computed now; None if it fails."""
        path, of = artifact.folder / f"{job}-b{batch}-v{ORACLE}.json", f"{artifact.digest} {job} {batch}"
        with self._turn:
            known = seals.kept(path, of)
            if known is not None:
                return known
            try:
                answer = self.call(job, artifact=str(artifact.folder), batch=batch)
            except WorkerFailure:
                return None
            with contextlib.suppress(cache.CacheError), cache.writing():
                seals.keep(path, of, answer)
            return answer

    def matched(self, word: str, reference: Artifact, batch: int) -> dict[str, Any]:
        """Whether a model is the reference network, and the differences (`parity/matching.py`).

        Raises:
            XBenchError: it cannot be read or exported.
        """
        try:
            port = self.artifact(word)
        except XBenchError as error:
            if "are dead" not in str(error):  # which is an answer
                raise
            return {"same": False, "agrees": None, "differences": [str(error)]}
        answer: dict[str, Any] = self.call("match", port=str(port.folder), reference=str(reference.folder), batch=batch)
        return answer

    def training_reference(self, artifact: Artifact, data: Path, content: str, **plan: int) -> Path:
        """The oracle's results of the first `steps` of a training by `batch` and `seed`; `data` is a file of samples,
        `content` their digest."""
        path = artifact.folder / f"training-{digest(content, plan)}-v{ORACLE}.npz"
        arguments = {"data": str(data), **plan}
        what = f"cannot compute the float64 training of {artifact.name}"
        return self._added(artifact, path, "training_reference", what, arguments)


def _read(folder: Path) -> Artifact:
    try:
        artifact = Artifact.read(folder)
        if FACTS - artifact.info.keys():
            raise ValueError("facts are missing")
    except (OSError, ValueError, AttributeError) as error:
        raise XBenchError(f"{folder} is damaged: delete it") from error
    return artifact


@contextlib.contextmanager
def _clear(what: str) -> Iterator[None]:
    """Turns a failed worker into one line for the user."""
    try:
        yield
    except WorkerFailure as error:
        raise XBenchError(error.message if error.status == "ERROR" else f"{what}: {error.message}") from error


ORACLE = 14  # version of the reference files
FLOATS = ("tf32", "bf16", "fp16")  # below float32: rounding to them can be imitated, and has floors


def reference_path(
    artifact: Artifact, mode: str, batch: int, seed: int, data: str, steps: int = 1, precision: str = "fp32"
) -> Path:
    """The path of a reference."""
    kind = f"step{steps}" if mode == "step" else mode
    kind += f"-{precision}" if precision in FLOATS else ""
    return artifact.folder / f"reference-{kind}-{data}-b{batch}-s{seed}-v{ORACLE}.npz"


def converted(artifact: Artifact, runtime: str) -> Path:
    """The path of the outcome of converting for a runtime."""
    return artifact.folder / f"converted-{digest(runtime)}.json"
