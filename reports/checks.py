"""The result of `xbench check` as tables: one per model, with notes on its cells below it."""

from collections.abc import Mapping, Sequence
from typing import Any

from xbench.converters.sweep import without_shapes
from xbench.experiments.check import about_inputs, held
from xbench.reports.sweeps import Shape, by_volume, place, titled
from xbench.reports.tables import COLOURS, OTHER, Table
from xbench.stats.quantities import seconds

Row = Mapping[str, Any]  # `experiments.check.row_of`
JUDGED = ("answers", "status", "class", "x noise", "worst tensor")
HEADER = ("runtime", "mode", "status", "class", "x noise", "parameters", "worst tensor")


def tables(rows: Sequence[Row]) -> list[Table]:
    """One table per model, one for all shapes of a sweep. A message that several cells share is shown once."""
    groups: dict[tuple[str, tuple[str, ...]], list[Row]] = {}
    for row in rows:
        base, shapes = without_shapes(row["model"])
        groups.setdefault((base, tuple(shapes)), []).append(row)
    return [
        _of_model(own) if len({row["model"] for row in own}) == 1 else _of_sweep(base, own)
        for (base, _), own in groups.items()
    ]


def judged(row: Row) -> Table:
    """The table of answers that another program computed (`experiments/judge.py`), a line per set."""
    caption = f"{row['model']}: the answers of {row['runtime']}"
    lines = [[each["set"], each["status"], *_error(each), each["worst_tensor"] or ""] for each in row["sets"]]
    notes = [row["message"]] if row["message"] else []
    if told := row["times"]:
        where = f" on {told['machine']}" if told["machine"] else ""
        count = len(told["seconds"])
        notes.append(f"{seconds(told['median_s'])}, the median of {count}{where}: not timed by xbench")
    styles = [COLOURS.get(each["status"], OTHER) for each in row["sets"]]
    return Table(caption, JUDGED, lines, words=len(JUDGED), notes=notes, styles=styles)


def _of_model(rows: Sequence[Row]) -> Table:
    notes = [*_inputs(rows), *_messages(rows), *(line for row in rows for line in _explained(row))]
    styles = [COLOURS.get(row["status"], OTHER) for row in rows]
    body = [_cells(row) for row in rows]
    return Table(rows[0]["model"], HEADER, body, words=len(HEADER), notes=notes, styles=styles, styled=2)


def _inputs(rows: Sequence[Row]) -> list[str]:
    return next((lines for row in rows if (lines := about_inputs(row))), [])


def _of_sweep(base: str, rows: Sequence[Row]) -> Table:
    """A line per shape, and per runtime and mode its status and its error."""
    shapes = [without_shapes(row["model"])[1] for row in rows]
    word, axes = titled(base, shapes)
    several = len({_mode(row) for row in rows}) > 1
    cells: dict[str, dict[Shape, Row]] = {}
    for row, sizes in zip(rows, shapes, strict=True):
        name = f"{row['runtime']} {_mode(row)}" if several else row["runtime"]
        cells.setdefault(name, {})[tuple(sizes[axis] for axis in axes)] = row
    ordered = by_volume(shape for line in cells.values() for shape in line)
    lines = [[*shape, *(_short(line.get(shape)) for line in cells.values())] for shape in ordered]
    messages: dict[str, list[str]] = {}
    for name, line in cells.items():
        for shape in (each for each in ordered if each in line):
            row = line[shape]
            for words in [*([f"{name}: {row['message']}"] if row["message"] else []), *_explained(row)]:
                messages.setdefault(words, []).append(place(axes, shape))
    notes = [*_inputs(rows), *(f"{words} (at {'; '.join(places)})" for words, places in messages.items())]
    caption = f"{word}: status and error in units of float32's noise, by {' x '.join(axes)}"
    return Table(caption, [*axes, *cells], lines, words=len(axes) + len(cells), notes=notes)


def _short(row: Row | None) -> str:
    if row is None:
        return ""
    return row["status"] if row["ratio"] is None else f"{row['status']} {row['ratio']:.1f}"


def _cells(row: Row) -> list[str]:
    return [row["runtime"], _mode(row), row["status"], *_error(row), held(row), row["worst_tensor"] or ""]


def _error(row: Row) -> list[str]:
    """The class and the ratio, if it was compared."""
    return ["", ""] if row["ratio"] is None else [row["class"], f"{row['ratio']:.1f}"]


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
