"""`xbench phases`: where the time of a training iteration goes."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli import _choose as choose
from xbench.cli._terminal import say
from xbench.cli._turn import turn
from xbench.store.results import FOLDER

Batch = Annotated[int | None, typer.Option(help="Batch size. Default: the model's.", min=1)]
Threads = Annotated[int | None, typer.Option(help="CPU threads of every runtime. Default: all.")]
Budget = Annotated[
    float, typer.Option(help="Seconds of sampling in each mode, and at most as many of warm-up.", min=0.01)
]
Timeout = Annotated[float, typer.Option(help="Seconds one job of a worker may take.", min=1)]
Out = Annotated[Path, typer.Option(help="Folder of phases.jsonl.")]
Rerun = Annotated[bool, typer.Option("--rerun", help="Measure again what is recorded already.")]
Json = Annotated[bool, typer.Option("--json", help="Print the records as a JSON list.")]


def phases(
    model: Annotated[str, typer.Argument(help="A network of the zoo, an .onnx file, or module:factory.")],
    runtime: choose.RuntimeWords = None,
    batch: Batch = None,
    threads: Threads = None,
    device: choose.DeviceWord = "cpu",
    shape: choose.ShapeWords = None,
    inputs: choose.InputWords = None,
    ranges: choose.RangeWords = None,
    optimizer: choose.OptimizerWord = None,
    budget: Budget = 2.0,
    timeout: Timeout = 600,
    out: Out = FOLDER,
    rerun: Rerun = False,
    as_json: Json = False,
) -> None:
    """Time the phases of a training iteration: reading, copying, forward, backward, update; and the whole of it.

    t_f is the forward pass by itself (evaluation form), t_b what the gradient takes beyond it, t_u what the update
    adds. Samples are read from files, as bytes. The iteration is measured as a whole, too: what the phases do not
    explain of it stands as `other`. The network is proved in all three modes before. Exit code 1 when a runtime failed.
    """
    from xbench.case import Case
    from xbench.errors import XBenchError
    from xbench.experiments.phases import FILE
    from xbench.experiments.settings import Protocol
    from xbench.store.results import encode, open_store

    names = choose.choose_models([model], (), shape, inputs, optimizer, ranges)
    if len(names) > 1:
        raise XBenchError("phases takes one network at a time")
    own = batch or choose.batch_of(names[0], 1)
    cell: dict[str, Any] = {"device": choose.choose_device(device), "threads": choose.choose_threads(threads)}
    targets = choose.choose_runtimes(runtime)
    choose.need_torch()
    store = open_store(out, FILE)
    cases = [Case(names[0], target, "step", own, **cell) for target in targets]
    with turn(out) as logs:
        records = _measure(cases, bool(runtime), rerun, Protocol(budget=budget, timeout=timeout), store, logs)
    if not records:
        raise XBenchError(f"no installed runtime trains {names[0]}; with --runtime it is said why")
    if as_json:
        say(json.dumps([json.loads(encode(record)) for record in records], indent=1))
    else:
        _print(records)
    say(f"saved in {out / FILE}", err=True)
    raise typer.Exit(int(any(record["status"] not in ("PASS", "UNSUPPORTED") for record in records)))


def _measure(
    cases: list[Any], strict: bool, rerun: bool, protocol: Any, store: Any, logs: Path
) -> list[dict[str, Any]]:
    """The records of all runtimes, each stored as soon as it is final."""
    from xbench.cli._progress import Bar
    from xbench.experiments import suite
    from xbench.experiments.phases import named, run
    from xbench.proof.record import expected
    from xbench.workers.prepare import Exporter

    exporter = Exporter(logs, protocol.timeout)
    with Bar(len(cases), "phases") as bar:
        try:
            bar.say("export to ONNX")
            artifact = exporter.artifact(cases[0].model)
            chosen = [case for case in cases if strict or expected(case, artifact)]
            bar.skip(len(cases) - len(chosen))
            one = lambda case: [run(case, artifact, exporter, protocol, logs, bar.say)]  # noqa: E731
            names = lambda case: [named(case, artifact)]  # noqa: E731
            return suite.each(chosen, names, one, store, bar, "all" if rerun else "none")[0]
        finally:
            exporter.close()


def _print(records: list[dict[str, Any]]) -> None:
    from xbench.cli._console import console
    from xbench.reports.study import grids_of
    from xbench.reports.study_page import show
    from xbench.studies import Part

    out = console(160)
    for grid in grids_of(Part("phases", "Phases of an iteration, mean ± standard deviation", "phases", {}), records):
        show(grid, out)
