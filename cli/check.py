"""`xbench check`: is it the same network? Parity with the float64 oracle, without timing."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.bench import STEPS
from xbench.cli import _choose as choose

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
    optimizer: choose.OptimizerWord = None,
    steps: StepCount = STEPS,
    timeout: Annotated[float, typer.Option(help="Seconds one job of a worker may take.")] = 900,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Say what a failure looks like: the oracle is computed under each mistake."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of objects.")] = False,
) -> None:
    """Compare outputs, gradients or trained weights of every runtime with the same network in float64.

    Without MODEL the whole zoo is checked. `ratio` is the worst error in units of the float32 noise floor; class
    fp32 is the only one that passes. Exit code 1 when a comparison fails; a runtime that lacks an operator is
    UNSUPPORTED, which is no failure.
    """
    from xbench import models
    from xbench.cli._progress import Bar

    names = choose.choose_models(model, tuple(models.MODELS), shape, inputs, optimizer)
    targets = choose.choose_runtimes(runtime)
    modes = choose.choose_modes(mode, ("forward", "gradient"))
    cell = {"device": choose.choose_device(device), "threads": choose.choose_threads(threads)}
    cell |= {"layout": choose.choose_layout(layout), "steps": steps}
    cell["precision"] = choose.choose_precision(precision, explain)
    choose.need_torch()
    broken: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="xbench-logs-") as logs:
        with Bar(len(names) * len(targets) * len(modes), "check") as bar:
            told = {"strict": bool(mode), "explain": explain, "timeout": timeout, "logs": Path(logs)}
            rows = _check(names, targets, modes, batch, cell, told, bar, broken)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    elif rows:
        _print(rows)
    raise typer.Exit(2 if broken else int(any(row["status"] not in ("PASS", "UNSUPPORTED") for row in rows)))


def _check(
    names: list[str],
    targets: list[str],
    modes: list[str],
    batch: int,
    cell: dict[str, Any],
    told: dict[str, Any],
    bar: Any,
    broken: set[str],
) -> list[dict[str, Any]]:
    """One row a cell; one that cannot exist, or is slow to prepare, is a row only where its mode was asked for."""
    from xbench.bench import AUTO, Case, XBenchError, machine
    from xbench.bench.explain import explain as find
    from xbench.bench.prepare import Exporter
    from xbench.bench.proof import verify_each
    from xbench.bench.record import expected

    logs, timeout, strict = told["logs"], told["timeout"], told["strict"]
    exporter, order = Exporter(logs), dict[tuple[str, str, str], tuple[Case, Any]]()

    def cells() -> Iterator[tuple[Case, Any]]:
        for name in names:
            bar.say(f"{name}: export to ONNX")
            artifact = choose.exported(exporter, name, broken)
            if artifact is None:
                continue
            for case in (Case(name, target, mode, batch, **cell) for mode in modes for target in targets):
                if not strict and not expected(case, artifact):
                    bar.skip()
                    continue
                bar.say(f"{name}: {case.runtime} {case.mode}")
                order[name, case.runtime, case.mode] = case, artifact
                yield case, artifact

    rows = {}
    at_once = 1 if cell["layout"] == AUTO else machine.cpus()  # to choose a layout is to time it
    try:
        for record in verify_each(cells(), exporter, timeout, logs, at_once):
            row = _row(record)
            rows[row["model"], row["runtime"], row["mode"]] = row
            bar.finish(_line(row))
        for place in (place for place in order if told["explain"] and rows[place]["status"] == "FAIL"):
            bar.say(f"{' '.join(place)}: what does it look like?")
            try:
                rows[place]["explanations"] = find(*order[place], rows[place]["first_wrong"], exporter, timeout, logs)
            except XBenchError as error:
                rows[place] |= {"explanations": [], "message": f"{rows[place]['message']}; not explained: {error}"}
    finally:
        exporter.close()
    return [rows[place] for place in order]


def _row(record: dict[str, Any]) -> dict[str, Any]:
    case, parity = record["case"], record["parity"] or {}
    return {
        "model": case["model"],
        "runtime": case["runtime"],
        "mode": case["mode"],
        "status": record["status"],
        "class": parity.get("class"),
        "worst_tensor": parity.get("worst_tensor"),
        "ratio": parity.get("ratio"),
        "first_wrong": parity.get("first_wrong"),
        "tensors": parity.get("tensors"),
        "steps": parity.get("steps"),
        "certificate": record.get("certificate"),
        "layout": (record["layout"] or {}).get("chosen", case["layout"]),
        "message": record["message"],
    }


def _line(row: dict[str, Any]) -> str:
    ratio = f" {row['class']}, {row['ratio']:.1f} x noise in {row['worst_tensor']}" if row["ratio"] is not None else ""
    ratio += f", {_held(row)}" if row["certificate"] else ""
    return f"{row['model']} {row['runtime']} {row['mode']}: {row['status']}{ratio}" + (
        f": {row['message']}" if row["message"] else ""
    )


def _held(row: dict[str, Any]) -> str:
    """Whether the runtime holds the parameters of the model, in words."""
    found = row["certificate"]
    if found is None:
        return ""
    if found["equal"] is None:
        return "not told"
    tensors = len(found["parameters"])
    same = f"all {tensors} equal" if found["equal"] else f"{len(found['different'])} of {tensors} differ"
    return same + (f", {found['dead_nodes']} dead nodes" if found["dead_nodes"] else "")


def _worst(row: dict[str, Any]) -> str:
    """The worst tensor; what else there is to say of a cell that passes, or instead of one."""
    told = row["message"] if row["status"] == "PASS" or not row["worst_tensor"] else None
    return "; ".join(filter(None, (row["worst_tensor"], told)))


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    console = Console()
    for model in dict.fromkeys(row["model"] for row in rows):
        runtime = Column("runtime", no_wrap=True)
        rest = ("mode", "status", "class", "x noise", "parameters", Column("worst tensor", overflow="fold"))
        table = Table(runtime, *rest, box=None, pad_edge=False)
        for row in (row for row in rows if row["model"] == model):
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.1f}"
            colour = {"PASS": "green", "UNSUPPORTED": "cyan"}.get(row["status"], "bold red")
            mode = f"{row['steps']} steps" if row["steps"] else row["mode"]
            words = [row["class"] or "", ratio, _held(row), escape(_worst(row))]
            table.add_row(row["runtime"], mode, f"[{colour}]{row['status']}[/]", *words)
        console.print(f"\n[bold]{escape(model)}[/]", highlight=False)
        console.print(table)
        for row in (row for row in rows if row["model"] == model and "explanations" in row):
            console.print(*_explained(row), sep="\n", highlight=False, markup=False)


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
