"""`xbench phases`: where the time of a training iteration goes."""

from typing import Any

from xbench.cli.terminal import options
from xbench.cli.terminal.declared import as_in, of_network
from xbench.cli.terminal.run import give_records
from xbench.store.record import Record


@as_in(of_network, without=("samples",))
def phases(arguments: dict[str, Any], budget: options.Budget = 2.0) -> None:
    """Time the phases of a training iteration: reading, copying, forward, backward, update; and the whole of it.

    t_f is the forward pass by itself (evaluation form), t_b what the gradient takes beyond it, t_u what the update
    adds. Samples are read from files, as bytes. The whole iteration is measured too: what the phases do not explain
    of it is `other`. The network is verified in all three modes first. Exit code 1 when a runtime failed.
    """
    from xbench.experiments import of_network as requests

    give_records(requests.phases(arguments), arguments, _print)


def _print(records: list[Record]) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports.study import grids_of
    from xbench.reports.study_page import show
    from xbench.studies import Part

    part = Part("phases", "Phases of an iteration, mean ± standard deviation", "phases", {})
    show(grids_of(part, records), console(160))
