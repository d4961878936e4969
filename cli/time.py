"""`xbench time`: prove that it is the same network, then time it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.case import TUNE_BUDGET
from xbench.cli import _choose as choose
from xbench.cli._format import FORMATS, GITHUB, FormatWord, choose_format, give, summarise
from xbench.cli._terminal import say
from xbench.cli._turn import turn
from xbench.store.results import FOLDER, open_store

Modes = Annotated[
    list[str] | None,
    typer.Option(help="forward, gradient or step; may be repeated. Default: forward, and step but on TVM."),
]
Batches = Annotated[list[str] | None, typer.Option(help="Batch size; may be repeated. Default: the model's.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads of every runtime. Default: all.")]
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
    typer.Option(help="Seconds that a search with --tune max may take for each cell (TVM's MetaSchedule).", min=1),
]
Data = Annotated[str, typer.Option(help="synthetic, or digits: real images and labels for lenet.")]
Budget = Annotated[
    float, typer.Option(help="Seconds of sampling for each cell, and at most as many of warm-up.", min=0.01)
]
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
Timeout = Annotated[float, typer.Option(help="Seconds one job of a worker may take.", min=1)]
Out = Annotated[Path, typer.Option(help="Folder of the results; runs are resumed there.")]
Rerun = Annotated[bool, typer.Option("--rerun", help="Time again what is recorded already.")]
Retry = Annotated[bool, typer.Option("--retry", help="Time again what is recorded as failed.")]
Json = Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")]


def time(
    model: choose.ModelWords = None,
    runtime: choose.RuntimeWords = None,
    mode: Modes = None,
    batch: Batches = None,
    threads: Threads = None,
    device: choose.DeviceWord = "cpu",
    layout: choose.LayoutWord = "nchw",
    shape: choose.ShapeWords = None,
    inputs: choose.InputWords = None,
    ranges: choose.RangeWords = None,
    optimizer: choose.OptimizerWord = None,
    plane: Plane = "resident",
    precision: choose.PrecisionWord = "fp32",
    tune: Tune = "default",
    tune_budget: TuneBudget = TUNE_BUDGET,
    data: Data = "synthetic",
    budget: Budget = 2.0,
    target_ci: Target = 0.02,
    processes: Processes = 1,
    timeout: Timeout = 600,
    out: Out = FOLDER,
    rerun: Rerun = False,
    retry: Retry = False,
    as_json: Json = False,
    format_: FormatWord = None,
) -> None:
    """Check parity, time what passed, and append each cell to the results as soon as it is final.

    Without MODEL it is the default suite. Cells that differ in the runtime alone are timed together, in interleaved
    blocks. A cell that is recorded already is not timed again. Exit code 1 when a cell failed.
    """
    from xbench import models
    from xbench.experiments.settings import Protocol
    from xbench.experiments.suite import FAILED, cells

    form = choose_format(format_, {"json": as_json}, FORMATS[:-1])
    names = choose.choose_models(model, models.DEFAULT_SUITE, shape, inputs, optimizer, ranges)
    targets, modes = choose.choose_runtimes(runtime), choose.choose_modes(mode, ("forward", "step"))
    cell = {"device": choose.choose_device(device), "threads": choose.choose_threads(threads)}
    cell |= {"layout": choose.choose_layout(layout), "precision": choose.choose_precision(precision)}
    cell |= choose.choose_words(plane, data, tune) | {"tune_budget": tune_budget if tune == "max" else 0.0}
    cases = cells(names, targets, modes, choose.choose_batches(batch), cell)
    choose.need_torch()
    store, again = open_store(out), "all" if rerun else "failed" if retry else "none"
    with turn(out) as logs:
        rows, broken = _time(cases, bool(mode), again, store, Protocol(budget, target_ci, timeout, processes), logs)
    if rows or not broken:
        _report(rows, out, form)
    raise typer.Exit(2 if broken else int(any(row["status"] in FAILED for row in rows)))


def _time(
    cases: list[Any], strict: bool, again: str, store: Any, protocol: Any, logs: Path
) -> tuple[list[dict[str, Any]], set[str]]:
    """Runs what is not recorded yet, group by group; returns the rows of all cells asked for and the broken models."""
    from xbench.cli._progress import Bar
    from xbench.experiments import suite
    from xbench.reports import rows
    from xbench.workers.prepare import Exporter

    exporter, broken = Exporter(logs, protocol.timeout), set[str]()
    artifact_of = lambda model: choose.exported(exporter, model, broken)  # noqa: E731
    with Bar(len(cases), "time") as bar:
        try:
            records, kept = suite.measure(cases, artifact_of, exporter, store, protocol, logs, bar, strict, again)
        finally:
            exporter.close()
    if kept:
        say(f"{kept} cells were measured before; --rerun measures them again", err=True)
    return rows(records), broken


def _report(rows: list[dict[str, Any]], out: Path, form: str) -> None:

    from xbench.cli._console import console
    from xbench.reports import formats, github
    from xbench.reports.table import show_table
    from xbench.store.results import FILE

    texts = {"json": formats.to_json, "csv": formats.to_csv, "markdown": formats.to_markdown}
    if form in texts:
        give(texts[form](rows))
    elif form == GITHUB:
        summarise(*github.times(rows, command="xbench time"))
    else:
        show_table(rows, console(160))
    say(f"saved in {out / FILE}", err=True)
