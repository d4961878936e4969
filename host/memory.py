"""The memory of one job: a limit, which raises an error in this process instead of letting the machine swap; garbage
collection; the peak."""

import contextlib
import ctypes
import gc
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from xbench.host.process_tree import members

HEADROOM = 2 << 30  # bytes, whatever is in the file
COPIES = 8  # of the arrays on disk: as read, as parsed, as arrays, as text, and each once more while it is written
# Of all else on disk, such as the million nodes of a tree: a number takes two bytes there, and up to 32 as a list of
# Python's or a string of C++'s. Trees of 190 MB took 30 times as much until they were canonical.
LISTS = 64


@contextlib.contextmanager
def at_most(arrays: int, rest: int = 0) -> Iterator[None]:
    """Limit this process, within the block, to the memory that a model can need which has `arrays` bytes of arrays on
    disk and `rest` bytes of everything else.

    Raises (from any code in the block):
        MemoryError: the limit is exceeded.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _taken() + HEADROOM + COPIES * arrays + LISTS * rest
    resource.setrlimit(resource.RLIMIT_DATA, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disable Python's cyclic garbage collector within the block.

    Frameworks keep a million objects alive, and a graph of 8,000 nodes is enough new ones for several full collections,
    each as long as cleaning the graph. Models are cycles; the copies made here share their weights.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def forget_peak() -> bool:
    """Resets the peak of this process and its descendants to their current memory; False if the system cannot, and the
    peak remains that of their whole lives. Source: proc_pid_clear_refs(5)."""
    done = False
    for process in members():
        try:
            Path(f"/proc/{process}/clear_refs").write_text("5")
            done = done or process == os.getpid()
        except (FileNotFoundError, ProcessLookupError):  # it has ended, or there is no such file
            continue
        except OSError:
            return False
    return done


def give_back() -> None:
    """Returns unused pages to the system, if the C library supports it."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def peak() -> int:
    """Peak memory in bytes of this process and its descendants, including mapped files and libraries. It is the sum of
    the peaks of each: these need not coincide, and shared pages count in each."""
    total = 0
    for process in members():
        with contextlib.suppress(OSError, StopIteration, ValueError):
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
            total += 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return total or unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _taken() -> int:
    """Bytes that count against the limit already."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmData")).split()[1])
    return 0
