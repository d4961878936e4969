"""Options shared by several commands, each declared once; `experiments/choose.py` interprets their values.

A command takes the ones it has, and gives their defaults. An option of a single command is declared in its file.
"""

from pathlib import Path
from typing import Annotated

import typer

from xbench.cli.terminal.lines import say
from xbench.experiments import choose


def complete_model(incomplete: str) -> list[str]:
    from xbench import models

    return [name for name in models.MODELS if name.startswith(incomplete)]


def complete_runtime(incomplete: str) -> list[str]:
    from xbench import runtimes

    return [name for name, row in runtimes.RUNTIMES.items() if name.startswith(incomplete) and not row.hidden]


LONG = 1e7  # seconds, more than a run takes: no system call takes an infinite time

# What is measured.
Models = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="model",
        help="Networks of the zoo, `all`, .onnx files, TensorFlow's .keras and SavedModel, module:factory, hf:folder, "
        "timm:name, torchvision:name.",
        autocompletion=complete_model,
    ),
]
Model = Annotated[
    str,
    typer.Argument(
        help="A network of the zoo, an .onnx file, TensorFlow's .keras or SavedModel, module:factory, hf:folder, "
        "timm:name or torchvision:name.",
        autocompletion=complete_model,
    ),
]
Runtime = Annotated[str, typer.Argument(help="A runtime, ours or one of a plug-in.", autocompletion=complete_runtime)]
Runtimes = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime",
        help="Runtime, with options after a colon (tensorflow:xla, torch:python=old/bin/python); may be repeated. "
        "Default: all installed (inspect: all) except those that have an environment of their own.",
        autocompletion=complete_runtime,
    ),
]
Modes = Annotated[
    list[str] | None,
    typer.Option(
        "--mode",
        help="forward, gradient or step; may be repeated. Default: forward, and gradient (check) or step (time) except "
        "on TVM.",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(help="Batch size. Default: the model's (recommend: the one that was measured; inspect: 1).", min=1),
]
BatchSize = Annotated[int, typer.Option(help="Batch size.", min=1)]
Threads = Annotated[int | None, typer.Option(help="CPU threads of every runtime. Default: all.")]
ThreadCount = Annotated[int, typer.Option("--threads", help="CPU threads of each process.", min=1)]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Layout = Annotated[
    str,
    typer.Option(
        help="Order of an image's axes inside the runtime: nchw, nhwc, or auto, the faster one in each mode, measured."
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        help="fp32, or less by the runtime's own means, judged by its tolerance: tf32, bf16, fp16, int8, int4."
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="Size of a named axis, name=128, or of an input, x=batch,3,224,224; auto: what is usual for the others. "
        "Several sizes, name=16,64,256, or shapes of one input are a sweep.",
    ),
]
ShapeFile = Annotated[
    Path | None,
    typer.Option(
        "--shapes",
        metavar="FILE",
        help="A sweep over the shapes of a CSV file: a line of names, such as seq,weight, then a line per shape. "
        "Without `weight` each line counts once.",
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        help="An input of module:factory by its name in forward: x:float32:batch,3,224,224. An axis may have a name.",
    ),
]
Samples = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        metavar="SAMPLES",
        help="Your samples instead of random ones: .npz, .npy, .safetensors, .parquet, a folder of these, of images or "
        "of test_data_set_*, module:function, or a data set.",
    ),
]
Ranges = Annotated[
    list[str] | None,
    typer.Option("--range", help="Values of an input, from the first to below the second: ids=0:30522."),
]
Weights = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Weights of a module: .safetensors, or a state_dict, of which no code is run."),
]
Loss = Annotated[
    str | None,
    typer.Option(
        metavar="FUNCTION",
        help="Loss of a module, module:function or file.py:function: it gets what forward returns, and the inputs that "
        "have the names of its other arguments.",
    ),
]
Optimizer = Annotated[
    str | None,
    typer.Option(
        help="Update rule instead of the model's own: sgd, adam or adamw, with its settings, such as "
        "adamw,lr=0.001,weight_decay=0.1 or sgd,lr=0.1,momentum=0.9,nesterov=1,clip=5,schedule=1/0.5/0.1."
    ),
]
Seed = Annotated[int, typer.Option(help="Of what is random: the inputs, or the order of the samples.", min=0)]

# How long.
Budget = Annotated[float, typer.Option(help="Seconds of sampling, and at most as many of warm-up.", min=0.01, max=LONG)]
Timeout = Annotated[
    float, typer.Option(help="Seconds one job of a worker may take, without what is timed.", min=1, max=LONG)
]

# Results.
Out = Annotated[Path, typer.Option("--out", help="Folder of the results; a command resumes there.")]
Rerun = Annotated[bool, typer.Option("--rerun", help="Measure again what is recorded.")]
Retry = Annotated[bool, typer.Option("--retry", help="Measure again what is recorded as failed.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
OnlyModels = Annotated[list[str] | None, typer.Option("--model", help="Only this model; may be repeated.")]
OnlyRuntimes = Annotated[list[str] | None, typer.Option("--runtime", help="Only this runtime; may be repeated.")]
OnlyModes = Annotated[list[str] | None, typer.Option("--mode", help="Only this mode; may be repeated.")]


def choose_threads(given: int | None) -> int:
    """The number of threads; warns on stderr if there are fewer CPUs."""
    threads = choose.choose_threads(given)
    if words := choose.too_many_threads(threads):
        say(f"xbench: warning: {words}", err=True)
    return threads
