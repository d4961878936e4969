"""The processes of a worker: it, and all that it has started, in whatever group or session they are. A worker adopts
what its children leave behind (`adopt`), so that none can leave its tree. The cost of a cell is that of them all, and
all are stopped, resumed and ended together. A process that was there before, such as a server, is not among them."""

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

from xbench.host import clock

PR_SET_CHILD_SUBREAPER = 36
SCHEDULED = 2  # of Linux's clocks of a process: the time that its threads ran (clock_getcpuclockid(3))
CHILDREN = Path("/proc/thread-self/children")
TICK = 1 / os.sysconf("SC_CLK_TCK")
VARIABLE = "XBENCH_WORKER"  # what every process of a worker inherits


def adopt() -> None:
    """Makes this process the parent of every process below it whose own parent ends: so a daemon stays in the tree."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def members(root: int | None = None) -> list[int]:
    """A process, this one unless another is named, and all that it has started, directly or not."""
    found = [os.getpid() if root is None else root]
    known = None if CHILDREN.exists() else _by_parent()
    for process in found:  # it grows meanwhile
        children = _listed(process) if known is None else known.get(process, [])
        found += [each for each in children if each not in found]
    return found


def _listed(process: int) -> list[int]:
    """The children of a process, as Linux lists them by thread."""
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("[0-9]*/children"):
        with contextlib.suppress(OSError):  # it has ended
            found += map(int, path.read_text().split())
    return found


def _by_parent() -> dict[int, list[int]]:
    """The children of all processes, from what each says of its parent: where Linux was built without that list."""
    known: dict[int, list[int]] = {}
    for process in _all():
        with contextlib.suppress(OSError, ValueError, IndexError):
            known.setdefault(int(_stat(process)[1]), []).append(process)
    return known


def _all() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _stat(process: int) -> list[str]:
    """What Linux says of a process, from its state on (proc_pid_stat(5))."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def send(root: int, number: int, mark: str, ended: bool) -> None:
    """Sends a signal to all processes of a worker. None can start another meanwhile, as all are stopped first, unless
    they are to go on. Where the worker has `ended` by itself, what it left is known by its group and its mark."""
    reached = set[int]()
    first = signal.SIGCONT if number == signal.SIGCONT else signal.SIGSTOP
    while not ended and (found := [each for each in members(root) if each not in reached]):
        for process in found:
            _send(process, first)
        reached.update(found)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, number)
    if number == signal.SIGKILL:
        for process in {*reached, *marked(mark)} - {os.getpid()}:
            _send(process, number)


def _send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def marked(mark: str) -> list[int]:
    """The processes that inherited a worker's mark."""
    found, line = [], f"{VARIABLE}={mark}".encode()
    for process in _all():
        with contextlib.suppress(OSError):
            if line in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                found.append(process)
    return found


def cpu_seconds() -> float:
    """CPU seconds that all threads of all of them have run, and those that have ended and were waited for."""
    return clock.used() + cpu_seconds_below()


def cpu_seconds_below() -> float:
    """The same without this process. To ask costs this one some 0.5 ms."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime
    for process in members()[1:]:
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += clock.used_by((~process << 3) | SCHEDULED)
            total += TICK * sum(map(int, _stat(process)[13:15]))  # of its own children that have ended
    return total


def threads(root: int | None = None) -> list[int]:
    """The threads of all of them; none where the system does not tell."""
    return [int(each.name) for process in members(root) for each in Path(f"/proc/{process}/task").glob("[0-9]*")]


def elsewhere(root: int, cpus: set[int]) -> set[int]:
    """CPUs other than these on which a thread of theirs may run."""
    found = set[int]()
    for thread in threads(root) if hasattr(os, "sched_getaffinity") else ():
        with contextlib.suppress(OSError):  # it has ended
            found |= os.sched_getaffinity(thread)
    return found - cpus


def kept_waiting() -> float:
    """Seconds that this thread has waited for a CPU; 0.0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def scheduled() -> dict[int, tuple[float, float]]:
    """Seconds that each thread ran, and waited for a CPU; none where the system does not tell."""
    found = {}
    for process in members():
        for folder in Path(f"/proc/{process}/task").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                run, waited, _ = (folder / "schedstat").read_text().split()
                found[int(folder.name)] = int(run) / 1e9, int(waited) / 1e9
    return found
