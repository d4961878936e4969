"""What a worker can be asked to find out how fast its clock runs."""

import math
import statistics
from typing import Any

from xbench.bench import pace as watch
from xbench.bench import timing
from xbench.bench.cell import CELL, Cell, proving
from xbench.bench.clock import now, used


def pace(count: int) -> dict[str, Any]:
    """So many steps, whatever the clock says, between two marks, and what the clock says of them."""
    (cell,) = CELL
    with proving(cell):
        if cell.way:
            return _singly(cell, count)
        with watch.watched(cell) as found:
            times = timing.sample(cell.steps, math.inf, count)
    return watch.told(cell, found, times)


def _singly(cell: Cell, count: int) -> dict[str, Any]:
    """Each step by itself, where another clock tells its seconds: how much that leaves out (`missing`, a share).

    The clock of another process does not see what the way to it waits for a CPU. So on a busy machine some steps that
    did not wait must show it; and besides, what such a runtime spends in this process (`here`, a share of what it
    tells) cannot be its work.
    """
    remote = cell.runtime.remote
    times, missing, here, looking = list[float](), list[float](), list[float](), 0.0
    with watch.watched(cell) as found:
        for index in range(count):
            begun, before, cpu = now(), watch.waited(), used()
            start = now()
            times += timing.sample(cell.steps, 0, 1, index)
            end, cpu = now(), used() - cpu
            excused = cell.way + (watch.waited() - before if remote else 0.0)
            missing.append(1 - (times[-1] + excused) / (end - start))
            here.append((cpu - cell.way) / (abs(times[-1]) + cell.way) if remote else 0.0)
            looking += start - begun + now() - end
    told = watch.told(cell, found, times) | {"missing": sorted(missing)[int((0.9 if remote else 0.5) * (count - 1))]}
    return told | {"unseen_s": told["unseen_s"] + looking, "here": statistics.median(here)}


JOBS = (pace,)
