"""`xbench scale`: the training step by several workers, each framework's own engine, proved equal and then timed."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli import _choose as choose
from xbench.cli._terminal import say
from xbench.cli._turn import turn
from xbench.errors import XBenchError
from xbench.store.results import FOLDER

Model = Annotated[
    str,
    typer.Argument(
        help="A network of the zoo, an .onnx file, or module:factory.",
        autocompletion=lambda incomplete: choose.complete_model(incomplete),
    ),
]
Workers = Annotated[str, typer.Option(help="Numbers of processes, on this machine: 1,2,4.")]
Scaling = Annotated[
    str, typer.Option("--scaling", help="weak: --batch is that of each worker. strong: of all, divided among them.")
]
Batch = Annotated[int | None, typer.Option(help="Batch size. Default: the model's.", min=1)]
Threads = Annotated[int, typer.Option(help="CPU threads of every worker.", min=1)]
Budget = Annotated[float, typer.Option(help="Seconds of timing for each number of workers.", min=0.1)]
Timeout = Annotated[float, typer.Option(help="Seconds one job of the workers may take.", min=1)]
Out = Annotated[Path, typer.Option(help="Folder of scaling.jsonl and the picture.")]
Rerun = Annotated[bool, typer.Option("--rerun", help="Measure again what is recorded already.")]
Json = Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")]


def scale(
    model: Model,
    runtime: choose.RuntimeWords = None,
    workers: Workers = "1,2",
    scaling: Scaling = "weak",
    batch: Batch = None,
    threads: Threads = 1,
    device: choose.DeviceWord = "cpu",
    shape: choose.ShapeWords = None,
    inputs: choose.InputWords = None,
    ranges: choose.RangeWords = None,
    optimizer: choose.OptimizerWord = None,
    budget: Budget = 4.0,
    timeout: Timeout = 300,
    out: Out = FOLDER,
    rerun: Rerun = False,
    as_json: Json = False,
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
    from xbench.experiments.scaling.run import FILE, KINDS, sensible
    from xbench.runtimes.distributed import missing
    from xbench.store.results import open_store

    names = choose.choose_models([model], (), shape, inputs, optimizer, ranges)
    if len(names) > 1:
        raise XBenchError("scale takes one network at a time")
    if scaling not in KINDS:
        raise XBenchError(f"unknown scaling {scaling!r}: it is weak or strong")
    plan = Plan(_numbers(workers), scaling, budget, timeout=timeout)
    size = batch or choose.batch_of(names[0], 32)
    cell = {"batch": size, "device": choose.choose_device(device), "threads": threads, "plane": "host"}
    sensible(plan, size, device)
    targets = [name for name in choose.choose_runtimes(runtime) if runtime or not missing(name)]
    choose.need_torch()
    store = open_store(out, FILE)
    with turn(out) as folder:
        records = _scale(names[0], targets, cell, plan, rerun, store, folder)
    _report(records, out, as_json)
    raise typer.Exit(int(any(record["status"] not in ("PASS", "UNSUPPORTED") for record in records)))


def _numbers(words: str) -> tuple[int, ...]:
    """
    Raises:
        XBenchError: not whole numbers of at least 1.
    """
    parts = [part.strip() for part in words.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and 0 < int(part) <= 64 for part in parts):
        raise XBenchError(f"--workers must be numbers from 1 to 64, such as 1,2,4, not {words!r}")
    return tuple(sorted({int(part) for part in parts}))


def _scale(
    model: str, targets: list[str], cell: dict[str, Any], plan: Any, rerun: bool, store: Any, folder: Path
) -> list[dict[str, Any]]:
    """The records of all runtimes, each stored as soon as it is final, with those that were recorded before."""
    from xbench.case import Case
    from xbench.cli._progress import Bar
    from xbench.experiments import suite
    from xbench.experiments.scaling.record import key
    from xbench.experiments.scaling.run import run
    from xbench.workers.prepare import Exporter

    exporter = Exporter(folder, plan.timeout)
    with Bar(len(targets) * len(plan.workers), f"scale {model}") as bar:
        try:
            bar.say("export to ONNX")
            artifact = exporter.artifact(model)
            found, kept = suite.each(
                [Case(model, target, "step", **cell) for target in targets],
                lambda case: [key(case, artifact, plan, number) for number in plan.workers],
                lambda case: run(case, artifact, plan, exporter, folder, bar.say),
                store,
                bar,
                "all" if rerun else "none",
                _line,
            )
        finally:
            exporter.close()
    if kept:
        say(f"{kept} records were measured before; --rerun measures them again", err=True)
    return found


def _line(record: dict[str, Any]) -> str:
    from xbench.reports.formats import number, seconds

    told, words = record["scaling"], [record["status"]]
    if record["status"] == "PASS":
        words += [f"iteration {seconds(told['iteration_s']['median'])}"]
        words += [f"speed-up {number(told['speed_up']['median'])}"] if told["speed_up"] else []
    name = f"{record['case']['runtime']} x {told['workers']}"
    return f"{name}: {', '.join(words)}" + (f": {record['message']}" if record["message"] else "")


def _report(records: list[dict[str, Any]], out: Path, as_json: bool) -> None:
    from xbench.cli._console import console
    from xbench.converters.source import parse
    from xbench.experiments.scaling.run import FILE
    from xbench.reports.scaling import rows, show
    from xbench.reports.speedups import draw

    found = rows(records)
    if as_json:
        say(json.dumps(found, indent=1, allow_nan=False))
    else:
        show(found, console(200))
    saved = str(out / FILE)
    if any(row["speed_up"] for row in found):
        stem = out / f"{parse(found[0]['model']).stem}-{found[0]['kind']}-scaling"
        try:
            saved += "".join(f", {path}" for path in draw(found, stem))
        except ImportError:
            saved += "; for the picture: pip install 'xbench[plot]'"
        except OSError as error:
            saved += f"; cannot write {stem}: {error.strerror}"
    say(f"saved in {saved}", err=True)
