"""`xbench profile`: the time of each layer of a network."""

import json
from typing import Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.run import measured
from xbench.experiments import choose
from xbench.store.record import Record
from xbench.store.results import FOLDER

Top = Annotated[int, typer.Option(help="How many layers are shown, the longest first; all are recorded.", min=1)]


def profile(
    model: options.Model,
    runtime: options.Runtimes = None,
    batch: options.Batch = None,
    threads: options.Threads = None,
    device: options.Device = "cpu",
    shape: options.Shapes = None,
    inputs: options.Inputs = None,
    ranges: options.Ranges = None,
    top: Top = 15,
    timeout: options.Timeout = 600,
    out: options.Out = FOLDER,
    rerun: options.Rerun = False,
    retry: options.Retry = False,
    as_json: options.Json = False,
) -> None:
    """Show the time of each layer in a forward pass, by each runtime's own profiler, and the time outside all layers.

    PyTorch is measured module by module; ONNX Runtime and OpenVINO by the nodes that they run, fused as they are. The
    others compile the whole network and report no layers. The network is verified first. Exit code 1 when a runtime
    failed.
    """
    from xbench.experiments.layers import Layers
    from xbench.runtimes import row_of
    from xbench.store.results import encode

    name = choose.choose_model("profile", model, shapes=shape, inputs=inputs, ranges=ranges)
    own = batch or choose.batch_of(name, 1)
    cell: dict[str, Any] = {"device": choose.choose_device(device), "threads": options.choose_threads(threads)}
    targets = choose.choose_runtimes(runtime)
    targets = [each for each in targets if runtime or row_of(each).layers is not None]
    cases = choose.cells([name], targets, ["forward"], [own], cell)
    outcome = measured(Layers(), cases, out, timeout, choose.again(rerun, retry))
    if as_json:
        say(json.dumps([json.loads(encode(record)) for record in outcome.records], indent=1))
    else:
        _print(outcome.records, top)
    say(f"saved in {out / Layers.file}", err=True)
    raise typer.Exit(outcome.exit_code)


def _print(records: list[Record], top: int) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports.study import grids_of
    from xbench.reports.study_page import show
    from xbench.studies import Part

    part = Part("layers", "Layers of a forward pass", "layers", {}, settings={"top": str(top)})
    show(grids_of(part, records), console(160))
