"""Sweeps: rows that differ only in one number, batch or threads, and the time per sample as that number grows."""

from collections.abc import Sequence
from typing import NamedTuple

from xbench.converters.printable import visible
from xbench.reports import SHARED, Row
from xbench.reports.formats import label

AXES = ("batch", "threads")


class Sweep(NamedTuple):
    """The cells of one network and mode that differ in `axis` and the runtime: seconds per sample by runtime and
    number. `row` is one of the rows, for the fields they share."""

    axis: str
    row: Row
    numbers: tuple[int, ...]
    lines: dict[str, dict[int, float]]


def sweeps(found: Sequence[Row], axis: str) -> list[Sweep]:
    """Return the sweeps over `axis`, batch or threads: those of two numbers or more. Failed rows have no time."""
    others = [name for name in SHARED if name != axis]
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in found:
        if row["median_s"] is not None:
            groups.setdefault(tuple(row[name] for name in others), []).append(row)
    made = []
    for rows in groups.values():
        numbers = tuple(sorted({int(row[axis]) for row in rows}))
        if len(numbers) < 2:
            continue
        lines: dict[str, dict[int, float]] = {}
        for row in rows:
            lines.setdefault(visible(label(row)), {})[row[axis]] = row["median_s"] / row["batch"]
        made.append(Sweep(axis, rows[0], numbers, lines))
    return made
