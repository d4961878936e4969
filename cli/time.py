"""`xbench time`: prove that it is the same network, then time it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import xbench
from xbench.cli.terminal import options
from xbench.cli.terminal.declared import as_in
from xbench.cli.terminal.form import FORMATS, GITHUB, FormatWord, choose_format, give, summarise
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.run import requested
from xbench.store.results import FOLDER

if TYPE_CHECKING:
    from xbench.converters.sweep import Weighted
    from xbench.reports.sweeps import ShapeSweep

Batches = Annotated[
    list[str] | None, typer.Option("--batch", help="Batch size; may be repeated. Default: the model's.")
]
Plane = Annotated[
    str,
    typer.Option(help="resident: inputs on the device already; host: NumPy arrays in and out; device: by its events."),
]
Tune = Annotated[
    str,
    typer.Option(
        help="Effort for speed: off, default (as its makers deliver it), or max: the fastest of its own settings."
    ),
]
TuneBudget = Annotated[
    float,
    typer.Option(
        help="Seconds that a search with --tune max may take for each cell (TVM's MetaSchedule).",
        min=1,
        max=options.LONG,
    ),
]
Data = Annotated[str, typer.Option(help="synthetic, or digits: real images and labels for lenet.")]
Target = Annotated[
    float, typer.Option(help="Stop early when the 95 % interval is this narrow: half width over median.", min=0)
]
Processes = Annotated[
    int,
    typer.Option(
        help="Processes of each cell, one after the other: a ratio's interval narrows with them. Best an even number:"
        " every second time cells are opened in the order backwards.",
        min=1,
    ),
]


DECLARED = {
    "batches": Batches,
    "plane": Plane,
    "data": Data,
    "tune": Tune,
    "tune_budget": TuneBudget,
    "target_ci": Target,
    "processes": Processes,
}


@as_in(xbench.time, DECLARED)
def time(
    arguments: dict[str, Any], out: options.Out = FOLDER, as_json: options.Json = False, format_: FormatWord = None
) -> None:
    """Check parity, time what passed, and append each cell to the results as soon as it is final.

    Without MODEL it is the default suite. Cells that differ in the runtime alone are timed together, in interleaved
    blocks. A cell that is recorded already is not timed again. Exit code 1 when a cell failed.
    """
    from xbench.converters.sweep import read_shapes
    from xbench.experiments import request
    from xbench.reports import rows

    form = choose_format(format_, {"json": as_json}, FORMATS[:-1])
    weights = read_shapes(arguments["shape_file"]) if arguments["shape_file"] else []
    outcome = requested(request.time(arguments), arguments, out)
    if outcome.records or not outcome.broken:
        _report(rows(outcome.records), out, form, weights)
    raise typer.Exit(outcome.exit_code)


def _report(rows: list[dict[str, Any]], out: Path, form: str, weights: Sequence["Weighted"]) -> None:
    from xbench.reports import formats, github
    from xbench.store.results import FILE

    texts = {"json": formats.to_json, "csv": formats.to_csv, "markdown": formats.to_markdown}
    if form in texts:
        give(texts[form](rows))
    elif form == GITHUB:
        summarise(*github.times(rows, command="xbench time"))
    else:
        _show(rows, weights, out)
    say(f"saved in {out / FILE}", err=True)


def _show(rows: list[dict[str, Any]], weights: Sequence["Weighted"], out: Path) -> None:
    """Print the tables; a sweep over shapes is also a picture in the folder."""
    from xbench.cli.terminal.console import console
    from xbench.reports.sweeps import weighted_table
    from xbench.reports.table import show_sweeps
    from xbench.reports.tables import show

    sweeps = show_sweeps(rows, console(160))
    show(filter(None, (weighted_table(sweep, weights) for sweep in sweeps)), console(160))
    for sweep in sweeps:
        _draw(sweep, out)


def _draw(sweep: "ShapeSweep", out: Path) -> None:
    """The curves of a sweep as a picture in the folder of the results."""
    from xbench.converters.printable import file_name
    from xbench.reports.formats import settings
    from xbench.reports.plots import draw_shapes

    row = next(iter(next(iter(sweep.cells.values())).values()))
    stem = Path(row["model"].partition("@")[0]).stem
    words = (stem, *sweep.axes, row["mode"], row["batch"], *_own(row), *settings(row))
    picture = out / f"{file_name('-'.join(map(str, words)))}.png"
    try:
        draw_shapes(sweep, picture)
        say(f"curves in {picture}", err=True)
    except ImportError:
        say("for the curves: pip install 'xbench[plot]'", err=True)
    except OSError as error:
        say(f"cannot write {picture}: {error.strerror}", err=True)


def _own(row: dict[str, Any]) -> list[str]:
    """The device and the threads of a row, those that are not the default."""
    from xbench.host import machine

    words = [] if row["device"] == "cpu" else [row["device"]]
    return words if row["threads"] == machine.cpus() else [*words, f"{row['threads']} threads"]
