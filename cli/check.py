"""`xbench check`: is it the same network? Parity with the float64 oracle, without timing."""

import json
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any

import typer

from xbench.case import STEPS, Case
from xbench.cli import _choose as choose
from xbench.cli._format import GITHUB, JSON, TABLE, FormatWord, choose_format, summarise
from xbench.cli._terminal import say
from xbench.cli._turn import turn

StepCount = Annotated[
    int, typer.Option(help="Training steps of mode step: the loss of each and all weights behind them.", min=1)
]


def check(
    model: choose.ModelWords = None,
    runtime: choose.RuntimeWords = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(help="forward, gradient or step; may be repeated. Default: forward, and gradient but on TVM."),
    ] = None,
    batch: Annotated[int, typer.Option(help="Batch size; forward is also checked on one more.", min=1)] = 2,
    threads: Annotated[int | None, typer.Option(help="CPU threads. Default: all.")] = None,
    device: choose.DeviceWord = "cpu",
    layout: choose.LayoutWord = "nchw",
    precision: choose.PrecisionWord = "fp32",
    shape: choose.ShapeWords = None,
    inputs: choose.InputWords = None,
    ranges: choose.RangeWords = None,
    optimizer: choose.OptimizerWord = None,
    steps: StepCount = STEPS,
    timeout: Annotated[float, typer.Option(help="Seconds one job of a worker may take.")] = 900,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Say what a failure looks like: the oracle is computed under each mistake."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of objects.")] = False,
    format_: FormatWord = None,
) -> None:
    """Compare outputs, gradients or trained weights of every runtime with the same network in float64.

    Without MODEL the whole zoo is checked. `ratio` is the worst error in units of the float32 noise floor; class
    fp32 is the only one that passes. Exit code 1 when a comparison fails; a runtime that lacks an operator is
    UNSUPPORTED, which is no failure.
    """
    from xbench import models
    from xbench.experiments.suite import cells

    form = choose_format(format_, {"json": as_json}, (TABLE, JSON, GITHUB))
    names = choose.choose_models(model, tuple(models.MODELS), shape, inputs, optimizer, ranges)
    targets = choose.choose_runtimes(runtime)
    modes = choose.choose_modes(mode, ("forward", "gradient"))
    cell: dict[str, Any] = {"device": choose.choose_device(device), "threads": choose.choose_threads(threads)}
    cell |= {"layout": choose.choose_layout(layout), "steps": steps}
    cell["precision"] = choose.choose_precision(precision, explain)
    choose.need_torch()
    cases = cells(names, targets, modes, [batch], cell)
    rows, broken = _check(cases, bool(mode), explain, timeout)
    _give(rows, form)
    raise typer.Exit(2 if broken else int(any(row["status"] not in ("PASS", "UNSUPPORTED") for row in rows)))


def _check(cases: Sequence[Case], strict: bool, explain: bool, timeout: float) -> tuple[list[dict[str, Any]], set[str]]:
    """The rows, and the models that cannot be exported."""
    from xbench.cli._progress import Bar
    from xbench.experiments import checking
    from xbench.workers.prepare import Exporter

    broken: set[str] = set()
    with turn() as logs, Bar(len(cases), "check") as bar:
        with closing(Exporter(logs, timeout)) as exporter:
            artifact_of = lambda name: choose.exported(exporter, name, broken)  # noqa: E731
            return checking.check(cases, artifact_of, exporter, timeout, logs, bar, strict, explain), broken


def _give(rows: list[dict[str, Any]], form: str) -> None:
    from xbench.reports.github import checks

    if form == JSON:
        say(json.dumps(rows, indent=1))
    elif form == GITHUB:
        summarise(*checks(rows))
    elif rows:
        _print(rows)


def _worst(row: dict[str, Any]) -> str:
    """The worst tensor; what else there is to say of a cell that passes, or nothing tells, or instead of one."""
    told = row["message"] if row["status"] in ("PASS", "UNVERIFIED") or not row["worst_tensor"] else None
    return "; ".join(filter(None, (row["worst_tensor"], told)))


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Column, Table
    from rich.text import Text

    from xbench.cli._console import console
    from xbench.experiments.checking import about_inputs, held

    out = console()
    for model in dict.fromkeys(row["model"] for row in rows):
        runtime = Column("runtime", no_wrap=True)
        rest = ("mode", "status", "class", "x noise", "parameters", Column("worst tensor", overflow="fold"))
        table = Table(runtime, *rest, box=None, pad_edge=False)
        for row in (row for row in rows if row["model"] == model):
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.1f}"
            colour = {"PASS": "green", "UNSUPPORTED": "cyan"}.get(row["status"], "bold red")
            mode = f"{row['steps']} steps" if row["steps"] else row["mode"]
            words = ["" if row["ratio"] is None else row["class"], ratio, held(row), _worst(row)]
            table.add_row(row["runtime"], mode, Text(row["status"], colour), *words)
        out.print()
        out.print(Text(model, "bold"), soft_wrap=True)
        out.print(table)
        lines = next((lines for row in rows if row["model"] == model and (lines := about_inputs(row))), [])
        for line in lines:
            out.print(f"  {line}", highlight=False, soft_wrap=True)
        for row in (row for row in rows if row["model"] == model and "explanations" in row):
            out.print(*_explained(row), sep="\n", highlight=False)


def _explained(row: dict[str, Any]) -> list[str]:
    """What a failed cell looks like, a line each; the first is the likeliest."""
    head, found = f"{row['runtime']} {row['mode']}", row["explanations"]
    if not found:
        return [f"{head}: no known mistake explains it: {row['message']}"]
    lines = []
    for each in found:
        place = f" ({each['scope'] or 'it explains this tensor, not all behind it'}, at {each['tensor']})"
        lines.append(f"{each['says']}{place if each['tensor'] else ''}; {each['ratio']:.1f} x noise is left")
    return [f"{head} looks like: {lines[0]}", *(f"  or: {line}" for line in lines[1:])]
