"""Records of loads as rows (docs/results.md, "Loads"), and the rows as tables: the best first, failures last, without
numbers."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from xbench.converters.printable import visible
from xbench.reports.formats import label
from xbench.reports.tables import COLOURS, OTHER, Table
from xbench.reports.tables import show as printed
from xbench.reports.tables import to_markdown as as_markdown
from xbench.stats.quantities import number, seconds
from xbench.store.record import NOTHING, Record, by_name

Row = dict[str, Any]
SETTINGS = ("scenario", "samples_per_query", "percentile", "bound_s")
MEASURED = ("queries", "latency_s", "queries_per_s", "samples_per_s", "step_s", "cpus")
CASE = ("model", "runtime", "batch", "device", "threads", "precision", "plane")
LOWER = ("single-stream", "multi-stream")  # is better: these are ranked by latency
BOUNDS = "the bounds of these servers differ, each by its own single stream: --latency-ms gives all of them one"


def rows(records: Iterable[Record]) -> list[Row]:
    """One row per record, scenario by scenario, the best first: streams by their median latency, offline by samples per
    second, servers by the highest rate. Unless it is PASS, a record has no number."""
    unsorted = [_row(record) for record in records]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in unsorted:
        groups.setdefault(_group(row), []).append(row)
    return [row for each in groups.values() for row in sorted(each, key=_place)]


def tables(results: Iterable[Row]) -> list[Table]:
    """One table per scenario, with the messages below it."""
    made = []
    for group in grouped(results):
        body = [cells(row, group) for row in group]
        notes = [f"{label(row)}: {row['message']}" for row in group if row["message"]]
        notes += [BOUNDS] if _bounds_differ(group) else []
        styles = [COLOURS.get(row["status"], OTHER) for row in group]
        made.append(Table(title(group[0]), header(group), body, words=2, notes=notes, styles=styles))
    return made


def show(found: Iterable[Row], console: Console) -> None:
    """Print the tables."""
    printed(tables(found), console)


def to_markdown(found: Iterable[Row]) -> str:
    """The tables in Markdown."""
    return as_markdown(tables(found))


def title(row: Row) -> str:
    """The fields shared by all rows of a table."""
    threads = "1 thread" if row["threads"] == 1 else f"{row['threads']} threads"
    parts = [f"{row['model']} {row['scenario']}", f"batch {row['batch']}", row["device"], threads]
    parts += [f"{row['samples_per_query']} samples a query"] if row["scenario"] == "multi-stream" else []
    parts += [f"p{row['percentile']:g} within the bound"] if row["scenario"] == "server" else []
    return visible(", ".join(parts))


def header(group: Sequence[Row]) -> list[str]:
    """The columns of a scenario's table."""
    offline, server = (group[0]["scenario"] == name for name in ("offline", "server"))
    shown = [] if offline else [f"p{percent}" for percent in _percents(group)]
    pace = [] if offline else ["highest rate/s" if server else "queries/s"]
    count = "samples" if offline else "queries"  # offline there is one query
    return ["runtime", "status", *shown, *pace, "samples/s", *(["bound"] if server else []), count]


def cells(row: Row, group: Sequence[Row]) -> list[str]:
    """The row's cells under `header`."""
    texts = {f"p{percent}": seconds((row["latency_s"] or {}).get(percent)) for percent in _percents(group)}
    status = " ".join(word for word in (row["status"], row["class"]) if word)
    texts |= {"runtime": visible(label(row)), "status": visible(status), "bound": seconds(row["bound_s"])}
    texts |= {name: number(row["queries_per_s"]) for name in ("highest rate/s", "queries/s")}
    texts |= {"samples/s": number(row["samples_per_s"]), "queries": str(row["queries"] or "")}
    texts["samples"] = str(row["samples_per_query"] if row["queries"] else "")
    return [texts[name] for name in header(group)]


def _row(record: Record) -> Row:
    load, passed = by_name(record["load"]), record["status"] == "PASS"
    row = {name: by_name(record["case"])[name] for name in CASE} | {name: load[name] for name in SETTINGS}
    row |= {name: load[name] if passed else None for name in MEASURED}
    row["bound_s"] = row["bound_s"] if passed and row["scenario"] == "server" else None
    row["class"] = (record["parity"] or NOTHING).get("class")
    return row | {name: by_name(record)[name] for name in ("status", "note", "message", "time")}


def _group(row: Row) -> tuple[Any, ...]:
    names = (*(name for name in CASE if name != "runtime"), "scenario", "percentile")
    streams = row["samples_per_query"] if row["scenario"] == "multi-stream" else None
    return (*(row[name] for name in names), streams)


def grouped(results: Iterable[Row]) -> list[list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in results:
        groups.setdefault(_group(row), []).append(row)
    return list(groups.values())


def _place(row: Row) -> tuple[bool, bool, float]:
    """The sort key of a row within its table."""
    if row["scenario"] in LOWER:
        value = (row["latency_s"] or {}).get("50")
    else:
        value = -row["samples_per_s"] if row["samples_per_s"] else None
    return row["status"] != "PASS", value is None, value or 0.0


def _percents(group: Iterable[Row]) -> list[str]:
    percents = {percent for row in group for percent in row["latency_s"] or {}}
    return sorted(percents or {"50", "90", "99"}, key=float)


def _bounds_differ(group: Iterable[Row]) -> bool:
    return len({row["bound_s"] for row in group} - {None}) > 1
