"""`xbench scale`: the training step on several workers, by each framework's engine, proved equal and then timed."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.declared import as_in, of_network
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.run import requested
from xbench.store.record import Record

Workers = Annotated[str, typer.Option(help="Numbers of processes, on this machine: 1,2,4.")]
Scaling = Annotated[
    str, typer.Option("--scaling", help="weak: --batch is that of each worker. strong: of all, divided among them.")
]


@as_in(of_network, without=("samples",))
def scale(
    arguments: dict[str, Any],
    workers: Workers = "1,2",
    scaling: Scaling = "weak",
    threads: options.ThreadCount = 1,
    budget: options.Budget = 4.0,
    timeout: options.Timeout = 300,
) -> None:
    """Train a network by several processes: speed-up, the cost of the all-reduce, and what a performance model says.

    PyTorch's DistributedDataParallel under torchrun, TensorFlow's MultiWorkerMirroredStrategy, jax.distributed. First
    the averaged gradients and two training steps are compared with the float64 oracle of the whole batch. Then an
    iteration is timed with communication and, by the same processes at the same time, without; what is between the two
    is the part of the all-reduce that is not hidden. The model is fitted to one worker and predicts the others.

    Records are appended to scaling.jsonl; a runtime whose numbers of workers are all recorded is not measured again.
    Exit code 1 when a runtime failed.
    """
    from xbench.experiments import of_network as requests

    outcome = requested(requests.scale(arguments), arguments)
    _report(outcome.records, arguments["out"], arguments["as_json"])
    raise typer.Exit(outcome.exit_code)


def _report(records: list[Record], out: Path, as_json: bool) -> None:
    from xbench.cli.terminal.console import console
    from xbench.converters.source import parse
    from xbench.experiments.scaling.run import Scale
    from xbench.reports.scaling import rows, show
    from xbench.reports.speedups import draw

    results = rows(records)
    if as_json:
        say(json.dumps(results, indent=1, allow_nan=False))
    else:
        show(results, console(200))
    saved = str(out / Scale.file)
    if any(row["speed_up"] for row in results):
        stem = out / f"{parse(results[0]['model']).stem}-{results[0]['kind']}-scaling"
        try:
            saved += "".join(f", {path}" for path in draw(results, stem))
        except ImportError:
            saved += "; for the picture: pip install 'xbench[plot]'"
        except OSError as error:
            saved += f"; cannot write {stem}: {error.strerror}"
    say(f"saved in {saved}", err=True)
