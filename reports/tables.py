"""A table of text, and how it is shown: on a terminal, as Markdown; the report shows it as HTML."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from xbench.converters.printable import markdown, markdown_table, visible

Lines = Sequence[Sequence[str]]
COLOURS = {"PASS": "green", "FAIL": "bold red", "UNVERIFIED": "yellow", "UNSUPPORTED": "cyan"}
OTHER = "magenta"  # OOM, TIMEOUT, CRASH
ANY = 10_000  # more characters than a line has


@dataclass(frozen=True)
class Table:
    """Lines of text under a header. `words` is the number of columns, from the left, with words and not numbers,
    `ending` that at the right. `about` are sentences above the table, `notes` below it. `styles` are those of the cells
    in the column `styled`, one per line; `keys` the rows by which a report filters the lines; `model` the network of a
    table of one network."""

    caption: str
    header: Sequence[str]
    lines: Lines
    keys: Sequence[Mapping[str, Any] | None] = ()
    words: int = 1
    model: str = ""
    ending: int = 0
    about: Sequence[str] = ()
    notes: Sequence[str] = ()
    styles: Sequence[str] = ()
    styled: int = 1

    @property
    def numbers(self) -> list[bool]:
        """Whether a column holds numbers."""
        return [self.words <= place < len(self.header) - self.ending for place in range(len(self.header))]


def show(tables: Iterable[Table], console: Console) -> None:
    """Print tables, an empty line between them. No sentence is wrapped, so that each can be searched and copied."""
    for number, table in enumerate(tables):
        if number:
            console.print()
        if table.caption:
            console.print(Text(visible(table.caption), style="bold"), soft_wrap=True)
        for line in table.about:
            console.print(Text(visible(line)), soft_wrap=True)
        if table.lines:
            grid = _grid(table)
            if not console.is_terminal:  # a file has lines of any length: no cell is folded
                console.width = max(console.width, _natural_width(grid, console))
            console.print(grid)
        for line in table.notes:
            console.print(Text(f"  {visible(line)}"), soft_wrap=True)


def to_markdown(tables: Iterable[Table]) -> str:
    """Tables in Markdown, each under its caption; sentences below a table are a list."""
    return "\n".join(map(_markdown, tables))


def _grid(table: Table) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, (name, number) in enumerate(zip(table.header, table.numbers, strict=True)):
        grid.add_column(Text(name), justify="right" if number else "left", overflow="fold", no_wrap=not place)
    styles = [*table.styles, *[""] * (len(table.lines) - len(table.styles))]
    for line, style in zip(table.lines, styles, strict=True):
        texts = list(map(Text, line))
        if style:
            texts[table.styled].stylize(style)
        grid.add_row(*texts)
    return grid


def _natural_width(grid: Grid, console: Console) -> int:
    return Measurement.get(console, console.options.update(width=ANY), grid).maximum


def _markdown(table: Table) -> str:
    parts = [f"### {markdown(table.caption)}", ""] if table.caption else []
    parts += [*map(markdown, table.about), ""] if table.about else []
    align = ["--:" if each else "---" for each in table.numbers]
    parts += [*markdown_table(table.header, align, table.lines), ""] if table.lines else []
    parts += [*(f"- {markdown(line)}" for line in table.notes), ""] if table.notes else []
    return "\n".join(parts)
