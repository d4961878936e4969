"""`xbench load`: performance of a network under load, as deployed; only after it is proved to be the same network."""

import difflib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.run import measured
from xbench.errors import XBenchError
from xbench.experiments import choose
from xbench.store.record import Record
from xbench.store.results import FOLDER

Scenarios = Annotated[
    list[str] | None,
    typer.Option("--scenario", help="single-stream, multi-stream, offline or server; may be repeated. Default: all."),
]
Stream = Annotated[int, typer.Option(help="Samples of a multi-stream query, a multiple of --batch.", min=1)]
Seconds = Annotated[float, typer.Option(help="How long a run lasts; a server's search makes several.", min=0.05)]
Latency = Annotated[
    float | None,
    typer.Option(
        help="Bound of a server's latency. Default, of each runtime: 4 times the median of its single stream, at least "
        "twice its percentile, at least 1 ms."
    ),
]
Percent = Annotated[float, typer.Option(help="Per cent of a server's queries that must be within the bound.")]


def load(
    model: options.Model,
    runtime: options.Runtimes = None,
    scenario: Scenarios = None,
    batch: options.BatchSize = 1,
    samples_per_query: Stream = 8,
    threads: options.Threads = None,
    device: options.Device = "cpu",
    shape: options.Shapes = None,
    inputs: options.Inputs = None,
    ranges: options.Ranges = None,
    seconds: Seconds = 2.0,
    latency_ms: Latency = None,
    percentile: Percent = 99.0,
    timeout: options.Timeout = 600,
    out: options.Out = FOLDER,
    rerun: options.Rerun = False,
    retry: options.Retry = False,
    as_json: options.Json = False,
) -> None:
    """Send a network the queries of a deployment, by MLCommons LoadGen: latencies, throughput, the highest rate.

    single-stream: one query of --batch samples after the other. multi-stream: one query of several samples after the
    other. offline: all samples at once. server: queries at random times (Poisson); searched is the highest rate at
    which --percentile of them are answered within --latency-ms, waiting included. Host arrays go in and come out.

    A runtime is verified and audited first, and its last answer under load is verified again. Each scenario is appended
    to load.jsonl as soon as it is final; one that is recorded already is not measured again. Exit code 1 when a runtime
    failed.
    """
    from xbench.experiments.load import SCENARIOS, Load, need_loadgen

    name = choose.choose_model("load", model, shapes=shape, inputs=inputs, ranges=ranges)
    chosen = _scenarios(scenario, SCENARIOS)
    bound = None if latency_ms is None else latency_ms / 1e3
    experiment = Load(tuple(chosen), seconds, percentile, bound, samples_per_query)
    _sensible(experiment, batch)
    targets = choose.choose_runtimes(runtime)
    cell = {"device": choose.choose_device(device), "threads": options.choose_threads(threads), "plane": "host"}
    need_loadgen()
    cases = choose.cells([name], targets, ["forward"], [batch], cell)
    again = choose.again(rerun, retry)
    outcome = measured(experiment, cases, out, timeout, again)
    _report(outcome.records, out / Load.file, as_json)
    raise typer.Exit(outcome.exit_code)


def _scenarios(words: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The scenarios by name, in the requested order; all if none is given.

    Raises:
        XBenchError: an unknown scenario.
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
        XBenchError: a number that is invalid for a run.
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


def _report(records: list[Record], file: Path, as_json: bool) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports.load import rows, show

    results = rows(records)
    if as_json:
        say(json.dumps(results, indent=1, allow_nan=False))
    else:
        show(results, console(160))
    say(f"saved in {file}", err=True)
