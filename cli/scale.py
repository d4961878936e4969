"""`xbench scale`: the training step on several workers, by each framework's engine, proved equal and then timed."""

import json
from pathlib import Path
from typing import Annotated

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.run import measured
from xbench.errors import XBenchError
from xbench.experiments import choose
from xbench.store.record import Record
from xbench.store.results import FOLDER

Workers = Annotated[str, typer.Option(help="Numbers of processes, on this machine: 1,2,4.")]
Scaling = Annotated[
    str, typer.Option("--scaling", help="weak: --batch is that of each worker. strong: of all, divided among them.")
]


def scale(
    model: options.Model,
    runtime: options.Runtimes = None,
    workers: Workers = "1,2",
    scaling: Scaling = "weak",
    batch: options.Batch = None,
    threads: options.ThreadCount = 1,
    device: options.Device = "cpu",
    shape: options.Shapes = None,
    inputs: options.Inputs = None,
    ranges: options.Ranges = None,
    optimizer: options.Optimizer = None,
    budget: options.Budget = 4.0,
    timeout: options.Timeout = 300,
    out: options.Out = FOLDER,
    rerun: options.Rerun = False,
    retry: options.Retry = False,
    as_json: options.Json = False,
) -> None:
    """Train a network by several processes: speed-up, the cost of the all-reduce, and what a performance model says.

    PyTorch's DistributedDataParallel under torchrun, TensorFlow's MultiWorkerMirroredStrategy, jax.distributed. First
    the averaged gradients and two training steps are compared with the float64 oracle of the whole batch. Then an
    iteration is timed with communication and, by the same processes at the same time, without; what is between the two
    is the part of the all-reduce that is not hidden. The model is fitted to one worker and predicts the others.

    Records are appended to scaling.jsonl; a runtime whose numbers of workers are all recorded is not measured again.
    Exit code 1 when a runtime failed.
    """
    from xbench.experiments.scaling.record import Plan
    from xbench.experiments.scaling.run import KINDS, Scale, sensible
    from xbench.runtimes.distributed import missing

    name = choose.choose_model("scale", model, shapes=shape, inputs=inputs, optimizer=optimizer, ranges=ranges)
    if scaling not in KINDS:
        raise XBenchError(f"unknown scaling {scaling!r}: it is weak or strong")
    plan = Plan(_numbers(workers), scaling, budget, timeout=timeout)
    size = batch or choose.batch_of(name, 32)
    cell = {"device": choose.choose_device(device), "threads": threads, "plane": "host"}
    sensible(plan, size, device)
    targets = [name for name in choose.choose_runtimes(runtime) if runtime or not missing(name)]
    cases = choose.cells([name], targets, ["step"], [size], cell)
    outcome = measured(Scale(plan), cases, out, timeout, choose.again(rerun, retry))
    _report(outcome.records, out, as_json)
    raise typer.Exit(outcome.exit_code)


def _numbers(words: str) -> tuple[int, ...]:
    """
    Raises:
        XBenchError: not integers of at least 1.
    """
    parts = [part.strip() for part in words.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and 0 < int(part) <= 64 for part in parts):
        raise XBenchError(f"--workers must be numbers from 1 to 64, such as 1,2,4, not {words!r}")
    return tuple(sorted({int(part) for part in parts}))


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
