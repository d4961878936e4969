"""The memory of one job: a ceiling, which is an error in this process instead of a machine that swaps; its garbage."""

import contextlib
import gc
import resource
from collections.abc import Iterator
from pathlib import Path

HEADROOM = 2 << 30  # bytes, whatever the file holds
PYTORCH = 4 << 30  # more, where PyTorch is imported meanwhile
COPIES = 8  # of what lies on disk: as read, as parsed, as arrays, as text, and each once more while it is written


@contextlib.contextmanager
def at_most(size: int, headroom: int = HEADROOM) -> Iterator[None]:
    """While it is open, this process may take what a model with so many bytes on disk can need, and no more.

    Raises (from whatever is done inside):
        MemoryError: it would take more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _taken() + headroom + COPIES * size
    resource.setrlimit(resource.RLIMIT_DATA, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """While it is open, Python does not look for cycles of garbage.

    Frameworks keep a million objects alive, and a graph of 8,000 nodes is enough new ones for several full searches,
    each as long as cleaning the graph. Models are cycles; the copies made here share their weights.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _taken() -> int:
    """Bytes that count against the limit already."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmData")).split()[1])
    return 0
