"""Training curves of all runtimes in one PNG: losses by step, accuracies by epoch, memory and power (if energy is
counted) by second."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xbench.converters.printable import picture
from xbench.store.experiments import Training
from xbench.store.record import Record

# Okabe and Ito's colours, which colour-blind readers can distinguish; the curves overlap, so each is thinner than the
# one below and has its own dashes.
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#0072B2", "#555555")
DASHES = ((0, ()), (0, (6, 2)), (0, (4, 4)), (0, (2, 2)), (0, (1, 3)), (0, (8, 3, 1, 3)), (0, (1, 4)))
WIDTHS = (6.0, 5.0, 4.2, 3.4, 2.7, 2.1, 1.6)
POINTS = 250  # of a curve; the first 20 steps stay single for up to two hundred thousand


def draw(records: Sequence[Record], path: Path) -> None:
    """Write the picture of the trainings of one network on one data set.

    Raises:
        ImportError: matplotlib is missing.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    trained = [record for record in records if record["training"]["losses"]]
    counted = any(each["joules"] is not None for record in trained for each in record["training"]["usage"])
    figure = Figure(figsize=(15 + 4 * counted, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right, *others = figure.subplots(1, 3 + counted, width_ratios=(3, 2, *((2, 2) if counted else (2,))))
    styles = zip(itertools.cycle(COLOURS), itertools.cycle(DASHES), itertools.cycle(WIDTHS))
    for record, (colour, dash, width) in zip(trained, styles):
        style = {"color": colour, "linestyle": dash, "linewidth": width, "label": picture(_label(record))}
        left.plot(*thinned(record["training"]["losses"]), **style)
        accuracies = record["training"]["test_accuracy"]
        right.plot(range(1, len(accuracies) + 1), [100 * each for each in accuracies], **style)
        for axes, curve in zip(others, over_time(record["training"]["usage"])):
            axes.plot(*curve, **style, drawstyle="steps-post")
    if trained and not any(record["dropout"] for record in trained):
        oracle = trained[0]["training"]["oracle_losses"]
        steps = range(1, len(oracle) + 1)
        left.plot(steps, oracle, "k.", markersize=4, label=f"float64, the first {len(oracle)} steps")
    case = (trained or records)[0]["case"]
    figure.suptitle(picture(f"{case['model']} on {case['data'].partition(':')[0]}, batch {case['batch']}"))
    losses = np.array([loss for record in trained for loss in record["training"]["losses"]], float)
    shown = (np.isfinite(losses) & (losses > 0)).any()  # an empty log axis is an error
    left.set(xlabel="step", ylabel="loss", xscale="log", yscale="log" if shown else "linear")
    right.set(xlabel="epoch", ylabel="test accuracy, %")
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes, words in zip(others, ("host memory, MiB", "power, W")):
        axes.set(xlabel="seconds of training", ylabel=words)
    for axes in (left, right, *others):
        axes.grid(alpha=0.3)
    left.legend(fontsize="small", handlelength=6)
    figure.savefig(path, dpi=120)


def over_time(pieces: Sequence[dict[str, Any]]) -> tuple[Any, Any]:
    """Two curves over the seconds of a training: the peaks of host memory in MiB, and watts, without unknown values;
    each is a pair of lists, and a piece is placed at its start."""
    starts = [0.0, *itertools.accumulate(each["seconds"] for each in pieces)]
    memory = [(start, each["peak_bytes"] / 2**20) for start, each in zip(starts, pieces)]
    counted = [(start, each) for start, each in zip(starts, pieces) if each["joules"] is not None and each["seconds"]]
    power = [(start, each["joules"] / each["seconds"]) for start, each in counted]
    return tuple(map(list, zip(*memory))) or ([], []), tuple(map(list, zip(*power))) or ([], [])


def _label(record: Record) -> str:
    """The runtime, and the outcome of its proof if it did not pass."""
    runtime, status = record["case"]["runtime"], record["status"]
    return str(runtime) if status == "PASS" else f"{runtime}: {status}"


def losses_of(training: Training, epoch: int) -> list[float]:
    """The loss of each step of an epoch (counted from 0); NaN if it was not finite."""
    steps = training["train_samples"] // training["batch"]
    losses = training["losses"][epoch * steps : (epoch + 1) * steps]
    return [math.nan if each is None else each for each in losses]


def thinned(losses: Sequence[float | None]) -> tuple[Any, Any]:
    """Steps and losses: the first ones single, then means of ever more neighbours, equally wide on a log axis."""
    starts = np.unique(np.geomspace(1, len(losses), POINTS).astype(int)) - 1
    ends = np.append(starts[1:], len(losses))
    return (starts + 1 + ends) / 2, np.add.reduceat(np.array(losses, float), starts) / (ends - starts)
