"""Records of several workers as rows (docs/results.md, "Scaling"), and the rows as tables: one per network and kind of
scaling, runtime by runtime, by number of workers. Unless it is PASS, a row has no number."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from xbench.converters.printable import visible
from xbench.reports.formats import label
from xbench.reports.tables import COLOURS, OTHER, Table
from xbench.reports.tables import show as printed
from xbench.reports.tables import to_markdown as as_markdown
from xbench.stats.quantities import number, seconds
from xbench.store.record import NOTHING, Record, by_name, known

Row = dict[str, Any]
CASE = ("model", "runtime", "batch", "device", "threads")
SETTINGS = ("kind", "workers", "shard", "total", "engine", "cpus", "oversubscribed")
INTERVALS = ("iteration_s", "apart_s", "comm_s", "exposed_s", "speed_up")
RESULTS = ("hidden", "samples_per_s", "efficiency", "phases", "messages", "line", "prediction")
MODEL = {"model_s": "iteration_s", "model_speed_up": "speed_up", "model_comm_s": "comm_s", "model_error": "error"}
MODEL |= {"given_apart_s": "given_apart_s", "case": "case"}
MEASURED = ("workers", "iteration", "samples/s", "speed-up", "efficiency", "apart", "all-reduce", "exposed", "hidden")
HEADER = ("runtime", "status", *MEASURED, "model", "model's speed-up", "error")
HIDDEN = {True: "yes", False: "no", None: "?"}


def rows(records: Iterable[Record]) -> list[Row]:
    """One row per record, runtimes in order of occurrence, each by its workers."""
    unsorted = [_row(record) for record in records]
    order = list(dict.fromkeys((_group(row), row["runtime"]) for row in unsorted))
    return sorted(unsorted, key=lambda row: (order.index((_group(row), row["runtime"])), row["workers"]))


def tables(results: Iterable[Row]) -> list[Table]:
    """One table per network and kind of scaling, with the messages below it."""
    made = []
    for group in grouped(results):
        styles = [COLOURS.get(row["status"], OTHER) for row in group]
        body = [cells(row) for row in group]
        made.append(Table(title(group[0]), HEADER, body, words=2, notes=says(group), styles=styles))
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
    batch = f"batch {row['batch']} {'a worker' if row['kind'] == 'weak' else 'in all'}"
    return visible(f"{row['model']} {row['kind']} scaling, {batch}, {row['device']}, {threads} a worker")


def says(group: Sequence[Row]) -> list[str]:
    """The messages of a table's rows, and the engines by their own names."""
    messages = [f"{label(row)}, {row['workers']}: {row['message']}" for row in group if row["message"]]
    engines = dict.fromkeys(f"{row['runtime']}: {row['engine']}" for row in group if row["engine"])
    return [visible(words) for words in (*engines, *messages)]


def cells(row: Row) -> list[str]:
    """The row's cells under `HEADER`."""
    status = " ".join(word for word in (row["status"], row["class"]) if word)
    several = row["workers"] > 1 and row["status"] == "PASS" and row["comm_s"] is not None
    shown = [seconds(_middle(row["iteration_s"])), number(row["samples_per_s"]), number(_middle(row["speed_up"]))]
    shown += [_percent(row["efficiency"])]
    shown += [_signed(_middle(row[name])) for name in ("apart_s", "comm_s", "exposed_s")]
    shown += [HIDDEN[row["hidden"]] if several else "", seconds(row["model_s"]), number(row["model_speed_up"])]
    error = "" if row["model_error"] is None else f"{row['model_error']:+.0%}"
    return [visible(label(row)), visible(status), str(row["workers"]), *shown, error]


def _row(record: Record) -> Row:
    figures, passed = by_name(known(record["scaling"])), record["status"] == "PASS"
    row = {name: by_name(record["case"])[name] for name in CASE} | {name: figures[name] for name in SETTINGS}
    row |= {name: figures[name] if passed else None for name in (*INTERVALS, *RESULTS)}
    prediction = row["prediction"] or {}
    row |= {name: prediction.get(source) for name, source in MODEL.items()}
    parity = record["parity"] or NOTHING
    row |= {"class": parity.get("class"), "ratio": parity.get("ratio"), "proof": figures["proof"]}
    return row | {name: by_name(record)[name] for name in ("status", "note", "message", "time")}


def _middle(interval: dict[str, float | None] | None) -> float | None:
    return interval["median"] if interval else None


def _signed(value: float | None) -> str:
    """Seconds that may be negative, such as a difference."""
    return f"-{seconds(-value)}" if value is not None and value < 0 else seconds(value)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _group(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("model", "kind", "batch", "device", "threads"))


def grouped(results: Iterable[Row]) -> list[list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in results:
        groups.setdefault(_group(row), []).append(row)
    return list(groups.values())
