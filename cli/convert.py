"""`xbench convert`: export networks to ONNX and make every runtime accept them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.run import measured
from xbench.experiments import choose
from xbench.store.results import FOLDER

To = Annotated[
    list[str] | None,
    typer.Option(
        help="Runtime in whose own form the model is also written, to be used without xbench; may be repeated.",
        autocompletion=options.complete_runtime,
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for --to: <output>/<model>/<runtime>/.")]
Oracle = Annotated[
    bool, typer.Option("--oracle", help="Compute in float64, too, what `time` proves forward and step against.")
]
Compile = Annotated[bool, typer.Option("--compile", help="Make the kernels that torch_compile keeps.")]


def convert(
    model: options.Models = None,
    runtime: options.Runtimes = None,
    to: To = None,
    output: Output = Path("xbench-models"),
    batch: options.BatchSize = 1,
    device: options.Device = "cpu",
    layout: options.Layout = "nchw",
    shape: options.Shapes = None,
    inputs: options.Inputs = None,
    ranges: options.Ranges = None,
    optimizer: options.Optimizer = None,
    oracle: Oracle = False,
    compiled: Compile = False,
    out: options.Out = FOLDER,
    rerun: options.Rerun = False,
    as_json: options.Json = False,
) -> None:
    """Export each model once and convert it for each runtime; what is missing is named, all at once.

    Without MODEL it is the default suite. What was converted is cached by content and recorded: a second call does
    nothing, --rerun converts again. With --to the model is also written in the runtime's own form: jax, tensorflow,
    torch: a Python file that reads like the network and trains, and its weights (.safetensors), tensorflow a
    SavedModel beside it; openvino: its IR; tvm: a library; onnxruntime: the ONNX file; each with certificate.json,
    which says what it holds. With --compile the kernels of forward and step are there when `time` asks for them;
    the seconds that they took are recorded with its times. Exit code 1 when a conversion crashed; operators that a
    runtime lacks are no failure of the command.
    """
    from xbench import models
    from xbench.experiments.convert import Convert, need_folders, row_of
    from xbench.workers.prepare import EXPORT_TIMEOUT

    names = choose.choose_models(model, models.DEFAULT_SUITE, shape, inputs, optimizer, ranges)
    forms = choose.choose_runtimes(to) if to else []
    targets = list(dict.fromkeys([*choose.choose_runtimes(runtime or forms), *forms]))
    cell = {"device": choose.choose_device(device), "layout": choose.choose_layout(layout)}
    if forms:
        need_folders(names, output)
    experiment = Convert(tuple(forms), output, oracle, compiled, rerun)
    cases = choose.cells(names, targets, ["forward"], [batch], cell)
    outcome = measured(experiment, cases, out, EXPORT_TIMEOUT, experiment.again, keep_going=True)
    if as_json:
        say(json.dumps([row_of(record) for record in outcome.records], indent=1))
    raise typer.Exit(outcome.exit_code)
