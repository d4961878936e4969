"""The processes of a worker: the worker and its descendants, in any group or session. A worker adopts orphans of its
children (`adopt`), so that no process can leave its tree. The cost of a cell is that of them all, and all are stopped,
resumed and ended together. A process that existed before, such as a server, is not among them."""

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
    """Makes this process the parent of its orphaned descendants, so that a daemon stays in the tree."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def members(root: int | None = None) -> list[int]:
    """A process, by default this one, and all its descendants."""
    tree = [os.getpid() if root is None else root]
    known = None if CHILDREN.exists() else _by_parent()
    for process in tree:  # it grows meanwhile
        children = _listed(process) if known is None else known.get(process, [])
        tree += [each for each in children if each not in tree]
    return tree


def _listed(process: int) -> list[int]:
    """The children of a process, as Linux lists them by thread."""
    children: list[int] = []
    for thread in entries(process, "task"):
        with contextlib.suppress(OSError):  # it has ended
            children += map(int, (thread / "children").read_text().split())
    return children


def entries(process: int | str, folder: str, root: Path = Path("/")) -> list[Path]:
    """The entries of a folder of a process in /proc; none if the process has ended. (`Path.glob` raises then, if the
    process ends while it looks.)"""
    place = root / f"proc/{process}/{folder}"
    try:
        return [place / name for name in os.listdir(place)]
    except OSError:
        return []


def _by_parent() -> dict[int, list[int]]:
    """The children of all processes, from each one's parent: for a Linux built without that list."""
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
    """The fields of a process, from its state on (proc_pid_stat(5))."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def send(root: int, number: int, mark: str, ended: bool) -> None:
    """Sends a signal to all processes of a worker. All are stopped first, unless they are to resume, so that none can
    start another meanwhile. If the worker has `ended` by itself, its remains are known by their group and mark."""
    reached = set[int]()
    first = signal.SIGCONT if number == signal.SIGCONT else signal.SIGSTOP
    while not ended and (fresh := [each for each in members(root) if each not in reached]):
        for process in fresh:
            _send(process, first)
        reached.update(fresh)
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
    processes, line = [], f"{VARIABLE}={mark}".encode()
    for process in _all():
        with contextlib.suppress(OSError):
            if line in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                processes.append(process)
    return processes


def cpu_seconds() -> float:
    """CPU seconds of all threads of the tree, including processes that have ended and were waited for."""
    return clock.used() + cpu_seconds_below()


def cpu_seconds_below() -> float:
    """The same without this process. The call costs this process some 0.5 ms."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime
    for process in members()[1:]:
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += clock.used_by((~process << 3) | SCHEDULED)
            total += TICK * sum(map(int, _stat(process)[13:15]))  # of its own children that have ended
    return total


def threads(root: int | None = None) -> list[int]:
    """The threads of the tree; empty if the system does not report them."""
    return [int(each.name) for process in members(root) for each in entries(process, "task")]


def elsewhere(root: int, cpus: set[int]) -> set[int]:
    """CPUs outside `cpus` on which a thread of the tree may run."""
    permitted = set[int]()
    for thread in threads(root) if hasattr(os, "sched_getaffinity") else ():
        with contextlib.suppress(OSError):  # it has ended
            permitted |= os.sched_getaffinity(thread)
    return permitted - cpus


def kept_waiting() -> float:
    """Seconds that this thread has waited for a CPU; 0.0 if the system does not report it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def scheduled() -> dict[int, tuple[float, float]]:
    """Seconds that each thread ran, and waited for a CPU; empty if the system does not report them."""
    times = {}
    for process in members():
        for folder in entries(process, "task"):
            with contextlib.suppress(OSError, ValueError):
                run, waited, _ = (folder / "schedstat").read_text().split()
                times[int(folder.name)] = int(run) / 1e9, int(waited) / 1e9
    return times
