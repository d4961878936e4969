"""Gives a command the parameters of the package's function of the same name: same names, same defaults."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from xbench.cli.terminal import options
from xbench.store.results import FOLDER

Command = Callable[..., None]
NONE_HERE = ("progress",)  # a command has a bar
SHARED = {
    "models": options.Models,
    "runtimes": options.Runtimes,
    "modes": options.Modes,
    "threads": options.Threads,
    "device": options.Device,
    "layout": options.Layout,
    "precision": options.Precision,
    "shapes": options.Shapes,
    "shape_file": options.ShapeFile,
    "inputs": options.Inputs,
    "samples": options.Samples,
    "ranges": options.Ranges,
    "weights": options.Weights,
    "loss": options.Loss,
    "optimizer": options.Optimizer,
    "budget": options.Budget,
    "timeout": options.Timeout,
    "rerun": options.Rerun,
    "retry": options.Retry,
}


def of_network(
    model: options.Model,
    runtimes: options.Runtimes = None,
    batch: options.Batch = None,
    threads: options.Threads = None,
    device: options.Device = "cpu",
    shapes: options.Shapes = None,
    inputs: options.Inputs = None,
    samples: options.Samples = None,
    ranges: options.Ranges = None,
    weights: options.Weights = None,
    loss: options.Loss = None,
    optimizer: options.Optimizer = None,
    timeout: options.Timeout = 600,
    out: options.Out = FOLDER,
    rerun: options.Rerun = False,
    retry: options.Retry = False,
    as_json: options.Json = False,
) -> None:
    """The parameters of every command that measures one network (`experiments/request.py`)."""


def as_in(
    function: Callable[..., Any], declared: Mapping[str, Any] = {}, without: Collection[str] = ()
) -> Callable[[Command], Command]:
    """Make the command of a function `command(arguments, **own)`: `arguments` are the values of all parameters by name,
    `own` those that the command adds, or gives another default. Type and help of an option are in `declared`, else in
    the shared ones. The command has no parameter that is in `without`."""

    def made(command: Command) -> Command:
        _, *own = inspect.signature(command).parameters.values()
        texts = {**SHARED, **declared, **{each.name: each.annotation for each in own}}
        absent = {*NONE_HERE, *without}
        given = [each for each in inspect.signature(function).parameters.values() if each.name not in absent]
        by_name = {each.name: each.replace(annotation=texts.get(each.name, each.annotation)) for each in given}
        by_name |= {each.name: each for each in own}
        parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in by_name.values()]

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            command(arguments, **{each.name: arguments[each.name] for each in own})

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return made
