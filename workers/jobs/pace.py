"""The job that measures how fast a worker's clock runs."""

import math
import statistics
from typing import Any

from xbench.host import machine, process_tree
from xbench.host.clock import now, used
from xbench.workers import pace as watch
from xbench.workers import timing
from xbench.workers.cell import CELL, Cell, fetched_of, proving


def pace(count: int) -> dict[str, Any]:
    """Runs `count` steps between two marks, whatever the clock says, and returns its times. The last
    result is fetched, so that no work is left; `left_s` is the time of that."""
    (cell,) = CELL
    with proving(cell):
        facts = _singly(cell, count) if cell.way else _together(cell, count)
        start = now()
        fetched_of(cell)
    return facts | {"left_s": max(now() - start, 0.0)}  # a clock that runs backwards is reported by `clock`


def _together(cell: Cell, count: int) -> dict[str, Any]:
    with watch.watched(cell) as facts:
        times = timing.sample(cell.steps, math.inf, count)
    return watch.told(cell, facts, times)


def _singly(cell: Cell, count: int) -> dict[str, Any]:
    """Times each step separately, if another clock gives its seconds: the share it leaves out (`missing`).

    The clock of another process does not see waiting for a CPU on the way to it. So the steps that waited least are
    used: on a busy machine the others measure the machine. However busy it is, no step takes less than its CPU seconds
    over the number of CPUs (`short`), and time that a runtime of another process spends in this one (`here`) cannot be
    its work.
    """
    cpus = len(machine.allowed())
    missing = list[tuple[float, float]]()  # of each step: the share of waiting, the share left out
    times, short, here, looking = list[float](), list[float](), list[float](), 0.0
    with watch.watched(cell) as facts:
        for index in range(count):
            begun, (waited, below) = now(), _counters()
            own, start = used(), now()
            times += timing.sample(cell.steps, 0, 1, index)
            end, own = now(), used() - own
            waited, below = (after - before for before, after in zip((waited, below), _counters(), strict=True))
            step = abs(times[-1]) + cell.way
            missing.append((waited / (end - start), 1 - (times[-1] + cell.way + waited) / (end - start)))
            short.append(1 - step * cpus / max(own + below, 1e-9))
            here.append((own - cell.way) / step if cell.remote else 0.0)
            looking += start - begun + now() - end
    summary = watch.told(cell, facts, times)
    least = statistics.median(share for _, share in sorted(missing)[: max(count // 4, 1)])
    facts = {"missing": max(least, statistics.median(short)), "here": statistics.median(here)}
    return summary | {"unseen_s": summary["unseen_s"] + looking} | facts


def _counters() -> tuple[float, float]:
    """Seconds that all processes of a worker waited for a CPU, and that all but this one ran."""
    return watch.waited(), process_tree.cpu_seconds_below()


JOBS = (pace,)
