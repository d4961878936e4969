"""Rows as text: JSON, CSV and Markdown, and the cells that Markdown and the terminal share.

A `View` defines the columns of a table: `TIMES`, or one of `cost`.
"""

import csv
import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xbench.case import Case, data_in_words
from xbench.converters import printable
from xbench.converters.printable import visible
from xbench.reports import COLUMNS, Row, grouped, is_ranked
from xbench.stats.quantities import number, seconds

HEADER = ("runtime", "status", "median", "95 % interval", "ratio", "compile", "load", "first call", "samples/s")
TIE = "~ the interval of the ratio holds 1: not told apart from the fastest"


class View(NamedTuple):
    """A kind of table: its header, whose first two columns are words; the cells of a row under it; the columns to drop
    first if the terminal is narrow; a line about a group, under its title; notes below all tables."""

    header: tuple[str, ...]
    cells: Callable[[Row], list[str]]
    dispensable: tuple[str, ...]
    about: Callable[[Sequence[Row]], str]
    notes: Callable[[Sequence[Row]], list[str]]


def to_json(found: Sequence[Row]) -> str:
    """Return the rows as a JSON list of objects."""
    return printable.json(list(found), 2) + "\n"


def to_csv(found: Sequence[Row]) -> str:
    """Return the rows as CSV with a header; null is the empty field, booleans are `true` or `false`; text that a
    spreadsheet would evaluate gets a leading apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in found:
        writer.writerow(printable.csv(row[name]) for name in COLUMNS)
    return text.getvalue()


def to_markdown(found: Sequence[Row], view: View | None = None) -> str:
    """Return one Markdown table per group; of the times, unless another view is given."""
    view = view or TIMES
    several = has_machines(found)
    parts = [_markdown_table(rows, view, several) for rows in grouped(found)]
    return "\n".join([*parts, *(printable.markdown(note) + "\n" for note in view.notes(found))])


def title(row: Row, several: bool = False) -> str:
    """Return the heading of the row's group: the fields all its cells share, without plain defaults; the machine if
    there are `several`."""
    return visible(f"{row['model']} {row['mode']}, batch {row['batch']}, {conditions(row, several)}")


def conditions(row: Row, several: bool = False) -> str:
    """Return the part of a heading after the model, the mode and the batch."""
    parts = [row["device"], "1 thread" if row["threads"] == 1 else f"{row['threads']} threads", *settings(row)]
    parts += [row["machine"]] if several else []
    return visible(", ".join(map(str, parts)))


def settings(row: Row) -> list[str]:
    """Return the settings of a row that are not the default: its precision, layout, plane, data and tuning."""
    plain = Case(model="", runtime="")
    parts = [row[name] for name in ("precision", "layout", "plane") if row[name] != getattr(plain, name)]
    parts += [data_in_words(row["data"])] if row["data"] != plain.data else []
    parts += [f"tune {row['tune']}"] if row["tune"] != plain.tune else []
    return parts + ([f"{row['tune_budget']:g} s"] if row["tune_budget"] else [])


def cells(row: Row) -> list[str]:
    """Return the row's cells under `HEADER`; a row that is not ranked shows no time."""
    ratio = number(row["ratio"])
    if is_tie(row):
        ratio = f"~{ratio}"
    times = [seconds(row["compile_s"]), seconds(row["load_s"]), first_call(row)]
    shown = [seconds(row["median_s"]), interval(row), ratio, *times, number(row["samples_per_s"])]
    return with_name(row, shown)


def first_call(row: Row) -> str:
    """Return the time of the first call, and its time without compiled kernels on disk."""
    kept = row["anew_s"] not in (None, row["first_s"])
    return f"{seconds(row['first_s'])} ({seconds(row['anew_s'])} anew)" if kept else seconds(row["first_s"])


def with_name(row: Row, shown: list[str]) -> list[str]:
    """Return the row's name and status, followed by `shown` if it is ranked."""
    status = " ".join(word for word in (row["status"], row["class"], row["autodiff"]) if word)
    return [visible(label(row)), visible(status), *(shown if is_ranked(row) else [""] * len(shown))]


def label(row: Row) -> str:
    """Return the runtime's name with its note: `tvm (untuned)`."""
    return f"{row['runtime']} ({row['note']})" if row["note"] else str(row["runtime"])


def remark(row: Row) -> str:
    """Return the message of the row as one printable line, or an empty string."""
    return visible(row["message"] or "")


def interval(row: Row) -> str:
    """Return half the width of the 95 % interval in per cent of the median, and whether the target was missed."""
    width = "width unknown"
    if row["low_s"] is not None and row["high_s"] is not None:
        width = f"±{number(50 * (row['high_s'] - row['low_s']) / row['median_s'])} %"
    return width if row["converged"] else f"not converged {width}"


def is_tie(row: Row) -> bool:
    """Return whether the row cannot be distinguished from the fastest of its group."""
    if row["ratio"] is None or row["ratio_low"] is None or row["ratio_high"] is None:
        return False
    return bool(row["ratio_low"] <= 1 <= row["ratio_high"] and row["ratio_low"] < row["ratio_high"])


def has_ties(rows: Sequence[Row]) -> bool:
    """Return whether the sign `~` needs its explanation."""
    return any(is_tie(row) for row in rows)


def has_machines(rows: Sequence[Row]) -> bool:
    """Return whether the rows are of several machines, so that a group must name its own."""
    return len({row["machine"] for row in rows}) > 1


TIMES = View(
    HEADER,
    cells,
    dispensable=("load", "samples/s", "first call", "compile"),
    about=lambda found: "",
    notes=lambda found: [TIE] if has_ties(found) else [],
)


def _markdown_table(rows: list[Row], view: View, several: bool) -> str:
    """Return the heading and the table of one group, with messages, if any, as the last column."""
    remarks = [remark(row) for row in rows]
    header = [*view.header, "message"] if any(remarks) else [*view.header]
    body = [[*view.cells(row), text][: len(header)] for row, text in zip(rows, remarks, strict=True)]
    align = ["---", "---", *["--:"] * (len(view.header) - 2), "---"][: len(header)]
    about = [printable.markdown(view.about(rows)), ""] if view.about(rows) else []
    heading = f"### {printable.markdown(title(rows[0], several))}"
    return "\n".join([heading, "", *about, *printable.markdown_table(header, align, body), ""])
