"""Speed-ups against the number of workers, measured and predicted by the model, as a PNG and an SVG."""

from collections.abc import Sequence
from pathlib import Path

from xbench.reports.curves import COLOURS
from xbench.reports.scaling import Row, title


def draw(found: Sequence[Row], stem: Path) -> list[Path]:
    """Write the picture of the rows of one network and kind of scaling; return the files.

    Raises:
        ImportError: matplotlib is missing.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    measured = [row for row in found if row["speed_up"]]
    counts = sorted({row["workers"] for row in measured})
    axes.plot(counts, counts, "k:", linewidth=1, label="ideal")
    for colour, runtime in zip(COLOURS, dict.fromkeys(row["runtime"] for row in measured)):
        own = sorted((row for row in measured if row["runtime"] == runtime), key=lambda row: int(row["workers"]))
        middles = [row["speed_up"]["median"] for row in own]
        ends = [(row["speed_up"]["low"], row["speed_up"]["high"]) for row in own]
        bars = [
            [max(middle - (low if low is not None else middle), 0) for middle, (low, _) in zip(middles, ends)],
            [max((high if high is not None else middle) - middle, 0) for middle, (_, high) in zip(middles, ends)],
        ]
        workers = [row["workers"] for row in own]
        axes.errorbar(workers, middles, yerr=bars, color=colour, marker="o", capsize=3, label=runtime)
        predicted = [(row["workers"], row["model_speed_up"]) for row in own if row["model_speed_up"] is not None]
        if predicted:
            axes.plot(*zip(*predicted), color=colour, linestyle="--", marker="x", label=f"{runtime}, model")
    shared = [row["workers"] for row in measured if row["oversubscribed"]]
    if shared:
        axes.axvspan(min(shared) - 0.25, max(shared) + 0.25, color="#dddddd", zorder=0, label="threads share CPUs")
    axes.set(xlabel="workers", ylabel="speed-up, samples a second", xticks=counts, ylim=(0, None))
    axes.set_title(title(found[0]), fontsize="medium")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=120)
    return paths
