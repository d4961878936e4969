"""`xbench match`: is a user's network the same as the zoo's network of that name?"""

import json
import os
from typing import Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.experiments import choose


def match(
    port: Annotated[str, typer.Argument(help="The network in question: an ONNX file, or module:factory.")],
    name: Annotated[str, typer.Argument(help="The network of the zoo that it should be.")],
    batch: options.BatchSize = 2,
    shape: options.Shapes = None,
    inputs: options.Inputs = None,
    as_json: options.Json = False,
) -> None:
    """Compare a port with the reference network it was made after.

    Parameters, their shapes in the order of use, multiply-accumulates and dead layers must agree. Then the reference's
    weights are put into the port, and both must give the same outputs in float64. What differs is said in words:
    which reading of the paper it is, or which mistake. Exit code 1 where it is another network.

    The inputs of a module are those of the network, unless --input says otherwise.
    """
    from xbench import models
    from xbench.cli.terminal.progress import Bar
    from xbench.errors import XBenchError
    from xbench.workers.prepare import Exporter

    choose.need_torch()
    try:
        spec = models.find(name)
    except models.UnknownModel as error:
        raise XBenchError(str(error)) from error
    if inputs is None and ":" in port and not os.path.exists(port):
        inputs = [f"{i.name}:{i.dtype}:{','.join(map(str, i.shape))}" for i in spec.inputs]
    word = choose.choose_model("match", port, shapes=shape, inputs=inputs)
    with turn() as logs:
        exporter = Exporter(logs)
        try:
            with Bar(1, "match") as bar:
                bar.say(f"{name}: export to ONNX")
                reference = exporter.artifact(name)
                bar.say(f"{port}: is it {name}, and if not, why?")
                verdict = exporter.matched(word, reference, batch)
                bar.finish(f"{port}: {'the same' if verdict['same'] else 'another network'}")
        finally:
            exporter.close()
    if as_json:
        say(json.dumps({"port": port, "network": name, **verdict}, indent=1))
    else:
        _print(port, name, verdict)
    raise typer.Exit(int(not verdict["same"]))


def _print(port: str, name: str, verdict: dict[str, Any]) -> None:
    if verdict["same"]:
        say(f"{port} is {name}: {verdict['agrees']}")
        return
    say(f"{port} is not {name}:")
    for says in verdict["differences"]:
        say(f"  - {says}")
