"""`xbench profile`: what each layer of a network takes."""

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
Top = Annotated[int, typer.Option(help="How many layers are shown, the longest first; all are recorded.", min=1)]
Timeout = Annotated[float, typer.Option(help="Seconds one job of a worker may take.", min=1)]
Out = Annotated[Path, typer.Option(help="Folder of layers.jsonl.")]
Rerun = Annotated[bool, typer.Option("--rerun", help="Measure again what is recorded already.")]
Json = Annotated[bool, typer.Option("--json", help="Print the records as a JSON list.")]


def profile(
    model: Annotated[str, typer.Argument(help="A network of the zoo, an .onnx file, or module:factory.")],
    runtime: choose.RuntimeWords = None,
    batch: Batch = None,
    threads: Threads = None,
    device: choose.DeviceWord = "cpu",
    shape: choose.ShapeWords = None,
    inputs: choose.InputWords = None,
    ranges: choose.RangeWords = None,
    top: Top = 15,
    timeout: Timeout = 600,
    out: Out = FOLDER,
    rerun: Rerun = False,
    as_json: Json = False,
) -> None:
    """Tell what each layer takes of a forward pass, by each runtime's own profiler, and what the layers leave of it.

    PyTorch is asked module by module; ONNX Runtime and OpenVINO by the nodes that they run, fused as they are. The
    others compile a network as one and tell of no layer. The network is proved before. Exit code 1 when a runtime
    failed.
    """
    from xbench.case import Case
    from xbench.errors import XBenchError
    from xbench.experiments.profile import FILE
    from xbench.runtimes import row_of
    from xbench.store.results import encode, open_store

    names = choose.choose_models([model], (), shape, inputs, None, ranges)
    if len(names) > 1:
        raise XBenchError("profile takes one network at a time")
    own = batch or choose.batch_of(names[0], 1)
    cell: dict[str, Any] = {"device": choose.choose_device(device), "threads": choose.choose_threads(threads)}
    targets = choose.choose_runtimes(runtime)
    targets = [each for each in targets if runtime or row_of(each).layers is not None]
    choose.need_torch()
    store = open_store(out, FILE)
    cases = [Case(names[0], target, "forward", own, **cell) for target in targets]
    with turn(out) as logs:
        records = _measure(cases, rerun, timeout, store, logs)
    if as_json:
        say(json.dumps([json.loads(encode(record)) for record in records], indent=1))
    else:
        _print(records, top)
    say(f"saved in {out / FILE}", err=True)
    raise typer.Exit(int(any(record["status"] not in ("PASS", "UNSUPPORTED") for record in records)))


def _measure(cases: list[Any], rerun: bool, timeout: float, store: Any, logs: Path) -> list[dict[str, Any]]:
    """The records of all runtimes, each stored as soon as it is final."""
    from xbench.cli._progress import Bar
    from xbench.experiments import suite
    from xbench.experiments.profile import named, run
    from xbench.workers.prepare import Exporter

    exporter = Exporter(logs, timeout)
    with Bar(len(cases), "profile") as bar:
        try:
            bar.say("export to ONNX")
            artifact = exporter.artifact(cases[0].model)
            one = lambda case: [run(case, artifact, exporter, timeout, logs, bar.say)]  # noqa: E731
            names = lambda case: [named(case, artifact)]  # noqa: E731
            return suite.each(cases, names, one, store, bar, "all" if rerun else "none")[0]
        finally:
            exporter.close()


def _print(records: list[dict[str, Any]], top: int) -> None:
    from xbench.cli._console import console
    from xbench.reports.study import grids_of
    from xbench.reports.study_page import show
    from xbench.studies import Part

    out = console(160)
    for grid in grids_of(Part("layers", "Layers of a forward pass", "layers", {}, settings={"top": str(top)}), records):
        show(grid, out)
