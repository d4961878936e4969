"""The roofline as a picture: cells as points under the roof of their machine."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xbench.converters.printable import picture
from xbench.reports import Row
from xbench.reports.curves import COLOURS

MARKERS = "osD^v<>PX*"


def points(found: Sequence[Row]) -> list[Row]:
    """Return the rows that can be drawn: timed, with known arithmetic and a probed machine."""
    return [row for row in found if row["share_of_attainable"] is not None]


def draw(found: Sequence[Row], path: Path) -> None:
    """Write the picture of `points`, at least one of which is needed; colours are runtimes, signs what they run.

    Raises:
        ImportError: matplotlib is missing.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    rows = points(found)
    colours = dict(zip(dict.fromkeys(row["runtime"] for row in rows), itertools.cycle(COLOURS)))
    markers = dict(zip(dict.fromkeys(map(_work, rows)), itertools.cycle(MARKERS)))
    for row in rows:
        place = row["intensity"], row["flops"] / 1e9
        axes.plot(*place, markers[_work(row)], color=colours[row["runtime"]], markeredgecolor="black")
    axes.set(xscale="log", yscale="log", xlabel="FLOP a byte, at most", ylabel="GFLOP/s")
    _roofs(axes, rows)
    for runtime, colour in colours.items():
        axes.plot([], [], "s", color=colour, label=picture(runtime))
    for work, marker in markers.items():
        axes.plot([], [], marker, color="white", markeredgecolor="black", label=picture(work))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def _roofs(axes: Any, rows: Sequence[Row]) -> None:
    """One line per pair of peaks, from half the lowest intensity of all to twice the highest, or to its ridge."""
    lowest, highest = (pick(row["intensity"] for row in rows) for pick in (min, max))
    for peak, bandwidth in sorted({(row["peak_flops"], row["bandwidth"]) for row in rows}):
        ridge = peak / bandwidth
        reach = sorted([min(lowest, ridge) / 2, ridge, 2 * max(highest, ridge)])
        axes.plot(reach, [min(peak, each * bandwidth) / 1e9 for each in reach], "k-", linewidth=1)
        axes.annotate(f"{peak / 1e9:.0f} GFLOP/s, {bandwidth / 1e9:.1f} GB/s", (ridge, peak / 1e9), va="bottom")


def _work(row: Row) -> str:
    return f"{row['model']} {row['mode']}, batch {row['batch']}"
