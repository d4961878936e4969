"""`xbench phases`: where the time of a training iteration goes."""

import json
from typing import Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.run import measured
from xbench.experiments import choose
from xbench.store.record import Record
from xbench.store.results import FOLDER


def phases(
    model: options.Model,
    runtime: options.Runtimes = None,
    batch: options.Batch = None,
    threads: options.Threads = None,
    device: options.Device = "cpu",
    shape: options.Shapes = None,
    inputs: options.Inputs = None,
    ranges: options.Ranges = None,
    optimizer: options.Optimizer = None,
    budget: options.Budget = 2.0,
    timeout: options.Timeout = 600,
    out: options.Out = FOLDER,
    rerun: options.Rerun = False,
    retry: options.Retry = False,
    as_json: options.Json = False,
) -> None:
    """Time the phases of a training iteration: reading, copying, forward, backward, update; and the whole of it.

    t_f is the forward pass by itself (evaluation form), t_b what the gradient takes beyond it, t_u what the update
    adds. Samples are read from files, as bytes. The whole iteration is measured too: what the phases do not explain
    of it is `other`. The network is verified in all three modes first. Exit code 1 when a runtime failed.
    """
    from xbench.experiments.phases import Phases
    from xbench.experiments.settings import Protocol
    from xbench.store.results import encode

    name = choose.choose_model("phases", model, shapes=shape, inputs=inputs, optimizer=optimizer, ranges=ranges)
    own = batch or choose.batch_of(name, 1)
    cell: dict[str, Any] = {"device": choose.choose_device(device), "threads": options.choose_threads(threads)}
    targets = choose.choose_runtimes(runtime)
    cases = choose.cells([name], targets, ["step"], [own], cell)
    experiment = Phases(Protocol(budget=budget, timeout=timeout))
    outcome = measured(experiment, cases, out, timeout, choose.again(rerun, retry), strict=bool(runtime))
    if as_json:
        say(json.dumps([json.loads(encode(record)) for record in outcome.records], indent=1))
    else:
        _print(outcome.records)
    say(f"saved in {out / Phases.file}", err=True)
    raise typer.Exit(outcome.exit_code)


def _print(records: list[Record]) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports.study import grids_of
    from xbench.reports.study_page import show
    from xbench.studies import Part

    part = Part("phases", "Phases of an iteration, mean ± standard deviation", "phases", {})
    show(grids_of(part, records), console(160))
