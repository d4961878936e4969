"""Merges the results of several folders: `xbench import`. Nothing is measured, and the sources are not changed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xbench.case import digest
from xbench.host.machine import label
from xbench.store.record import Record
from xbench.store.results import FILE, StoreError, open_store, salvage
from xbench.store.turn import held

FILES = "*.jsonl"  # each kind of measurement has its own


@dataclass
class Merged:
    """The outcome for the records of one file: how many were added, were there already, or were left out because the
    store has a newer one of that cell, which an older one after it would replace. `problems` are sentences about lines
    that could not be read."""

    file: str
    added: int = 0
    known: int = 0
    older: int = 0
    machines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def merge(sources: Sequence[Path], out: Path, name: str | None = None) -> list[Merged]:
    """Append what the folders `sources` hold to the stores of the folder `out`, oldest first; one entry per file.

    `name` becomes the name of these records' machine; without it a machine is identified by its CPU.

    Raises:
        StoreError: a source is no folder of results, a newer xbench wrote it, or `out` cannot be written.
        Occupied: another process measures into `out`.
    """
    files: dict[str, list[Path]] = {}
    for source in sources:
        paths = sorted(source.glob(FILES)) if source.is_dir() else []
        if not paths:
            raise StoreError(f"no results in {source}: it is no folder with files such as {FILE}")
        if out.exists() and source.samefile(out):
            raise StoreError(f"{source} is the folder that is written: name another --out")
        for path in paths:
            files.setdefault(path.name, []).append(path)
    read = {file: [salvage(path) for path in paths] for file, paths in files.items()}  # all, before anything is written
    with held(out):  # else newer measurements could be written before the merged ones
        return [_merged(file, read[file], out, name) for file in sorted(read)]


def _merged(file: str, read: Sequence[tuple[list[Record], list[str]]], out: Path, name: str | None) -> Merged:
    store = open_store(out, file)
    merged = Merged(file, problems=[words for _, problems in read for words in problems])
    present = salvage(store.path)[0]
    known = {_content(record) for record in present}
    newest = {_cell(record, file): _time(record) for record in present}
    chosen = []
    for record in sorted((each for records, _ in read for each in _named(records, name)), key=_time):
        if _content(record) in known:
            merged.known += 1
        elif _time(record) < newest.get(_cell(record, file), ""):
            merged.older += 1
        else:
            known.add(_content(record))
            chosen.append(record)
    if chosen:
        store.append(*chosen)
    merged.added = len(chosen)
    merged.machines = list(dict.fromkeys(label(record.get("machine")) for record in chosen))
    return merged


def _named(records: Sequence[Record], name: str | None) -> Iterator[Record]:
    """The records under the machine's name. Their keys differ from those of this machine, where the same cells are yet
    to be measured."""
    for record in records:
        machine = (record.get("machine") or {}) | ({"name": name} if name else {})
        yield record | {"machine": machine, "key": digest(record["key"], name)} if name else record


def _content(record: Record) -> str:
    return digest(json.dumps({key: value for key, value in record.items() if key != "schema"}, sort_keys=True))


def _cell(record: Record, file: str) -> Any:
    """The identity by which a later record replaces an earlier one: the case for a cell, the key for others."""
    return label(record.get("machine")), digest(record["case"]) if file == FILE else record["key"]


def _time(record: Record) -> str:
    """When it was measured, in a sortable form; empty, which sorts first, if the record has no time."""
    return record.get("time") or ""
