"""The result of `xbench check` as tables: one per model, with notes on its cells below it."""

from collections.abc import Mapping, Sequence
from typing import Any

from xbench.experiments.check import about_inputs, held
from xbench.reports.tables import COLOURS, OTHER, Table

Row = Mapping[str, Any]  # `experiments.check.row_of`
HEADER = ("runtime", "mode", "status", "class", "x noise", "parameters", "worst tensor")


def tables(rows: Sequence[Row]) -> list[Table]:
    """One table per model. A message that several cells share is shown once."""
    made = []
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        notes = next((lines for row in own if (lines := about_inputs(row))), [])
        notes = [*notes, *_messages(own), *(line for row in own for line in _explained(row))]
        styles = [COLOURS.get(row["status"], OTHER) for row in own]
        body = [_cells(row) for row in own]
        made.append(Table(model, HEADER, body, words=len(HEADER), notes=notes, styles=styles, styled=2))
    return made


def _cells(row: Row) -> list[str]:
    compared = row["ratio"] is not None
    ratio = [row["class"], f"{row['ratio']:.1f}"] if compared else ["", ""]
    return [row["runtime"], _mode(row), row["status"], *ratio, held(row), row["worst_tensor"] or ""]


def _mode(row: Row) -> str:
    return f"{row['steps']} steps" if row["steps"] else str(row["mode"])


def _messages(rows: Sequence[Row]) -> list[str]:
    """Each message, after the cells that have it."""
    cells: dict[str, list[Row]] = {}
    for row in rows:
        if row["message"]:
            cells.setdefault(row["message"], []).append(row)
    return [f"{_named(own, len(rows))}: {message}" for message, own in cells.items()]


def _named(own: Sequence[Row], all_: int) -> str:
    if len(own) == all_ > 2:
        return f"all {all_}"
    modes = {row["runtime"]: [_mode(each) for each in own if each["runtime"] == row["runtime"]] for row in own}
    return ", ".join(f"{runtime} {'/'.join(names)}" for runtime, names in modes.items())


def _explained(row: Row) -> list[str]:
    """The likely causes of a failed cell, one per line, the likeliest first."""
    if "explanations" not in row:
        return []
    head, explanations = f"{row['runtime']} {row['mode']}", row["explanations"]
    if not explanations:
        return [f"{head}: no known mistake explains it"]
    lines = []
    for each in explanations:
        place = f" ({each['scope'] or 'it explains this tensor, not all after it'}, at {each['tensor']})"
        lines.append(f"{each['says']}{place if each['tensor'] else ''}; {each['ratio']:.1f} x noise is left")
    return [f"{head} looks like: {lines[0]}", *(f"  or: {line}" for line in lines[1:])]
