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
    int,
    typer.Option(
        help="Training steps in mode step: the loss of each is compared, and all weights after the last.", min=1
    ),
]


Batch = Annotated[int | None, typer.Option(help="Batch size. Default: 2.", min=1)]
Explain = Annotated[
    bool, typer.Option("--explain", help="Say what a failure looks like: the oracle is computed under each mistake.")
]


@as_in(xbench.check, {"batch": Batch, "steps": StepCount, "explain": Explain})
def check(
    arguments: dict[str, Any],
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
    outcome = requested(request.check(arguments), arguments, out)
    _give([row_of(record) for record in outcome.records], form)
    if outcome.records:
        say(f"saved in {out / Check.file}", err=True)
    raise typer.Exit(outcome.exit_code)


def _give(rows: list[dict[str, Any]], form: str) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports.checks import tables
    from xbench.reports.github import checks
    from xbench.reports.tables import show

    if form == JSON:
        say(json.dumps(rows, indent=1))
    elif form == GITHUB:
        summarise(*checks(rows))
    else:
        show(tables(rows), console())
