"""Results of several folders in one: `xbench import`. Nothing is measured, nothing of the source is changed."""

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
    """What became of the records of one file: how many were added, were there already, or were left out because the
    store has a newer one of that cell, which an older one behind it would replace. `problems` are sentences of lines
    that could not be read."""

    file: str
    added: int = 0
    known: int = 0
    older: int = 0
    machines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def merge(sources: Sequence[Path], out: Path, name: str | None = None) -> list[Merged]:
    """Append what the folders `sources` hold to the stores of the folder `out`, oldest first; one entry a file.

    `name` is what the machine of these records is called from now on; without it a machine is told by its CPU.

    Raises:
        StoreError: a source is no folder of results, a newer xbench wrote into it, or `out` cannot be written.
        Occupied: another process measures into `out`.
    """
    found: dict[str, list[Path]] = {}
    for source in sources:
        paths = sorted(source.glob(FILES)) if source.is_dir() else []
        if not paths:
            raise StoreError(f"no results in {source}: it is no folder with files such as {FILE}")
        if out.exists() and source.samefile(out):
            raise StoreError(f"{source} is the folder that is written: name another --out")
        for path in paths:
            found.setdefault(path.name, []).append(path)
    read = {file: [salvage(path) for path in paths] for file, paths in found.items()}  # all, before anything is written
    with held(out):  # what is measured meanwhile would be newer than what is found there, and stand before ours
        return [_merged(file, read[file], out, name) for file in sorted(read)]


def _merged(file: str, read: Sequence[tuple[list[Record], list[str]]], out: Path, name: str | None) -> Merged:
    store = open_store(out, file)
    told = Merged(file, problems=[words for _, problems in read for words in problems])
    there = salvage(store.path)[0]
    known = {_content(record) for record in there}
    newest = {_cell(record, file): _time(record) for record in there}
    chosen = []
    for record in sorted((each for records, _ in read for each in _named(records, name)), key=_time):
        if _content(record) in known:
            told.known += 1
        elif _time(record) < newest.get(_cell(record, file), ""):
            told.older += 1
        else:
            known.add(_content(record))
            chosen.append(record)
    if chosen:
        store.append(*chosen)
    told.added = len(chosen)
    told.machines = list(dict.fromkeys(label(record.get("machine")) for record in chosen))
    return told


def _named(records: Sequence[Record], name: str | None) -> Iterator[Record]:
    """The records under the machine's name. Their keys differ from those of this machine, on which the same cells are
    still to be measured."""
    for record in records:
        machine = (record.get("machine") or {}) | ({"name": name} if name else {})
        yield record | {"machine": machine, "key": digest(record["key"], name)} if name else record


def _content(record: Record) -> str:
    return digest(json.dumps({key: value for key, value in record.items() if key != "schema"}, sort_keys=True))


def _cell(record: Record, file: str) -> Any:
    """What a later record of the file replaces an earlier one by: a cell is its case, other measurements their key."""
    return label(record.get("machine")), digest(record["case"]) if file == FILE else record["key"]


def _time(record: Record) -> str:
    """When it was measured, in a form that sorts; nothing, which is before all others, where it does not tell."""
    return record.get("time") or ""
