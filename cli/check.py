"""`xbench check`: is it the same network? Parity with the float64 oracle, without timing."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli import _choose as choose


def check(
    model: choose.ModelWords = None,
    runtime: choose.RuntimeWords = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(
            help="forward, gradient or step; may be repeated. Default: forward, and gradient on all runtimes but TVM."
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="Batch size; forward is also checked on one more.", min=1)] = 2,
    threads: Annotated[int | None, typer.Option(help="CPU threads. Default: all.")] = None,
    device: choose.DeviceWord = "cpu",
    layout: choose.LayoutWord = "nchw",
    shape: choose.ShapeWords = None,
    inputs: choose.InputWords = None,
    timeout: Annotated[float, typer.Option(help="Seconds one job of a worker may take.")] = 900,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of objects.")] = False,
) -> None:
    """Compare outputs, gradients or trained weights of every runtime with the same network in float64.

    Without MODEL the whole zoo is checked. `ratio` is the worst error in units of the float32 noise floor; class
    fp32 is the only one that passes. Exit code 1 when a comparison fails; a runtime that lacks an operator is
    UNSUPPORTED, which is no failure.
    """
    from xbench import models
    from xbench.cli._progress import Bar

    names = choose.choose_models(model, tuple(models.MODELS), shape, inputs)
    targets = choose.choose_runtimes(runtime)
    modes = choose.choose_modes(mode, ("forward", "gradient"))
    cell = {"device": choose.choose_device(device), "threads": choose.choose_threads(threads)}
    cell["layout"] = choose.choose_layout(layout)
    choose.need_torch()
    broken: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="xbench-logs-") as logs:
        with Bar(len(names) * len(targets) * len(modes), "check") as bar:
            rows = _check(names, targets, modes, batch, cell, bool(mode), timeout, Path(logs), bar, broken)
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
    strict: bool,
    timeout: float,
    logs: Path,
    bar: Any,
    broken: set[str],
) -> list[dict[str, Any]]:
    """One row a cell; one that cannot exist, or is slow to prepare, is a row only where its mode was asked for."""
    from xbench.bench import AUTO, Case, machine
    from xbench.bench.prepare import Exporter
    from xbench.bench.proof import verify_each
    from xbench.bench.record import expected

    exporter, order = Exporter(logs), list[tuple[str, str, str]]()

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
                order.append((name, case.runtime, case.mode))
                yield case, artifact

    rows = {}
    at_once = 1 if cell["layout"] == AUTO else machine.cpus()  # to choose a layout is to time it
    try:
        for record in verify_each(cells(), exporter, timeout, logs, at_once):
            row = _row(record)
            rows[row["model"], row["runtime"], row["mode"]] = row
            bar.finish(_line(row))
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


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("model", "runtime", "mode", "status", "class", "error / noise", "parameters", "worst tensor")
    for row in rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.1f}"
        colour = {"PASS": "green", "UNSUPPORTED": "cyan"}.get(row["status"], "bold red")
        words = [row["class"] or "", ratio, _held(row), row["worst_tensor"] or row["message"] or ""]
        table.add_row(row["model"], row["runtime"], row["mode"], f"[{colour}]{row['status']}[/]", *words)
    Console().print(table)
