"""`xbench load`: performance of a network under load, as deployed; only after it is proved to be the same network."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.declared import as_in, of_network
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.run import requested
from xbench.store.record import Record

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


@as_in(of_network, without=("optimizer",))
def load(
    arguments: dict[str, Any],
    scenario: Scenarios = None,
    batch: options.BatchSize = 1,
    samples_per_query: Stream = 8,
    seconds: Seconds = 2.0,
    latency_ms: Latency = None,
    percentile: Percent = 99.0,
) -> None:
    """Send a network the queries of a deployment, by MLCommons LoadGen: latencies, throughput, the highest rate.

    single-stream: one query of --batch samples after the other. multi-stream: one query of several samples after the
    other. offline: all samples at once. server: queries at random times (Poisson); searched is the highest rate at
    which --percentile of them are answered within --latency-ms, waiting included. Host arrays go in and come out.

    A runtime is verified and audited first, and its last answer under load is verified again. Each scenario is appended
    to load.jsonl as soon as it is final; one that is recorded already is not measured again. Exit code 1 when a runtime
    failed.
    """
    from xbench.experiments import of_network as requests

    request = requests.load(arguments)
    outcome = requested(request, arguments)
    _report(outcome.records, arguments["out"] / request.experiment.file, arguments["as_json"])
    raise typer.Exit(outcome.exit_code)


def _report(records: list[Record], file: Path, as_json: bool) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports.load import rows, show

    results = rows(records)
    if as_json:
        say(json.dumps(results, indent=1, allow_nan=False))
    else:
        show(results, console(160))
    say(f"saved in {file}", err=True)
