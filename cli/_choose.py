"""Options that several commands have; what their words mean is in experiments/choose.py, imported here for them."""

from typing import Annotated, Any

import typer

from xbench.cli._terminal import say
from xbench.errors import XBenchError
from xbench.experiments import choose
from xbench.experiments.choose import (
    ALL,
    batch_of,
    choose_batches,
    choose_device,
    choose_layout,
    choose_models,
    choose_modes,
    choose_precision,
    choose_runtimes,
    choose_words,
    install,
    installed_versions,
    need_torch,
    split,
)

__all__ = [
    "ALL",
    "batch_of",
    "choose_batches",
    "choose_device",
    "choose_layout",
    "choose_models",
    "choose_modes",
    "choose_precision",
    "choose_runtimes",
    "choose_words",
    "install",
    "installed_versions",
    "need_torch",
    "split",
]

# Options that several commands have.
ModelWords = Annotated[
    list[str] | None,
    typer.Argument(
        help="Networks of the zoo, `all`, .onnx files, TensorFlow's .keras and SavedModel, module:factory.",
        autocompletion=lambda incomplete: complete_model(incomplete),
    ),
]
RuntimeWords = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime",
        help="Runtime, with options after a colon (tensorflow:xla, torch:python=old/bin/python); may be repeated. "
        "Default: all installed but those that have an environment of their own.",
        autocompletion=lambda incomplete: complete_runtime(incomplete),
    ),
]
ShapeWords = Annotated[
    list[str] | None,
    typer.Option("--shape", help="Size of a dynamic axis of a file, name=128, or of an input, x=batch,3,224,224."),
]
InputWords = Annotated[
    list[str] | None,
    typer.Option("--input", help="An input of module:factory by its name in forward: x:float32:batch,3,224,224."),
]
RangeWords = Annotated[
    list[str] | None,
    typer.Option("--range", help="Values of an input, from the first to below the second: ids=0:30522."),
]
OptimizerWord = Annotated[
    str | None,
    typer.Option(
        "--optimizer",
        help="Update rule instead of the model's own: sgd, adam or adamw, with its settings, such as "
        "adamw,lr=0.001,weight_decay=0.1 or sgd,lr=0.1,momentum=0.9,nesterov=1,clip=5,schedule=1/0.5/0.1.",
    ),
]
LayoutWord = Annotated[
    str,
    typer.Option(
        "--layout",
        help="Order of an image's axes inside the runtime: nchw, nhwc, or auto, the faster one in each mode, measured.",
    ),
]
PrecisionWord = Annotated[
    str,
    typer.Option(
        "--precision",
        help="fp32, or less by the runtime's own means, judged by its own tolerance: tf32, bf16, fp16, int8.",
    ),
]
DeviceWord = Annotated[str, typer.Option("--device", help="cpu or cuda.")]


def complete_model(incomplete: str) -> list[str]:
    from xbench import models

    return [name for name in models.MODELS if name.startswith(incomplete)]


def complete_runtime(incomplete: str) -> list[str]:
    from xbench import runtimes

    return [name for name, row in runtimes.RUNTIMES.items() if name.startswith(incomplete) and not row.hidden]


def exported(exporter: Any, model: str, broken: set[str]) -> Any:
    """The converted model; None, after one line on stderr, where there is none, so that the models behind it go on."""
    from xbench.converters.cache import CacheError

    if model in broken:
        return None
    try:
        artifact = exporter.artifact(model)
    except CacheError:
        raise
    except XBenchError as error:
        refuse(model, error, broken)
        return None
    for remark in exporter.remarks(artifact):
        say(f"xbench: {remark}", err=True)
    return artifact


def refuse(model: str, error: XBenchError, broken: set[str]) -> None:
    """One line on stderr for a model that is of no use."""
    say(f"xbench: {error}", err=True)
    broken.add(model)


def choose_threads(given: int | None) -> int:
    """The number of threads, a warning when there are fewer CPUs."""
    threads = choose.choose_threads(given)
    if words := choose.too_many_threads(threads):
        say(f"xbench: warning: {words}", err=True)
    return threads
