"""`xbench load`: how a network does under load, as it would be deployed; only where it is proved to be the network."""

import difflib
import json
import math
from collections.abc import Sequence
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
        help="A network of the zoo, an .onnx file, TensorFlow's .keras and SavedModel, or module:factory.",
        autocompletion=lambda incomplete: choose.complete_model(incomplete),
    ),
]
Scenarios = Annotated[
    list[str] | None,
    typer.Option("--scenario", help="single-stream, multi-stream, offline or server; may be repeated. Default: all."),
]
Batch = Annotated[int, typer.Option(help="Samples that the runtime computes at once.", min=1)]
Stream = Annotated[int, typer.Option(help="Samples of a multi-stream query, a multiple of --batch.", min=1)]
Threads = Annotated[
    int | None, typer.Option(help="CPU threads of every runtime. Default: all; LoadGen needs a little of one more.")
]
Seconds = Annotated[float, typer.Option(help="How long a run lasts; a server's search makes several.", min=0.05)]
Latency = Annotated[
    float | None,
    typer.Option(
        help="Bound of a server's latency. Default, of each runtime: 4 times the median of its single stream, at least "
        "twice its percentile, at least 1 ms."
    ),
]
Percent = Annotated[float, typer.Option(help="Per cent of a server's queries that must be within the bound.")]
Timeout = Annotated[float, typer.Option(help="Seconds one job of a worker may take beside its run.", min=1)]
Out = Annotated[Path, typer.Option(help="Folder of load.jsonl.")]
Json = Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")]


def load(
    model: Model,
    runtime: choose.RuntimeWords = None,
    scenario: Scenarios = None,
    batch: Batch = 1,
    samples_per_query: Stream = 8,
    threads: Threads = None,
    device: choose.DeviceWord = "cpu",
    shape: choose.ShapeWords = None,
    inputs: choose.InputWords = None,
    ranges: choose.RangeWords = None,
    seconds: Seconds = 2.0,
    latency_ms: Latency = None,
    percentile: Percent = 99.0,
    timeout: Timeout = 600,
    out: Out = FOLDER,
    as_json: Json = False,
) -> None:
    """Send a network the queries of a deployment, by MLCommons LoadGen: latencies, throughput, the highest rate.

    single-stream: one query of --batch samples after the other. multi-stream: one query of several samples after the
    other. offline: all samples at once. server: queries at random times (Poisson); searched is the highest rate at
    which --percentile of them are answered within --latency-ms, waiting included. Host arrays go in and come out.

    A runtime is proved and audited first, and its last answer under load is judged again. Each scenario is appended to
    load.jsonl as soon as it is final. Exit code 1 when a runtime failed.
    """
    from xbench.experiments.load import FILE, SCENARIOS, Plan, need_loadgen
    from xbench.store.results import open_store

    names = choose.choose_models([model], (), shape, inputs, None, ranges)
    if len(names) > 1:
        raise XBenchError("load takes one network at a time")
    chosen = _scenarios(scenario, SCENARIOS)
    bound = None if latency_ms is None else latency_ms / 1e3
    plan = Plan(chosen, seconds, percentile, bound, samples_per_query, timeout)
    _sensible(plan, batch)
    targets = choose.choose_runtimes(runtime)
    cell = {"device": choose.choose_device(device), "threads": choose.choose_threads(threads), "plane": "host"}
    need_loadgen()
    choose.need_torch()
    store = open_store(out, FILE)
    with turn(out) as folder:
        records = _load(names[0], targets, batch, cell, plan, store, folder)
    _report(records, out / FILE, as_json)
    raise typer.Exit(int(any(record["status"] not in ("PASS", "UNSUPPORTED") for record in records)))


def _scenarios(words: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The scenarios by name, in the order asked for; all where none is given.

    Raises:
        XBenchError: a word that is none.
    """
    for word in choose.split(words):
        if word not in known:
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the scenarios are {', '.join(known)}"
            raise XBenchError(f"unknown scenario {word!r}: {hint}")
    return choose.split(words) or list(known)


def _sensible(plan: Any, batch: int) -> None:
    """
    Raises:
        XBenchError: a number that no run can have.
    """
    if not plan.seconds < math.inf:
        raise XBenchError(f"--seconds must be a finite number, not {plan.seconds:g}")
    if not 0 < plan.percentile < 100:
        raise XBenchError(f"--percentile must be between 0 and 100, not {plan.percentile:g}")
    if plan.bound is not None and not 0 < plan.bound < math.inf:
        raise XBenchError(f"--latency-ms must be more than 0, not {plan.bound * 1e3:g}")
    if "multi-stream" in plan.scenarios and plan.stream % batch:
        words = f"--batch {batch} does not fit into the {plan.stream} samples of a multi-stream query"
        raise XBenchError(f"{words}: --samples-per-query must be a multiple of it")


def _load(
    model: str, targets: list[str], batch: int, cell: dict[str, Any], plan: Any, store: Any, folder: Path
) -> list[dict[str, Any]]:
    """The records of all runtimes and scenarios, each stored as soon as it is final."""
    from xbench.case import Case
    from xbench.cli._progress import Bar
    from xbench.experiments.load import run
    from xbench.workers.prepare import Exporter

    records, exporter = [], Exporter(folder, plan.timeout)
    with Bar(len(targets) * len(plan.scenarios), f"load {model}") as bar:
        try:
            bar.say("export to ONNX")
            artifact = exporter.artifact(model)
            for case in (Case(model, target, "forward", batch, **cell) for target in targets):
                say = lambda words, runtime=case.runtime: bar.say(f"{runtime}: {words}")  # noqa: E731
                for record in run(case, artifact, plan, exporter, folder, say):
                    store.append(record)
                    records.append(record)
                    bar.finish(_line(record))
        finally:
            exporter.close()
    return records


def _line(record: dict[str, Any]) -> str:
    from xbench.reports.formats import number, seconds

    found, name = record["load"], f"{record['case']['runtime']} {record['load']['scenario']}"
    words = [record["status"]]
    if record["status"] == "PASS" and found["samples_per_s"]:
        words += [f"p{percent} {seconds(value)}" for percent, value in (found["latency_s"] or {}).items()]
        words += [f"{number(found['samples_per_s'])} samples/s"]
    return f"{name}: {', '.join(words)}" + (f": {record['message']}" if record["message"] else "")


def _report(records: list[dict[str, Any]], file: Path, as_json: bool) -> None:
    from xbench.cli._console import console
    from xbench.reports.load import rows, show

    found = rows(records)
    if as_json:
        say(json.dumps(found, indent=1, allow_nan=False))
    else:
        show(found, console(160))
    say(f"saved in {file}", err=True)
