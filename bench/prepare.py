"""What must lie in the cache before a cell can be checked: the converted model and its references, each made once."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xbench.bench import XBenchError, cache, digest
from xbench.bench.machine import cpus
from xbench.bench.worker import Worker, WorkerFailure
from xbench.converters.artifact import Artifact

EXPORT_TIMEOUT = 1800.0
FACTS = {"name", "digest", "inputs", "outputs", "operators", "classes", "macs"}  # a model.json without them is damaged


@dataclass
class Exporter:
    """PyTorch's worker, started when it is first needed and kept: importing PyTorch takes seconds."""

    logs: Path
    _worker: list[Worker] = field(default_factory=list)

    def call(self, job: str, **arguments: Any) -> Any:
        if not self._worker:
            self._worker.append(Worker(self.logs / "torch-exporter.log", threads=cpus()))
        try:
            return self._worker[0].call(job, EXPORT_TIMEOUT, **arguments)
        except WorkerFailure:
            self.close()
            raise

    def close(self) -> None:
        while self._worker:
            self._worker.pop().stop()

    def artifact(self, model: str) -> Artifact:
        """The converted model, from the cache or made now.

        Raises:
            XBenchError: the user's file is broken, or the export failed.
        """
        folder = cache.artifact_folder(model)
        if not (folder / "model.json").exists():
            with cache.written(folder) as temporary, _clear(f"cannot export {model}"):
                self.call("export", model=model, folder=str(temporary), file=cache.is_file(model))
        try:
            found = Artifact.read(folder)
            if FACTS - found.info.keys():
                raise ValueError("facts are missing")
        except (OSError, ValueError, AttributeError) as error:
            raise XBenchError(f"{folder} is damaged: delete it") from error
        return found

    def reference(self, artifact: Artifact, mode: str, batch: int, seed: int, data: str) -> Path:
        """The oracle's results for one batch, from the cache or computed now."""
        path = artifact.folder / f"reference-{mode}-{data}-b{batch}-s{seed}-v{ORACLE}.npz"
        if not path.exists():
            where = {"artifact": str(artifact.folder), "path": str(path)}
            with _clear(f"cannot compute the float64 reference of {artifact.name}"):
                self.call("reference", mode=mode, batch=batch, seed=seed, data=data, **where)
        return path

    def first_wrong(
        self, artifact: Artifact, runtime: str, device: str, threads: int, batch: int, timeout: float
    ) -> str | None:
        """Names the first wrong tensor of a runtime, on prefixes of the graph where the whole does not even run."""
        with tempfile.TemporaryDirectory(prefix="xbench-locate-") as place:

            def attempt(nodes: int | None) -> tuple[str | None, dict[str, Any]]:
                folder = Path(tempfile.mkdtemp(dir=place))
                facts = self.call("prefix", artifact=str(artifact.folder), nodes=nodes, folder=str(folder))
                if not facts["outputs"]:
                    return None, facts
                path = self.reference(Artifact.read(folder), "forward", batch, 0, "synthetic")
                worker = Worker(self.logs / "locate.log", device, threads)
                try:
                    where = {"artifact": str(folder), "reference": str(path)}
                    wrong = worker.call(
                        "first_wrong", timeout, runtime=runtime, device=device, threads=threads, **where
                    )
                    return wrong, facts
                finally:
                    worker.stop()

            return _bisect(attempt, sum(artifact.info["operators"].values()))


def _bisect(attempt: Any, nodes: int) -> str | None:
    """The first wrong tensor of the longest prefix that runs; where that one is right, the node behind it."""
    try:
        return _plain(attempt(None)[0])
    except WorkerFailure:
        pass
    good, bad, wrong, failing = 0, nodes, None, None
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            found, _ = attempt(middle)
        except WorkerFailure as error:
            bad, failing = middle, error.message
            continue
        if found:
            return _plain(found)
        good = middle
    return f"node {bad} of {nodes} raises: {failing}" if failing else wrong


def _plain(tensor: str | None) -> str | None:
    return tensor.removeprefix("output/") if tensor else None


@contextlib.contextmanager
def _clear(what: str) -> Iterator[None]:
    """Turns a failed worker into one line for the user."""
    try:
        yield
    except WorkerFailure as error:
        raise XBenchError(error.message if error.status == "ERROR" else f"{what}: {error.message}") from error


ORACLE = 1  # version of the reference files


def converted(artifact: Artifact, runtime: str) -> Path:
    """Where the outcome of converting for one runtime is kept."""
    return artifact.folder / f"converted-{digest(runtime)}.json"


def read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
