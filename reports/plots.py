"""Pictures of a study's tables, as PNG and SVG: time by threads, time per sample by batch, stacked phases; and of a
sweep over shapes, as PNG."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xbench.converters.printable import picture
from xbench.reports.curves import COLOURS
from xbench.reports.grid import Grid
from xbench.reports.sweeps import ShapeSweep
from xbench.stats.quantities import seconds

MARKS = ("o", "s", "^", "D", "v", "P", "X")
KINDS = ("png", "svg")


def draw(grid: Grid, stem: Path) -> list[Path]:
    """Write the picture of a table; return its files, none if the table has no picture or a single row.

    Raises:
        ImportError: matplotlib is missing.
    """
    make = PICTURES.get(grid.axis)
    measured = {row for column in grid.ours.values() for row, value in column.items() if value["value"] is not None}
    if not make or len(measured) < 2:
        return []
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_title(picture(grid.title), fontsize="medium")
    make(grid, axes)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in KINDS]
    for path in paths:
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def draw_shapes(sweep: ShapeSweep, path: Path) -> None:
    """Write the picture of a sweep over shapes: the steady time and the first call of each runtime.

    Raises:
        ImportError: matplotlib is missing.
        OSError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(picture(sweep.title), fontsize="medium")
    for axes, field, words in zip(
        figure.subplots(1, 2), ("median_s", "first_s"), ("time of a call", "time of the first call")
    ):
        for (name, line), colour, mark in zip(sweep.cells.items(), itertools.cycle(COLOURS), itertools.cycle(MARKS)):
            timed = [(place, line[shape][field]) for place, shape in enumerate(sweep.shapes) if shape in line]
            points = [(place, value) for place, value in timed if value]
            if points:
                axes.plot(*zip(*points), color=colour, marker=mark, label=picture(name))
        axes.set_xticks(range(len(sweep.shapes)), [picture(" x ".join(shape)) for shape in sweep.shapes], rotation=45)
        axes.set(xlabel=picture(", ".join(sweep.axes)), ylabel=words, yscale="log")
        for ticks in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            ticks(lambda value, _: seconds(value))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def _by_number(grid: Grid, axes: Any, each: Callable[[int, float], float]) -> None:
    """One line per runtime over the numbers that name its rows, with intervals."""
    for (name, column), colour, mark in zip(grid.ours.items(), itertools.cycle(COLOURS), itertools.cycle(MARKS)):
        points = sorted((int(row), value) for row, value in column.items() if value["value"] is not None)
        if not points:
            continue
        places = [place for place, _ in points]
        medians = [each(place, value["value"]) for place, value in points]
        bounds = [(each(p, v["low"] or v["value"]), each(p, v["high"] or v["value"])) for p, v in points]
        spread = [
            [max(m - low, 0) for m, (low, _) in zip(medians, bounds, strict=True)],
            [max(high - m, 0) for m, (_, high) in zip(medians, bounds, strict=True)],
        ]
        axes.errorbar(places, medians, spread, color=colour, marker=mark, capsize=3, label=picture(name))
    numbers = sorted({int(row) for row in grid.rows if any(row in column for column in grid.ours.values())})
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(each) for each in numbers])
    axes.set_ylim(bottom=0)


def _threads(grid: Grid, axes: Any) -> None:
    _by_number(grid, axes, lambda _, seconds: 1e3 * seconds)
    axes.set(xlabel="threads", ylabel="time of a mini-batch, ms")


def _batches(grid: Grid, axes: Any) -> None:
    _by_number(grid, axes, lambda batch, seconds: 1e3 * seconds / batch)
    axes.set(xlabel="samples of a mini-batch", ylabel="time of a sample, ms")


def _phases(grid: Grid, axes: Any) -> None:
    """One bar per runtime, its phases stacked; a line across it is the measured total."""
    names = [name for name, column in grid.ours.items() if column["t_iter"]["value"] is not None]
    floor = [0.0] * len(names)
    for phase, colour in zip(("t_io", "t_h2d", "t_f", "t_b", "t_u"), COLOURS):
        heights = [1e3 * max(grid.ours[name][phase]["value"], 0.0) for name in names]
        axes.bar([*map(picture, names)], heights, bottom=floor, color=colour, label=phase)
        floor = [low + height for low, height in zip(floor, heights, strict=True)]
    totals = [1e3 * grid.ours[name]["t_iter"]["value"] for name in names]
    axes.plot([*map(picture, names)], totals, "k_", markersize=30, label="t_iter, measured")
    axes.set(ylabel="ms")


def _training(grid: Grid, axes: Any) -> None:
    """The accuracy after every epoch, over the seconds of the training."""
    for (name, column), colour, mark in zip(grid.ours.items(), itertools.cycle(COLOURS), itertools.cycle(MARKS)):
        reached = [value["value"] for row, value in column.items() if row.startswith("test accuracy")]
        seconds = column["seconds an epoch"]["value"]
        if reached:
            times = [seconds * (epoch + 1) for epoch in range(len(reached))]
            axes.plot(times, reached, color=colour, marker=mark, label=picture(name))
    axes.set(xlabel="seconds of training", ylabel="test accuracy, %", xscale="log")


def _speed(grid: Grid, axes: Any) -> None:
    """Measured values as a line, the model's as dashes, the ideal as dots."""
    measured = [name for name in grid.ours if not name.endswith(", model")]
    counts = sorted({int(row) for column in grid.ours.values() for row in column})
    axes.plot(counts, counts, "k:", linewidth=1, label="ideal")
    for name, colour, mark in zip(measured, itertools.cycle(COLOURS), itertools.cycle(MARKS)):
        for each, style in ((name, "-"), (f"{name}, model", "--")):
            column = grid.ours.get(each, {})
            points = sorted((int(row), value["value"]) for row, value in column.items() if value["value"] is not None)
            if points:
                axes.plot(*zip(*points, strict=True), style, color=colour, marker=mark, label=picture(each))
    axes.set_xticks(counts)
    axes.set(xlabel="workers", ylabel="speed-up")


PICTURES = {"speed": _speed, "threads": _threads, "batch": _batches, "phases": _phases, "training": _training}
