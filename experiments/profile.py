"""Layer by layer: what each takes of a forward pass, as the runtime itself tells it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from xbench.case import Case, digest
from xbench.converters.artifact import Artifact
from xbench.converters.printable import shell
from xbench.proof.blame import sound
from xbench.proof.opening import opened
from xbench.proof.proof import outcome
from xbench.proof.record import Record, base, key
from xbench.runtimes import row_of
from xbench.workers.prepare import Exporter
from xbench.workers.worker import WorkerFailure

FILE = "layers.jsonl"
PASSES = 20


def run(
    case: Case, artifact: Artifact, exporter: Exporter, timeout: float, logs: Path, say: Callable[[str], None]
) -> Record:
    """The record of one runtime, in mode forward; it is proved as it is when it tells of its layers."""
    (record,) = sound(lambda _: [_run(case, artifact, exporter, timeout, logs, say)], artifact, exporter)
    return record


def _run(
    case: Case, artifact: Artifact, exporter: Exporter, timeout: float, logs: Path, say: Callable[[str], None]
) -> Record:
    record = base(case, artifact, "layers") | {"profile": None, "key": named(case, artifact)}
    record["command"] = _command(case)
    more = row_of(case.runtime).layers
    if more is None:
        message = f"{case.runtime} compiles a network as one, and tells of no single layer"
        return record | {"status": "UNSUPPORTED", "message": message}
    say(f"{case.runtime}: load, compile, check")
    found, worker = opened(told_to(case, more), record, artifact, exporter, timeout, 0.1, logs)
    if worker is None:
        return found
    try:
        profile: dict[str, Any] = worker.call("timed_layers", timeout, count=PASSES)
        return found | {"times": None, "profile": profile}
    except WorkerFailure as failure:
        return found | {"times": None} | outcome(failure)
    finally:
        worker.stop()


def told_to(case: Case, more: str) -> Case:
    """The cell, with what its runtime must be told to tell of its layers."""
    return replace(case, runtime=f"{case.runtime}{',' if ':' in case.runtime else ':'}{more}") if more else case


def named(case: Case, artifact: Artifact) -> str:
    """What a record of layers is filed under."""
    return digest(key(case, artifact), "layers")


def _command(case: Case) -> str:
    """The command line that measures this again."""
    words = ["xbench", "profile", case.model, "--runtime", case.runtime, "--batch", case.batch]
    return shell(*words, "--threads", case.threads, "--device", case.device, "--rerun")
