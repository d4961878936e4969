"""`xbench convert`: export networks to ONNX and make every runtime accept them."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import xbench
from xbench.cli.terminal import options
from xbench.cli.terminal.declared import as_in
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.run import requested
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


DECLARED = {"to": To, "output": Output, "batch": options.BatchSize, "oracle": Oracle, "compile": Compile}


@as_in(xbench.convert, DECLARED)
def convert(
    arguments: dict[str, Any], out: options.Out = FOLDER, rerun: options.Rerun = False, as_json: options.Json = False
) -> None:
    """Export each model once and convert it for each runtime; what is missing is named, all at once.

    Without MODEL it is the default suite. What was converted is cached by content and recorded: a second call does
    nothing, --rerun converts again. With --to the model is also written in the runtime's own form: jax, tensorflow,
    torch: a Python file that reads like the network and trains, and its weights (.safetensors), tensorflow a
    SavedModel beside it (its inputs have `_` for what TensorFlow allows in no name); openvino: its IR; tvm: a
    library; onnxruntime: the ONNX file; each with certificate.json,
    which says what it holds. With --compile the kernels of forward and step are there when `time` asks for them;
    the seconds that they took are recorded with its times. Exit code 1 when a conversion crashed; operators that a
    runtime lacks are no failure of the command.
    """
    from xbench.experiments import request
    from xbench.experiments.convert import row_of
    from xbench.workers.prepare import EXPORT_TIMEOUT

    outcome = requested(request.convert(arguments), {**arguments, "timeout": EXPORT_TIMEOUT}, out)
    if as_json:
        say(json.dumps([row_of(record) for record in outcome.records], indent=1))
    raise typer.Exit(outcome.exit_code)
