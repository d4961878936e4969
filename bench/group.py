"""The processes of a worker: it leads a group, in which is what it starts. The cost of a cell is that of them all."""

import contextlib
import os
import time
from pathlib import Path

SCHEDULED = 2  # of Linux's clocks of a process: the time that its threads ran (clock_getcpuclockid(3))


def members() -> list[int]:
    """This process and those of its group."""
    found = [os.getpid()]
    with contextlib.suppress(OSError):
        for process in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            with contextlib.suppress(OSError):  # it has ended
                found += [process] if os.getpgid(process) == os.getpid() != process else []
    return found


def cpu_seconds() -> float:
    """CPU seconds that all threads of all of them have run."""
    total = time.process_time()
    for process in members()[1:]:
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~process << 3) | SCHEDULED)
    return total


def threads() -> list[int]:
    """The threads of all of them; none where the system does not tell."""
    return [int(each.name) for process in members() for each in Path(f"/proc/{process}/task").glob("[0-9]*")]


def scheduled() -> dict[int, tuple[float, float]]:
    """Seconds that each thread ran, and waited for a CPU; none where the system does not tell."""
    found = {}
    for process in members():
        for folder in Path(f"/proc/{process}/task").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                run, waited, _ = (folder / "schedstat").read_text().split()
                found[int(folder.name)] = int(run) / 1e9, int(waited) / 1e9
    return found
