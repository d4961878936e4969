"""Sweeps: rows that differ only in one number, batch or threads, and the time per sample as that number grows; rows
that differ in the shapes of inputs."""

import bisect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from xbench.converters.printable import visible
from xbench.converters.sweep import Weighted, without_shapes
from xbench.reports import SHARED, Row, is_ranked
from xbench.reports.formats import conditions, first_call, is_tie, label, remark
from xbench.reports.tables import Table
from xbench.stats.quantities import number, seconds

SHAPE = "shape"
AXES = ("batch", "threads", SHAPE)
PERCENT = 99
WEIGHTED = ("runtime", "mean", "95 % interval", f"{PERCENT}th percentile", "ratio")


class Sweep(NamedTuple):
    """The cells of one network and mode that differ in `axis` and the runtime: seconds per sample by runtime and
    number. `row` is one of the rows, for the fields they share. `shapes` are the names of the axes that differ; the
    number is then the volume of a shape."""

    axis: str
    row: Row
    numbers: tuple[int, ...]
    lines: dict[str, dict[int, float]]
    shapes: tuple[str, ...] = ()


def sweeps(found: Sequence[Row], axis: str) -> list[Sweep]:
    """Return the sweeps over `axis`, one of `AXES`: those of two numbers or more. Failed rows have no time."""
    if axis == SHAPE:
        made = [_sweep(axis, each.cells_by_volume(), each.axes) for each in shape_sweeps(found)]
    else:
        others = [name for name in SHARED if name != axis]
        groups: dict[tuple[object, ...], list[tuple[int, Row]]] = {}
        for row in found:
            groups.setdefault(tuple(row[name] for name in others), []).append((row[axis], row))
        made = [_sweep(axis, cells) for cells in groups.values()]
    return [each for each in made if each]


def _sweep(axis: str, cells: Sequence[tuple[int, Row]], shapes: tuple[str, ...] = ()) -> Sweep | None:
    timed = [(size, row) for size, row in cells if row["median_s"] is not None]
    numbers = tuple(sorted({size for size, _ in timed}))
    if len(numbers) < 2:
        return None
    lines: dict[str, dict[int, float]] = {}
    for size, row in timed:
        lines.setdefault(visible(label(row)), {})[size] = row["median_s"] / row["batch"]
    return Sweep(axis, timed[0][1], numbers, lines, shapes)


Shape = tuple[str, ...]  # sizes of axes, or of inputs: "128", "batch,3,224,224"


class ShapeSweep(NamedTuple):
    """The cells of one network and mode that differ in the shapes of `axes`, by their names, and in the runtime: rows
    by runtime and shape, also those without a time. `shapes` are sorted by their volume."""

    title: str
    axes: tuple[str, ...]
    shapes: list[Shape]
    cells: dict[str, dict[Shape, Row]]

    def cells_by_volume(self) -> list[tuple[int, Row]]:
        """The rows, each with the volume of its shape."""
        return [(volume(shape), row) for line in self.cells.values() for shape, row in line.items()]


def shape_sweeps(found: Sequence[Row]) -> list[ShapeSweep]:
    """Return the sweeps over shapes, those of two shapes or more."""
    parted = {row["model"]: without_shapes(row["model"]) for row in found}
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in found:
        base, shapes = parted[row["model"]]
        key = (base, tuple(shapes), *(row[name] for name in SHARED if name != "model"))
        groups.setdefault(key, []).append(row)
    return [
        _shape_sweep(str(base), rows, [parted[row["model"]][1] for row in rows])
        for (base, *_), rows in groups.items()
        if len({row["model"] for row in rows}) > 1
    ]


def _shape_sweep(base: str, rows: Sequence[Row], shapes: Sequence[dict[str, str]]) -> ShapeSweep:
    word, axes = titled(base, shapes)
    row = rows[0]
    cells: dict[str, dict[Shape, Row]] = {}
    for each, sizes in zip(rows, shapes, strict=True):
        cells.setdefault(visible(label(each)), {})[tuple(sizes[name] for name in axes)] = each
    ordered = by_volume(shape for line in cells.values() for shape in line)
    title = visible(f"{word} {row['mode']}, batch {row['batch']}, {conditions(row)}: by {' x '.join(axes)}")
    return ShapeSweep(title, axes, ordered, cells)


def titled(base: str, shapes: Sequence[Mapping[str, str]]) -> tuple[str, tuple[str, ...]]:
    """Return the title of a sweep, which has the sizes that all shapes share, and the names of the other axes."""
    axes = tuple(name for name in shapes[0] if len({each[name] for each in shapes}) > 1)
    return ", ".join([base, *(f"{name} {size}" for name, size in shapes[0].items() if name not in axes)]), axes


def by_volume(shapes: Iterable[Shape]) -> list[Shape]:
    """Return each shape once, the smallest first."""
    return sorted({*shapes}, key=lambda shape: (volume(shape), shape))


def place(axes: Sequence[str], shape: Shape) -> str:
    """Return a shape in words: "time 12"."""
    return visible(", ".join(f"{axis} {size}" for axis, size in zip(axes, shape, strict=True)))


def volume(shape: Shape) -> int:
    """Return the product of the numbers in a shape."""
    return math.prod(int(size) for sizes in shape for size in sizes.split(",") if size.isdecimal())


def shape_table(sweep: ShapeSweep) -> Table:
    """Return a line per shape, and per runtime its steady time and its first call; failures are below, once each."""
    header = [
        *map(visible, sweep.axes),
        *(name for runtime in sweep.cells for name in (runtime, "first call")),
        "fastest",
    ]
    lines, messages = [], dict[str, list[str]]()
    for shape in sweep.shapes:
        rows = {runtime: line[shape] for runtime, line in sweep.cells.items() if shape in line}
        texts = [_times(rows.get(runtime)) for runtime in sweep.cells]
        ahead = [runtime for runtime, row in rows.items() if row["ratio"] == 1 or is_tie(row)]
        lines.append([*map(visible, shape), *(text for pair in texts for text in pair), " ~ ".join(ahead)])
        for runtime, row in rows.items():
            if remark(row):
                messages.setdefault(f"{runtime}: {row['status']} {remark(row)}", []).append(place(sweep.axes, shape))
    notes = [f"{message} (at {'; '.join(places)})" for message, places in messages.items()]
    return Table(sweep.title, header, lines, words=0, ending=1, notes=notes)


def _times(row: Row | None) -> tuple[str, str]:
    """Return the median and the first call, or the status of a row that has no time."""
    if row is None:
        return "", ""
    return (seconds(row["median_s"]), first_call(row)) if is_ranked(row) else (row["status"], "")


def weighted_table(sweep: ShapeSweep, weights: Sequence[Weighted]) -> Table | None:
    """Return the mean of each runtime's steady times, weighted by the share of each shape, and their 99th percentile,
    the least mean first; none if the weights are of other axes. A runtime without a time at a shape is below."""
    if not {*sweep.axes} <= {name for each in weights for name in each.sizes}:
        return None
    shares: dict[Shape, float] = {}
    for each in weights:
        shape = tuple(str(each.sizes[name]) for name in sweep.axes)
        shares[shape] = shares.get(shape, 0.0) + each.share
    ranked, notes = list[tuple[float, float, float, str]](), list[str]()
    for runtime, line in sweep.cells.items():
        rows = {shape: line.get(shape) for shape in shares}
        timed = {shape: row for shape, row in rows.items() if row and is_ranked(row)}
        if len(timed) == len(shares):
            ranked.append((*_over(timed, shares), runtime))
        else:
            lacking = ", ".join(" ".join(shape) for shape in shares if shape not in timed)
            notes.append(f"{runtime} has no time at {visible(lacking)}")
    least = min((mean for mean, *_ in ranked), default=math.nan)
    lines = [
        [runtime, seconds(mean), f"±{number(100 * half / mean)} %", seconds(high), number(mean / least)]
        for mean, half, high, runtime in sorted(ranked)
    ]
    return Table(f"{sweep.title}: all shapes by their weights", WEIGHTED, lines, notes=notes)


def _over(rows: dict[Shape, Row], shares: dict[Shape, float]) -> tuple[float, float, float]:
    """The weighted mean of the medians in seconds, half its interval, and the percentile of the medians."""
    mean = math.fsum(shares[shape] * row["median_s"] for shape, row in rows.items())
    halves = [shares[shape] * (row["high_s"] - row["low_s"]) / 2 for shape, row in rows.items() if row["high_s"]]
    medians = sorted((row["median_s"], shares[shape]) for shape, row in rows.items())
    reached = itertools.accumulate(share for _, share in medians)
    last = bisect.bisect_left(list(reached), PERCENT / 100 - 1e-9)
    return mean, math.hypot(*halves), medians[min(last, len(medians) - 1)][0]
