"""The job that times single layers."""

import statistics
from typing import Any

from xbench.host.clock import now
from xbench.parity import calls, candidate
from xbench.workers.cell import CELL

LEAD = 3  # passes that do not count


def timed_layers(count: int) -> dict[str, Any]:
    """The layers of the cell's runtime, as it reports them, in forward passes on one input: the median of each, and of
    a full pass of the cell."""
    (cell,) = CELL
    inputs = cell.runtime.put(candidate.inputs_of(cell.references[0]))
    totals = []
    for _ in range(LEAD + count):
        begun = now()
        cell.runtime.wait(cell.runtime.forward(*inputs))
        totals.append(now() - begun)
    layers = [
        {"name": layer.name, "operator": layer.operator, "median_s": statistics.median(layer.seconds)}
        for layer in calls.layers(cell.runtime, inputs, count)
    ]
    return {"layers": layers, "whole_s": statistics.median(totals[LEAD:]), "passes": count}


JOBS = (timed_layers,)
