"""A suite: cells of any networks, measured group by group and stored one by one; what is stored already is left out."""

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from xbench.case import Case
from xbench.converters.artifact import Artifact
from xbench.experiments import session
from xbench.experiments.choose import batch_of
from xbench.experiments.settings import Protocol
from xbench.proof.record import Record, expected, key
from xbench.store.results import Store, latest
from xbench.workers.prepare import Exporter

FAILED = ("FAIL", "UNVERIFIED", "OOM", "TIMEOUT", "CRASH")
AGAIN = ("none", "failed", "all")  # what is stored already and yet measured anew


class Progress(typing.Protocol):
    """Whoever shows how it goes."""

    def say(self, words: str) -> None: ...
    def skip(self, number: int = 1) -> None: ...
    def finish(self, words: str) -> None: ...


def cells(
    models: Sequence[str],
    runtimes: Sequence[str],
    modes: Sequence[str],
    batches: Sequence[int],
    told: Mapping[str, Any],
) -> list[Case]:
    """Every combination, group by group; without batch sizes each model's own. `told` are the other fields of all."""
    return [
        Case(model, runtime, mode, batch, **told)
        for model in models
        for batch in batches or [batch_of(model, 1)]
        for mode in modes
        for runtime in runtimes
    ]


def measure(
    cases: Sequence[Case],
    artifact_of: Callable[[str], Artifact | None],
    exporter: Exporter,
    store: Store,
    protocol: Protocol,
    logs: Path,
    progress: Progress,
    strict: bool = True,
    again: str = "none",
) -> tuple[list[Record], int]:
    """The record of every cell, and how many were stored before. `artifact_of` gives None for a model that cannot be
    exported, whose cells are left out. Where not `strict`, so are those that nobody would ask for (`expected`)."""
    known, kept = latest(store.read()), 0
    keys: list[str] = []
    for group, found in groupby(cases, key=lambda case: case.group):
        members = list(found)
        progress.say(f"{group[0]}: export to ONNX")
        artifact = artifact_of(members[0].model)
        if artifact is None:
            progress.skip(len(members))
            continue
        chosen = {key(case, artifact): case for case in members if strict or expected(case, artifact)}
        keys += chosen
        todo = [case for name, case in chosen.items() if wanted(known.get(name), again)]
        kept += len(chosen) - len(todo)
        progress.skip(len(members) - len(todo))
        for record in session.run(todo, artifact, exporter, protocol, logs, progress.say):
            store.append(record)
            known[record["key"]] = record
            progress.finish(line(record))
    return [known[name] for name in keys if name in known], kept


def each(
    cases: Sequence[Case],
    names: Callable[[Case], Sequence[str]],
    run: Callable[[Case], Iterable[Record]],
    store: Store,
    progress: Progress,
    again: str = "none",
    words: Callable[[Record], str] | None = None,
) -> tuple[list[Record], int]:
    """The records of cells that are measured by themselves, and how many were stored before. `names` are what those of
    a cell are filed under; it is measured where one of them is missing, and every record is stored when it is there.
    `words` say what became of it."""
    known, found, kept = latest(store.read()), [], 0
    for case in cases:
        filed = names(case)
        if not any(wanted(known.get(name), again) for name in filed):
            found += [known[name] for name in filed]
            kept += len(filed)
            progress.skip(len(filed))
            continue
        for record in run(case):
            store.append(record)
            found.append(record)
            progress.finish((words or said)(record))
    return found, kept


def said(record: Mapping[str, Any]) -> str:
    """What became of a cell that is measured by itself, for a log."""
    case, words = record["case"], filter(None, (record["status"], record["message"]))
    return f"{case['model']} {case['runtime']}: {': '.join(words)}"


def wanted(record: Mapping[str, Any] | None, again: str) -> bool:
    """Whether a cell is measured, given what is stored of it."""
    return record is None or again == "all" or (again == "failed" and record["status"] in FAILED)


def line(record: Mapping[str, Any]) -> str:
    """What became of a cell, for a log."""
    case, times = record["case"], record["times"]
    name = f"{case['model']} {case['runtime']} {case['mode']}"
    if not times:
        return f"{name}: {record['status']}: {record['message']}"
    return f"{name}: {record['status']}, {times['median_s'] * 1e3:.3f} ms" + (
        "" if times["converged"] else ", not converged"
    )
