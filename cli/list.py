"""`xbench list models|runtimes`: available networks and runtimes, without importing any framework."""

import json
from typing import Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say

app = typer.Typer(no_args_is_help=True, help="List the networks of the zoo or the runtimes.")


@app.command("models")
def list_models(as_json: options.Json = False) -> None:
    """The networks, the study each comes from, its parameters and forward MACs of one sample."""
    from xbench.models import MODELS

    rows = [
        {
            "name": spec.name,
            "study": spec.study,
            "parameters": spec.parameters,
            "macs": spec.macs,
            "input": [{"name": i.name, "shape": list(i.shape), "dtype": i.dtype} for i in spec.inputs],
            "batch": spec.batch,
        }
        for spec in MODELS.values()
    ]
    inputs = (", ".join(f"{i.dtype}{list(i.shape)}".replace("'", "") for i in spec.inputs) for spec in MODELS.values())
    _show(rows, [row | {"input": words} for row, words in zip(rows, inputs, strict=True)], as_json)


@app.command("runtimes")
def list_runtimes(
    as_json: options.Json = False,
    lineage: Annotated[
        bool, typer.Option("--lineage", help="The tools of the five studies, and which runtime succeeds each.")
    ] = False,
) -> None:
    """The runtimes, whether each is installed, and how it trains: by its own autodiff or by a graph of the step."""
    from xbench.experiments.choose import installed_versions
    from xbench.runtimes import table

    if lineage:
        _show_lineage(as_json)
        return
    installed = installed_versions()
    rows = [
        {
            "name": name,
            "version": installed[name],
            "autodiff": row.autodiff,
            "extra": row.extra,
            "note": row.note,
            "options": None if row.options is None else [*row.options],
        }
        for name, row in table().items()
        if not row.hidden
    ]
    _show(rows, [row | {"options": ", ".join(row["options"] or ()) or None} for row in rows], as_json)


def _show_lineage(as_json: bool) -> None:
    from xbench.studies.lineage import LINEAGE

    rows = [ancestor._asdict() | {"runtimes": list(ancestor.runtimes)} for ancestor in LINEAGE]
    shown = [
        {
            "tool": row["tool"],
            "studies": row["studies"],
            "what became of it": row["fate"] + (f"; PyPI's {row['trap']} is something else" if row["trap"] else ""),
            "successor": row["successor"],
            "here": _here(row),
        }
        for row in rows
    ]
    _show(rows, shown, as_json)


def _here(row: dict[str, Any]) -> str | None:
    """The runtimes that stand for a tool; if the tool itself is one of them, how it is run."""
    from xbench.runtimes import RUNTIMES

    if not row["original"]:
        return ", ".join(row["runtimes"]) or None
    first, *rest = row["runtimes"]
    own = RUNTIMES[first].environment
    return ", ".join([f"{first} (itself{f', by xbench env create {own}' if own else ''})", *rest])


def _show(rows: list[dict[str, Any]], shown: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        say(json.dumps(rows, indent=1))
        return
    from rich.table import Table

    from xbench.cli.terminal.console import console

    table = Table(*shown[0])
    for row in shown:
        words = (f"{v:,}" if isinstance(v, int) else "-" if v is None else str(v) for v in row.values())
        table.add_row(*words)
    console().print(table)
