"""Rows as tables for the terminal: one per group, the fastest first, unranked rows last, with the reason."""

from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xbench.converters.printable import visible
from xbench.reports import Row, grouped
from xbench.reports.formats import TIMES, View, has_machines, label, remark, title
from xbench.reports.sweeps import ShapeSweep, shape_sweeps, shape_table
from xbench.reports.tables import COLOURS, OTHER, show

GAP = 2


def show_sweeps(found: Sequence[Row], console: Console) -> list[ShapeSweep]:
    """Print the rows, each sweep over shapes as one table; return the sweeps."""
    made = shape_sweeps(found)
    swept = {id(row) for sweep in made for line in sweep.cells.values() for row in line.values()}
    if others := [row for row in found if id(row) not in swept]:
        show_table(others, console)
    show(map(shape_table, made), console)
    return made


def show_table(found: Sequence[Row], console: Console, view: View = TIMES) -> None:
    """Print the rows: one table per group, messages below it, never wrapped so that they can be searched and copied."""
    widths = _widths(found, view)
    hidden, several = _hidden(widths, console.width, view), has_machines(found)
    for rows in grouped(found):
        console.print(Text(title(rows[0], several), style="bold"), soft_wrap=True)
        if view.about(rows):
            console.print(Text(view.about(rows), style="dim"), soft_wrap=True)
        console.print(_table(rows, widths, hidden, view))
        for row in rows:
            if remark(row):
                console.print(_message(row), soft_wrap=True)
        console.print()
    for note in view.notes(found):
        console.print(Text(note, style="dim"), soft_wrap=True)
    if hidden:
        console.print(Text(f"not shown for want of width: {', '.join(sorted(hidden))}", style="dim"), soft_wrap=True)


def _table(rows: Sequence[Row], widths: dict[str, int], hidden: set[str], view: View) -> Table:
    """Return the table of one group."""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    shown = [name for name in view.header if name not in hidden]
    for name in shown:
        justify: Literal["left", "right"] = "left" if name in view.header[:2] else "right"
        table.add_column(name, justify=justify, min_width=widths[name], no_wrap=True, overflow="ellipsis")
    for row in rows:
        texts = dict(zip(view.header, map(Text, view.cells(row)), strict=True))
        texts["status"].stylize(_colour(row))
        table.add_row(*(texts[name] for name in shown))
    return table


def _message(row: Row) -> Text:
    """Return the line that says what is wrong with a cell."""
    line = Text(f"  {visible(label(row))}: ")
    line.append(visible(row["status"]), style=_colour(row))
    return line.append(f" {remark(row)}")


def _hidden(widths: dict[str, int], width: int, view: View) -> set[str]:
    """Return the columns to leave out so that the table fits the terminal's width, in characters."""
    hidden: set[str] = set()
    for name in view.dispensable:
        if sum(widths[shown] + GAP for shown in view.header if shown not in hidden) - GAP <= width:
            break
        hidden.add(name)
    return hidden


def _widths(rows: Sequence[Row], view: View) -> dict[str, int]:
    """Return the width of each column over all groups, in characters, so that the tables align."""
    lines = [list(view.header), *(view.cells(row) for row in rows)]
    return {line[0]: max(map(len, line)) for line in zip(*lines, strict=True)}


def _colour(row: Row) -> str:
    """Return the style of the row's status."""
    return COLOURS.get(row["status"], OTHER)
