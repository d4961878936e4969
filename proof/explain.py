"""Explains why a cell failed: compares its results with the oracle under each mistake (`parity/explain/`)."""

from pathlib import Path
from typing import Any

from xbench.case import AUTO, Case
from xbench.converters import temporary
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.parity.verdict import REFERENCE
from xbench.workers.prepare import Exporter
from xbench.workers.worker import WorkerFailure, worker_of

TRAINED = ("gradient/", "weight/", "optimizer/", "loss/")  # tensors of a training step
TIMEOUT = 3600.0  # seconds for all mistakes of a training step


def explain(
    case: Case, artifact: Artifact, first_wrong: str | None, exporter: Exporter, timeout: float, logs: Path
) -> list[dict[str, Any]]:
    """The mistakes that explain a failed cell, the likeliest first; empty if no known one does.

    If the first wrong tensor is one of the forward pass, that is explained: training is then wrong as well.

    Raises:
        XBenchError: the runtime or the oracle failed on the way.
    """
    trained = first_wrong is None or first_wrong == "loss" or first_wrong.startswith(TRAINED)
    look = _of_training if trained and case.mode != "forward" else _of_forward
    with temporary.folder() as place:
        try:
            return look(case, artifact, exporter, timeout, logs, place)
        except WorkerFailure as failure:
            raise XBenchError(failure.message) from failure


def _of_forward(
    case: Case, artifact: Artifact, exporter: Exporter, timeout: float, logs: Path, folder: Path
) -> list[dict[str, Any]]:
    """Mistakes of the operator that makes the first wrong tensor; all tensors are outputs."""
    every = folder / "every"
    every.mkdir()
    reference = exporter.reference(artifact, "forward", case.batch, 0, case.data)
    exporter.call("mark", artifact=str(artifact.folder), reference=str(reference), folder=str(every))
    expected, given = every / REFERENCE, folder / "forward.npz"
    wrong = _answer(case, every, "forward", exporter, timeout, logs, expected, given)
    if wrong is None:
        return []
    where = {"artifact": str(every), "reference": str(expected), "candidate": str(given)}
    mistakes: list[dict[str, Any]] = exporter.call(
        "explain_forward", TIMEOUT, tensor=wrong.removeprefix("output/"), **where
    )
    return mistakes


def _of_training(
    case: Case, artifact: Artifact, exporter: Exporter, timeout: float, logs: Path, folder: Path
) -> list[dict[str, Any]]:
    expected = exporter.reference(artifact, case.mode, case.batch, 0, case.data, case.steps)
    given = folder / "trained.npz"
    _answer(case, artifact.folder, case.mode, exporter, timeout, logs, expected, given)
    where = {"artifact": str(artifact.folder), "reference": str(expected), "candidate": str(given)}
    mistakes: list[dict[str, Any]] = exporter.call("explain_training", TIMEOUT, mode=case.mode, **where)
    return mistakes


def _answer(
    case: Case,
    artifact: Path,
    mode: str,
    exporter: Exporter,
    timeout: float,
    logs: Path,
    reference: Path,
    path: Path,
) -> str | None:
    """Writes what the runtime computes, and returns the first wrong tensor."""
    worker = worker_of(case, logs / "explain.log", timed=False, templates=exporter.templates)
    try:
        settings = {"runtime": case.runtime, "device": case.device, "threads": case.threads, "mode": mode}
        settings["layout"] = "nchw" if case.layout == AUTO else case.layout
        wrong: str | None = worker.call(
            "answer", timeout, artifact=str(artifact), reference=str(reference), path=str(path), **settings
        )
        return wrong
    finally:
        worker.stop()
