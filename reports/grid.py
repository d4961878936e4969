"""A table of a study as plain data: our columns and the published ones, and the value of a stored cell."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from xbench.store.record import Record, by_name
from xbench.studies import Quote

Value = dict[str, Any]  # status, value, low, high, std, converged, message
Column = dict[str, Value]  # by row


@dataclass(frozen=True)
class Grid:
    """One table. `corner` is the heading of `rows`; `ours` has a column of values for each runtime, `theirs` the
    published ones by tool. Values are in `unit`: s, or none. `quotes` are the sources of the published ones. `axis`
    selects how it is drawn, if there is a picture (`plots`)."""

    part: str
    title: str
    corner: str
    rows: tuple[str, ...]
    ours: dict[str, Column]
    theirs: dict[str, dict[str, float]] = field(default_factory=dict)
    unit: str = "s"
    quotes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    axis: str = ""

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


@dataclass(frozen=True)
class Listing:
    """A table whose cells are text, line by line; `found` is their content for JSON."""

    part: str
    title: str
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    found: Sequence[Any]
    axis: str = ""

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def value_of(record: Record, scale: float = 1.0) -> Value:
    """The time of a cell; None unless its proof passed."""
    times = record["times"] if record["status"] == "PASS" else None
    outcome = {"status": record["status"], "message": record["message"]}
    if not times:
        return outcome | {"value": None}
    names = {"value": "median_s", "low": "low_s", "high": "high_s"}
    bounds = {name: None if (bound := by_name(times)[of]) is None else bound * scale for name, of in names.items()}
    return outcome | bounds | {"converged": times["converged"]}


def columns(records: Iterable[Record], row: Callable[[Record], str], scale: float = 1.0) -> dict[str, Column]:
    """One column per runtime; `row` names a record's row, `scale` is a factor on its time."""
    by_runtime: dict[str, Column] = {}
    for record in records:
        by_runtime.setdefault(label_of(record), {})[row(record)] = value_of(record, scale)
    return by_runtime


def label_of(record: Record) -> str:
    """A runtime's name, with the name of its default, if that has one."""
    return f"{record['case']['runtime']} ({record['note']})" if record["note"] else str(record["case"]["runtime"])


def united(*parts: Iterable[str]) -> tuple[str, ...]:
    """All names, each once, in order of occurrence."""
    return tuple(dict.fromkeys(name for part in parts for name in part))


def quoted(quotes: Iterable[Quote]) -> dict[str, Any]:
    """The published columns, and the lines with their sources."""
    published: dict[str, dict[str, float]] = {}
    for quote in quotes:
        for row, tools in quote.rows.items():
            for tool, value in tools.items():
                published.setdefault(tool, {})[row] = value
    lines = united(f"{', '.join(united(*quote.rows.values()))}: {quote.about}; {quote.source}" for quote in quotes)
    return {"theirs": published, "quotes": lines}
