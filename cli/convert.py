"""`xbench convert`: export networks to ONNX and make every runtime accept them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.experiments import choose


def convert(
    model: options.Models = None,
    runtime: options.Runtimes = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            help="Runtime in whose own form the model is also written, to be used without xbench; may be repeated.",
            autocompletion=options.complete_runtime,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for --to: <output>/<model>/<runtime>/.")
    ] = Path("xbench-models"),
    batch: options.BatchSize = 1,
    device: options.Device = "cpu",
    layout: options.Layout = "nchw",
    shape: options.Shapes = None,
    inputs: options.Inputs = None,
    ranges: options.Ranges = None,
    optimizer: options.Optimizer = None,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Compute in float64, too, what `time` proves forward and step against.")
    ] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Make the kernels that torch_compile keeps.")] = False,
    as_json: options.Json = False,
) -> None:
    """Export each model once and convert it for each runtime; what is missing is named, all at once.

    Without MODEL it is the default suite. The results are cached by content: a second call does nothing. With --to
    the model is also written in the runtime's own form: jax, tensorflow, torch: a Python file that reads like the
    network and trains, and its weights (.safetensors), tensorflow a SavedModel beside it; openvino: its IR; tvm: a
    library; onnxruntime: the ONNX file; each with certificate.json, which says what it holds. With --compile the
    kernels of forward and step are there when `time` asks for them; what making them took is told beside its times.
    Exit code 1 when a conversion crashed; operators that a runtime lacks are no failure of the command.
    """
    from xbench import models
    from xbench.experiments import convert

    names = choose.choose_models(model, models.DEFAULT_SUITE, shape, inputs, optimizer, ranges)
    forms = choose.choose_runtimes(to) if to else []
    targets = list(dict.fromkeys([*choose.choose_runtimes(runtime or forms), *forms]))
    choose.choose_device(device)
    choose.choose_layout(layout)
    choose.need_torch()
    plan = convert.Plan(targets, forms, output, batch, device, layout, oracle, compiled)
    rows, broken = _convert(names, plan)
    if as_json:
        say(json.dumps(rows, indent=1))
    raise typer.Exit(2 if broken else int(any(row["status"] in convert.BROKEN for row in rows)))


def _convert(names: Sequence[str], plan: Any) -> tuple[list[dict[str, Any]], set[str]]:
    """The rows, and the models that cannot be exported or computed."""
    from xbench.cli.terminal.progress import Bar
    from xbench.experiments import convert
    from xbench.experiments.experiment import Lab

    total = len(names) * len(plan.runtimes)
    with turn() as logs, Bar(total, "convert") as bar, Lab(logs, bar, keep_going=True) as lab:
        return list(convert.each(names, plan, lab)), lab.broken
