"""Whether a worker's clock runs like its parent's: steps between two marks (`marks.py`), and the times reported for
them. A runtime that reports seconds by the clock of another process or a device must meet the same test."""

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from xbench.host import process_tree
from xbench.host.clock import now
from xbench.workers import marks
from xbench.workers.cell import Cell

TRIPS = 20  # of which the median is taken
PACKING, LAUNCH = 1e-4, 5e-4  # seconds per step: of a request besides the round trip, and of waiting for a GPU
PIPED = 5e8  # bytes a second that any pipe carries
FAR = 1e-3  # seconds; no round trip to a process of the same machine takes longer


def way(cell: Cell, plane: str) -> float:
    """Seconds of a step that its clock need not see: the round trip to another process, the cost of launching."""
    if plane == "device":
        return LAUNCH
    if not cell.remote:
        return 0.0
    trip = statistics.median(cell.runtime.round_trip() for _ in range(TRIPS))
    sent = sum(array.nbytes for array in cell.references[0].values()) if plane == "host" else 0
    return 3 * min(trip, FAR) + PACKING + sent / PIPED


@contextlib.contextmanager
def watched(cell: Cell) -> Iterator[dict[str, float]]:
    """Marks the begin and the end of steps. Yields a dictionary for `span_s`, the seconds around both marks by the
    worker's clock, and `waited_s`, those that the thread of the steps waited for a CPU: another process may have had it
    between two steps, which no step shows. For a clock that is not the worker's, those that all its threads waited."""
    seconds: dict[str, float] = {}
    so_far = waited if cell.way else process_tree.kept_waiting
    before, start = so_far(), now()
    marks.mark()
    yield seconds
    marks.mark()
    seconds |= {"span_s": now() - start, "waited_s": so_far() - before}


def told(cell: Cell, found: dict[str, float], times: Sequence[float]) -> dict[str, Any]:
    """What the parent compares with its own clock."""
    unseen = cell.way * len(times) + max(found["waited_s"], 0.0)
    seconds = {"told_s": sum(times), "shortest_s": min(times), "span_s": found["span_s"], "unseen_s": unseen}
    return {"steps": len(times)} | seconds


def waited() -> float:
    return sum(waited for _, waited in process_tree.scheduled().values())
