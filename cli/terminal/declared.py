"""Gives a command the parameters of the package's function of the same name: same names, same defaults."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from xbench.cli.terminal import options

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
    "inputs": options.Inputs,
    "ranges": options.Ranges,
    "optimizer": options.Optimizer,
    "budget": options.Budget,
    "timeout": options.Timeout,
    "rerun": options.Rerun,
    "retry": options.Retry,
}


def as_in(function: Callable[..., Any], declared: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Make the command of a function `command(arguments, **own)`: `arguments` are the values of all parameters by name,
    `own` those that the command adds, or gives another default. Type and help of an option are in `declared`, else in
    the shared ones."""

    def made(command: Command) -> Command:
        _, *own = inspect.signature(command).parameters.values()
        texts = {**SHARED, **declared, **{each.name: each.annotation for each in own}}
        given = [each for each in inspect.signature(function).parameters.values() if each.name not in NONE_HERE]
        by_name = {each.name: each.replace(annotation=texts[each.name]) for each in given}
        by_name |= {each.name: each for each in own}
        parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in by_name.values()]

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            command(arguments, **{each.name: arguments[each.name] for each in own})

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return made
