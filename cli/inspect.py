"""`xbench inspect`: what a model is, before anything is converted."""

import json
from typing import Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.experiments import choose

Layers = Annotated[
    int, typer.Option("--layers", help="How many layers are shown: those that do the most, in their own order.", min=1)
]


def inspect(
    model: options.Model,
    runtime: options.Runtimes = None,
    batch: options.Batch = None,
    device: options.Device = "cpu",
    shape: options.Shapes = None,
    inputs: options.Inputs = None,
    ranges: options.Ranges = None,
    weights: options.Weights = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Start no runtime: those with importers of their own are then not known of.")
    ] = False,
    layers: Layers = 20,
    everything: Annotated[bool, typer.Option("--all", help="Show every layer.")] = False,
    as_json: options.Json = False,
) -> None:
    """Look at a model before anything is converted: what goes in and out, operators, parameters, work, memory, which
    runtimes will take it, which operator stops the others, layer by layer.

    An .onnx file is read by a process that has no framework in it, and nothing of it is run. Memory is an estimate: all
    that is stored, and the most of inputs and results that are alive at once where nodes run in the order of the file;
    runtimes fuse, plan and copy, and need memory themselves. For `looked up` runtimes the operators were found in
    xbench's table; `asked` ones read the graph in a process of their own. Which values an operator can take, only
    `xbench convert` and `xbench check` find out.

    A file with unknown operators is shown as well. Exit code 0 whether runtimes take it or not.

    Examples: xbench inspect model.onnx --batch 8; xbench inspect resnet50 --layers 10 --quick
    """
    from xbench.cli.terminal.progress import Bar
    from xbench.converters.source import parse
    from xbench.errors import XBenchError
    from xbench.experiments import inspect

    words = choose.choose_models([model], (), shape, inputs, None, ranges, weights)
    if len(words) > 1:
        raise XBenchError("inspect takes one model at a time")
    targets = choose.choose_runtimes(runtime) if runtime else inspect.default_runtimes()
    choose.choose_device(device)
    if parse(words[0]).kind in ("zoo", "module"):
        choose.need_torch()
    with Bar(1, "inspect") as bar:
        facts = inspect.inspect(words[0], targets, batch, device, not quick, bar.say)
    if as_json:
        say(json.dumps(facts, indent=1, allow_nan=False))
    else:
        _print(facts, None if everything else layers)


def _print(facts: dict[str, Any], layers: int | None) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports.inspection import show

    show(facts, console(160), layers)
