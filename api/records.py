"""Rows as a list that shows as a table: as text when it is printed, as HTML in a notebook."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xbench.converters.printable import html, visible

Row = Mapping[str, Any]
Cells = Callable[[Row], Sequence[object]]
COLOURS = {"PASS": "#1a7f37", "CONVERTED": "#1a7f37", "UNSUPPORTED": "#0969da"}
OTHER = "#cf222e"  # readable on white, like the others; the text carries the same meaning


class Records(list[dict[str, Any]]):
    """A list of plain dictionaries, one per cell: index it, loop over it, pass it to `pandas.DataFrame` or `json.dump`.

    Printed or in a notebook it is a table of the columns that people read; the dictionaries have all fields.

    Attributes:
        title: The caption of the table.
        header: The column headings.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], title: str, header: Sequence[str], cells: Cells) -> None:
        super().__init__(map(dict, rows))
        self.title, self.header, self._cells = title, tuple(header), cells

    def table(self) -> list[list[str]]:
        """The shown cells, a list per row, under `header`; includes columns that are empty in all rows."""
        return [["" if cell is None else str(cell) for cell in self._cells(row)] for row in self]

    def __str__(self) -> str:
        """The table as text, columns separated by two spaces; columns that are empty in all rows are omitted."""
        rows = [self.header, *self.table()]
        kept = [index for index in range(len(self.header)) if any(row[index] for row in rows[1:])]
        rows = [[visible(row[index]) for index in kept] for row in rows] if kept else []
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([self.title, *lines]) if lines else f"{self.title}: none"

    def _repr_html_(self) -> str:
        """The table for a notebook: everything escaped, with a caption and column and row headings."""
        table = self.table()
        kept = [index for index in range(len(self.header)) if any(row[index] for row in table)]
        head = "".join(f'<th scope="col" style="text-align: left">{html(self.header[index])}</th>' for index in kept)
        body = "".join(
            f"<tr>{''.join(self._cell(row, index, index == kept[0]) for index in kept)}</tr>\n" for row in table
        )
        caption = f'<caption style="text-align: left">{html(self.title)}{"" if table else ": none"}</caption>'
        return f"<table>\n{caption}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"

    def _cell(self, row: Sequence[str], index: int, first: bool) -> str:
        style = "text-align: left"
        if self.header[index] == "status":
            style += f"; color: {COLOURS.get(row[index].partition(' ')[0], OTHER)}; font-weight: bold"
        kind = 'th scope="row"' if first else "td"
        return f'<{kind} style="{style}">{html(row[index])}</{kind[:2]}>'

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Both forms, for IPython."""
        return {"text/plain": str(self), "text/html": self._repr_html_()}


CHECKED = ("model", "runtime", "mode", "status", "class", "x noise", "parameters", "worst tensor", "first wrong tensor")
TIMED = ("model", "mode", "batch")
CONVERTED = ("model", "runtime", "status", "seconds", "files", "message")


def checked(rows: Iterable[Mapping[str, Any]]) -> Records:
    """The rows of `check`."""
    return Records(rows, "the same network?", (*CHECKED, "message"), _checked)


def _checked(row: Row) -> Sequence[object]:
    from xbench.experiments.check import held

    mode = f"{row['steps']} steps" if row["steps"] else row["mode"]
    ratio = None if row["ratio"] is None else f"{row['ratio']:.1f}"
    known = [row["model"], row["runtime"], mode, row["status"], row["class"], ratio, held(row), row["worst_tensor"]]
    return [*known, row["first_wrong"], row["message"]]


def timed(rows: Iterable[Mapping[str, Any]]) -> Records:
    """The rows of `time` and `read`; only PASS has a time."""
    from xbench.reports.formats import HEADER

    return Records(rows, "times, of what was proved equal", (*TIMED, *HEADER, "message"), _timed)


def _timed(row: Row) -> Sequence[object]:
    from xbench.reports.formats import cells

    return [*(row[name] for name in TIMED), *cells(dict(row)), row["message"]]


def converted(rows: Iterable[Mapping[str, Any]]) -> Records:
    """The rows of `convert`."""
    return Records(rows, "converted", CONVERTED, _converted)


def _converted(row: Row) -> Sequence[object]:
    files = ", ".join(row.get("files") or ())
    seconds = None if row.get("seconds") is None else f"{row['seconds']:.1f}"
    return [row["model"], row["runtime"], row["status"], seconds, files, row["message"]]


def evaluated(rows: Iterable[Mapping[str, Any]]) -> Records:
    """The records of `evaluate`, of one network and metric. The reference's value is a column of its own."""
    from xbench.reports.quality.evaluation import caption, header

    every: list[Any] = list(rows)
    *first, difference, changed, size = header(every[0])
    return Records(every, caption(every), (*first, "float64", difference, changed, size, "message"), _evaluated)


def _evaluated(row: Any) -> Sequence[object]:
    from xbench.reports.quality.evaluation import cells, reference

    *first, difference, changed, size = cells(row)
    return [*first, reference(row), difference, changed, size, row["message"]]
