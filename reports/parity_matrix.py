"""The parity matrix: networks by runtimes, in each place the worst result there."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from xbench.converters.printable import visible
from xbench.reports import Row
from xbench.reports.formats import label
from xbench.stats.quantities import number
from xbench.store.record import NOTHING, Record

# The worse, the later: the worst represents a place of several cells, which differ in batch, threads and the like.
ORDER = ("UNSUPPORTED", "PASS", "UNVERIFIED", "TIMEOUT", "OOM", "CRASH", "FAIL")
WORDS = {"UNSUPPORTED": "n/a", "UNVERIFIED": "unverified", "TIMEOUT": "timeout", "OOM": "memory", "CRASH": "crash"}
STEPS = (1.0, 4.0, 16.0)  # noise floors, between the shades of what passed
KEY = ("model", "mode", "device", "precision", "machine")


class Place(NamedTuple):
    """One place of the matrix: the row number of the worst cell, its parity, and the number of cells that it
    represents."""

    row: int
    parity: Mapping[str, Any]
    cells: int
    status: str

    @property
    def words(self) -> str:
        """The text of the place: the error in noise floors, or the status; never only a colour."""
        ratio = self.parity.get("ratio")
        if self.status == "PASS":
            return number(ratio) if ratio is not None else "pass"
        if self.status == "FAIL":
            return f"FAIL {number(ratio)}" if ratio is not None else "FAIL"
        return WORDS.get(self.status, visible(self.status).lower())

    @property
    def shade(self) -> str:
        """The name of its colour: p0 to p3 if it passed, else the status."""
        if self.status != "PASS":
            return {"FAIL": "bad", "UNSUPPORTED": "none", "UNVERIFIED": "open"}.get(self.status, "lost")
        ratio = self.parity.get("ratio") or 0.0
        return "p" + str(sum(ratio > step for step in STEPS))


class Matrix(NamedTuple):
    """`lines` have one place per column, None if nothing was tried; `keys` identify the lines: model, mode, device,
    precision, machine."""

    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    lines: tuple[tuple[Place | None, ...], ...]


def proof(record: Record) -> dict[str, Any]:
    """Return a record's proof, only fields as documented in docs/results.md; the rest is left out."""
    parity = record.get("parity") or NOTHING
    fields: dict[str, Any] = {
        name: visible(parity[name]) for name in ("worst_tensor", "first_wrong") if isinstance(parity.get(name), str)
    }
    fields |= {name: parity[name] for name in ("ratio", "rel_l2", "tensors", "steps") if is_number(parity.get(name))}
    seeds = parity.get("seeds")
    return fields | {"seeds": [each for each in seeds if is_number(each)] if isinstance(seeds, list) else []}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def matrix(cells: Sequence[tuple[Row, Record]]) -> Matrix:
    """Return the parity matrix of rows and their records."""
    columns = tuple(dict.fromkeys(visible(label(row)) for row, _ in cells))
    places: dict[tuple[str, ...], dict[str, list[tuple[int, Row, Record]]]] = {}
    for number_, (row, record) in enumerate(cells):
        key = tuple(str(row.get(name) or "") for name in KEY)
        places.setdefault(key, {}).setdefault(visible(label(row)), []).append((number_, row, record))
    lines = tuple(tuple(_worst(line.get(name, ())) for name in columns) for line in places.values())
    return Matrix(columns, tuple(places), lines)


def _worst(cells: Iterable[tuple[int, Row, Record]]) -> Place | None:
    each = list(cells)
    if not each:
        return None
    number_, row, record = max(each, key=lambda one: _badness(one[1], one[2]))
    return Place(number_, proof(record), len(each), str(row["status"]))


def _badness(row: Row, record: Record) -> tuple[int, float]:
    status = row["status"]
    return ORDER.index(status) if status in ORDER else len(ORDER), proof(record).get("ratio", 0.0)
