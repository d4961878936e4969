"""The result of `xbench compare` as JSON, Markdown, or a table for the terminal."""

import csv
import dataclasses
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from xbench.case import SYNTHETIC, data_in_words
from xbench.converters import printable
from xbench.converters.printable import visible
from xbench.reports.tables import Table
from xbench.reports.tables import show as printed
from xbench.reports.tables import to_markdown as as_markdown
from xbench.stats.quantities import number, seconds
from xbench.store.comparison import Change
from xbench.store.record import NOTHING, Record

HEADER = ("cell", "old", "new", "new / old", "95 % interval", "runs", "verdict")
COLOURS = {"lost": "bold red", "slower": "red", "faster": "green", "fixed": "green", "same": "dim"}


def to_json(changes: Sequence[Change]) -> str:
    """Return the changes as a JSON list of objects (docs/results.md, "Comparisons")."""
    return printable.json([_plain(change) for change in changes], 2) + "\n"


def to_csv(changes: Sequence[Change]) -> str:
    """Return the same as CSV with a header; `versions` is JSON, null the empty field."""
    text, rows = io.StringIO(), [_plain(change) for change in changes]
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["verdict"], lineterminator="\n")
    writer.writeheader()
    for row in (row | {"versions": printable.json(row["versions"], None)} for row in rows):
        writer.writerow({name: printable.csv(value) for name, value in row.items()})
    return text.getvalue()


def table(changes: Sequence[Change]) -> Table:
    """The changes, and below them why cells no longer pass and which versions changed."""
    several = has_machines(changes)
    styles = [COLOURS.get(change.verdict, "yellow") for change in changes]
    broken = [change for change in changes if change.verdict in ("lost", "failing")]
    notes = [f"{name(each)}: {each.new['status']} {each.new['message'] or ''}" for each in broken if each.new]
    versions = {package: pair for change in changes for package, pair in change.versions.items()}
    notes += [f"{package}: {old} -> {new}" for package, (old, new) in sorted(versions.items())]
    body = [cells(change, several) for change in changes]
    return Table("", HEADER, body, ending=1, notes=notes, styles=styles, styled=len(HEADER) - 1)


def to_markdown(changes: Sequence[Change]) -> str:
    """Return the table as Markdown."""
    return as_markdown([replace(table(changes), notes=())])


def show(changes: Sequence[Change], console: Console) -> None:
    """Print the table."""
    printed([table(changes)], console)


def name(change: Change, several: bool = False) -> str:
    """Return the words that distinguish a cell from others; the machine if there are `several`."""
    case = change.case
    words = [f"{case.model} {case.mode} batch {case.batch}", case.runtime]
    words += [f"{case.device}, {case.threads} thread{'s' * (case.threads > 1)}", *([change.machine] if several else [])]
    words += [data_in_words(case.data)] if case.data != SYNTHETIC else []
    return visible(", ".join(words))


def has_machines(changes: Sequence[Change]) -> bool:
    """Return whether the changes are of several machines."""
    return len({change.machine for change in changes}) > 1


def cells(change: Change, several: bool = False) -> list[str]:
    """Return the cells under `HEADER`."""
    ratio = change.ratio
    interval = f"{number(ratio.low)} to {number(ratio.high)}" if ratio and ratio.low and ratio.high else ""
    runs = f"{change.runs[0]} + {change.runs[1]}" if ratio else ""
    times = [_time(side) for side in (change.old, change.new)]
    return [name(change, several), *times, number(ratio.value) if ratio else "", interval, runs, change.verdict]


def _time(record: Record | None) -> str:
    if record is None:
        return ""
    times = record.get("times") or NOTHING
    return seconds(times.get("median_s")) if record["status"] == "PASS" and times else str(record["status"])


def _plain(change: Change) -> dict[str, Any]:
    ratio = change.ratio
    sides = {
        f"{word}_{field}": (record or {}).get(field)
        for word, record in (("old", change.old), ("new", change.new))
        for field in ("status", "message")
    }
    return {
        **dataclasses.asdict(change.case),
        "machine": change.machine,
        "verdict": change.verdict,
        "ratio": ratio and ratio.value,
        "ratio_low": ratio and ratio.low,
        "ratio_high": ratio and ratio.high,
        "p": change.p,
        "old_runs": change.runs[0],
        "new_runs": change.runs[1],
        **sides,
        "versions": {package: list(pair) for package, pair in change.versions.items()},
    }
