"""`xbench check`: is it the same network? Parity with the float64 oracle, without timing."""

import json
from typing import Annotated, Any

import typer

import xbench
from xbench.cli.terminal import options
from xbench.cli.terminal.declared import as_in
from xbench.cli.terminal.form import GITHUB, JSON, TABLE, FormatWord, choose_format, summarise
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.run import requested
from xbench.store.results import FOLDER

StepCount = Annotated[
    int, typer.Option(help="Training steps of mode step: the loss of each and all weights behind them.", min=1)
]


Batch = Annotated[int | None, typer.Option(help="Batch size. Default: 2.", min=1)]
Explain = Annotated[
    bool, typer.Option("--explain", help="Say what a failure looks like: the oracle is computed under each mistake.")
]


@as_in(xbench.check, {"batch": Batch, "steps": StepCount, "explain": Explain})
def check(
    asked: dict[str, Any],
    out: options.Out = FOLDER,
    rerun: options.Rerun = False,
    as_json: options.Json = False,
    format_: FormatWord = None,
) -> None:
    """Compare outputs, gradients or trained weights of every runtime with the same network in float64.

    Without MODEL the whole zoo is checked. `ratio` is the worst error in units of the float32 noise floor; class
    fp32 is the only one that passes. Exit code 1 when a comparison fails; a runtime that lacks an operator is
    UNSUPPORTED, which is no failure. What passed is recorded, and is not checked again; what failed is.
    """
    from xbench.experiments import request
    from xbench.experiments.check import Check, row_of

    form = choose_format(format_, {"json": as_json}, (TABLE, JSON, GITHUB))
    outcome = requested(request.check(asked), asked, out)
    _give([row_of(record) for record in outcome.records], form)
    if outcome.records:
        say(f"saved in {out / Check.file}", err=True)
    raise typer.Exit(outcome.exit_code)


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

    from xbench.cli.terminal.console import console
    from xbench.experiments.check import about_inputs, held

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
