"""`xbench profile`: the time of each layer of a network."""

from typing import Annotated, Any

import typer

from xbench.cli.terminal.declared import as_in, of_network
from xbench.cli.terminal.run import give_records
from xbench.store.record import Record

Top = Annotated[int, typer.Option(help="How many layers are shown, the longest first; all are recorded.", min=1)]


@as_in(of_network, without=("optimizer",))
def profile(arguments: dict[str, Any], top: Top = 15) -> None:
    """Show the time of each layer in a forward pass, by each runtime's own profiler, and the time outside all layers.

    PyTorch is measured module by module; ONNX Runtime and OpenVINO by the nodes that they run, fused as they are. The
    others compile the whole network and report no layers. The network is verified first. Exit code 1 when a runtime
    failed.
    """
    from xbench.experiments import of_network as requests

    give_records(requests.profile(arguments), arguments, lambda records: _print(records, top))


def _print(records: list[Record], top: int) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports.study import grids_of
    from xbench.reports.study_page import show
    from xbench.studies import Part

    part = Part("layers", "Layers of a forward pass", "layers", {}, settings={"top": str(top)})
    show(grids_of(part, records), console(160))
