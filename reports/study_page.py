"""A study's tables as text: for the terminal, and as the page `study.md` with pictures."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from xbench.converters.printable import markdown, markdown_code, visible
from xbench.reports.grid import Grid, Listing, Value
from xbench.reports.plots import draw
from xbench.reports.study import PHASES
from xbench.reports.tables import Table
from xbench.reports.tables import show as printed
from xbench.reports.tables import to_markdown as as_markdown
from xbench.stats.quantities import number, seconds
from xbench.store.record import Record
from xbench.studies import Study

PAGE = "study.md"


def text(value: Value | None, unit: str) -> str:
    """A value as a table shows it: the time with the half width of its interval, or the status instead."""
    if value is None:
        return ""
    if value["value"] is None:
        return visible(value["status"])
    unit = value.get("unit", unit)
    plain = seconds(value["value"]) if unit == "s" else f"{number(value['value'])} {unit}".strip()
    if unit == "s" and value["value"] < 0:
        plain = f"-{seconds(-value['value'])}"
    if value.get("std") is not None:
        return f"{plain} ± {seconds(value['std'])}"
    if value.get("low") is not None and value.get("high") is not None:
        half = 50 * (value["high"] - value["low"]) / value["value"]
        return f"{plain} ±{number(half)} %"
    return plain


def lines(grid: Grid | Listing) -> list[list[str]]:
    """The header and the rows of a table as text: ours first, then the published ones."""
    if isinstance(grid, Listing):
        return [list(grid.header), *map(list, grid.cells)]
    header = [grid.corner, *grid.ours, *(f"{tool} †" for tool in grid.theirs)]
    made = [header]
    for row in grid.rows:
        named = f"{row}: {PHASES[row]}" if grid.axis == "phases" else row
        own = [text(column.get(row), grid.unit) for column in grid.ours.values()]
        shown = seconds if grid.unit == "s" else number
        quoted = [shown(column[row]) if row in column else "" for column in grid.theirs.values()]
        made.append([named, *own, *quoted])
    return made


def remarks(grid: Grid | Listing) -> list[str]:
    """The lines below a table: why a cell has no time, sources of the published figures, notes."""
    if isinstance(grid, Listing):
        return [*grid.notes]
    why = [
        f"{name}, {row}: {value['status']}: {visible(value['message'])}"
        for name, column in grid.ours.items()
        for row, value in column.items()
        if value["value"] is None and value["status"] != "PASS" and value["message"]
    ]
    once = {name: line for line in reversed(why) for name in [line.partition(",")[0]]} if grid.axis == "phases" else {}
    return [*(once.values() if once else why), *(f"† {line}" for line in grid.quotes), *grid.notes]


def table(grid: Grid | Listing) -> Table:
    """A table of a study, with its notes."""
    header, *body = lines(grid)
    return Table(grid.title, header, body, notes=remarks(grid))


def to_markdown(grid: Grid | Listing) -> str:
    """One table in Markdown."""
    return as_markdown([table(grid)])


def show(grids: Iterable[Grid | Listing], console: Console) -> None:
    """Prints the tables."""
    printed(map(table, grids), console)


def save(
    study: Study,
    command: str,
    grids: Sequence[Grid | Listing],
    omitted: Sequence[str],
    records: Sequence[Record],
    folder: Path,
) -> list[str]:
    """Write the page, which names the command that made it, and the pictures into a folder; return the file names.
    Without matplotlib there is only the page."""
    parts, files = [_head(study, command, records)], [PAGE]
    for number_, grid in enumerate(grids, 1):
        parts.append(to_markdown(grid))
        try:
            pictures = draw(grid, folder / f"{grid.part}-{number_}") if isinstance(grid, Grid) else []
        except ImportError:
            pictures = []
        files += [path.name for path in pictures]
        parts += [f"![{markdown(grid.title)}]({path.name})\n" for path in pictures if path.suffix == ".png"]
    parts.append("\n".join(["### Left out", "", *(f"- {markdown(line)}" for line in omitted), ""]))
    (folder / PAGE).write_text("\n".join(parts))
    return files


def _head(study: Study, command: str, records: Sequence[Record]) -> str:
    """What was measured, where, when, and by which command."""
    machine: dict[str, Any] = records[-1]["machine"] if records else {}
    versions = {name: word for record in records for name, word in sorted(record["versions"].items())}
    records = list({record["key"]: record for record in records}.values())  # some are in two tables
    passed = sum(record["status"] == "PASS" for record in records)
    return "\n".join(
        [
            f"# {study.name}: {study.about[0].lower()}{study.about[1:]}",
            "",
            f"{study.source}. Run again by {markdown_code(command)}: {len(records)} cells, of which"
            f" {passed} are proved to be the same network and timed. † are published figures, of other machines and"
            " other years: quotations, not measurements of ours.",
            "",
            f"Machine: {markdown(machine.get('cpu'))}, {markdown(machine.get('cpus'))} CPUs. "
            + markdown(", ".join(f"{name} {word}" for name, word in sorted(versions.items())))
            + ".",
            "",
        ]
    )
