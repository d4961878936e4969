"""Whether time passes for a worker as it does for its parent: steps between two marks (`marks.py`), and what is told of
them. A runtime that tells the seconds of another process's clock, or of a device's, is held to the same."""

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from xbench.host import process_tree
from xbench.host.clock import now
from xbench.workers import marks
from xbench.workers.cell import Cell

TRIPS = 20  # of which the median is taken
PACKING, LAUNCH = 1e-4, 5e-4  # seconds a step that a request takes beside the way, and that waiting for a GPU does
PIPED = 5e8  # bytes a second that any pipe carries
FAR = 1e-3  # seconds; no way to another process of the same machine takes longer


def way(cell: Cell, plane: str) -> float:
    """Seconds of a step that the clock it is told by need not see: the way to another process, what launching costs."""
    if plane == "device":
        return LAUNCH
    if not cell.remote:
        return 0.0
    trip = statistics.median(cell.runtime.round_trip() for _ in range(TRIPS))
    sent = sum(array.nbytes for array in cell.references[0].values()) if plane == "host" else 0
    return 3 * min(trip, FAR) + PACKING + sent / PIPED


@contextlib.contextmanager
def watched(cell: Cell) -> Iterator[dict[str, float]]:
    """Marks where steps begin and where they end. What is found has `span_s`, the seconds around both marks by the
    worker's clock, and `waited_s`, those that the thread of the steps waited for a CPU: another process may have had it
    between two steps, which no step tells. Of a clock that is not the worker's, those that all its threads waited."""
    seconds: dict[str, float] = {}
    so_far = waited if cell.way else process_tree.kept_waiting
    before, start = so_far(), now()
    marks.mark()
    yield seconds
    marks.mark()
    seconds |= {"span_s": now() - start, "waited_s": so_far() - before}


def told(cell: Cell, found: dict[str, float], times: Sequence[float]) -> dict[str, Any]:
    """What the parent sets against its own clock."""
    unseen = cell.way * len(times) + max(found["waited_s"], 0.0)
    seconds = {"told_s": sum(times), "shortest_s": min(times), "span_s": found["span_s"], "unseen_s": unseen}
    return {"steps": len(times)} | seconds


def waited() -> float:
    return sum(waited for _, waited in process_tree.scheduled().values())
