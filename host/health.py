"""Disturbances while a cell is timed: other processes on its CPUs, CPU time stolen by a hypervisor, throttled clocks.
Reads Linux's own counters; a value that they do not report is null."""

import contextlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbench.host import gpu, process_tree
from xbench.host.clock import now

ROOT = Path("/")
TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds; the system counts CPU time in these
LEAST = 5 * TICK  # seconds; below it the system's counters are too coarse
OTHERS, STEAL = 0.05, 0.02  # of the wall time, per CPU; above it a block is disturbed


@dataclass(frozen=True)
class Reading:
    """Counters at one moment, in seconds; `throttled` counts events. None for what the system does not report."""

    wall: float
    own: float
    waited: float | None
    busy: float | None
    steal: float | None
    throttled: int | None


def look(cpus: Collection[int], own: float, root: Path = ROOT) -> Reading:
    """The counters of these CPUs; `own` is the CPU seconds of the timed process and its children."""
    lines = (line.split() for line in _read(root / "proc/stat").splitlines())
    rows = [words[1:] for words in lines if words and words[0] in {f"cpu{cpu}" for cpu in cpus}]
    busy = steal = None
    if len(rows) == len(cpus) and all(len(words) >= 8 for words in rows):
        times = [[int(word) * TICK for word in words] for words in rows]
        busy = sum(user + nice + system + irq + soft for user, nice, system, _, _, irq, soft, *_ in times)
        steal = sum(each[7] for each in times)
    return Reading(now(), own, _waited(root), busy, steal, _throttled(cpus, root))


def between(before: Reading, after: Reading, cpus: Collection[int], root: Path = ROOT) -> dict[str, Any]:
    """What happened between two readings, as shares of the CPUs' capacity: `steal`, `others` (CPU time of others on
    these CPUs), `waited` (its own threads, for a CPU), null if the interval is too short; `throttled`, the number of
    times their clock was throttled; and the current `clock_hz`, `celsius`, `load`."""
    wall = after.wall - before.wall
    shares: dict[str, float | None] = dict.fromkeys(("steal", "others", "waited"))
    if wall >= LEAST:
        busy, capacity = _less(after.busy, before.busy), wall * len(cpus)
        shares = {
            "steal": _share(_less(after.steal, before.steal), capacity),
            "others": None if busy is None else _share(max(busy - (after.own - before.own), 0.0), capacity),
            "waited": _share(_less(after.waited, before.waited), capacity),
        }
    throttled = None if after.throttled is None or before.throttled is None else after.throttled - before.throttled
    current = {"clock_hz": _clock(cpus, root), "celsius": _celsius(root), "load": os.getloadavg()[0]}
    return {**shares, "throttled": throttled, "wall_s": wall, **current}


def disturbance(found: dict[str, Any]) -> str | None:
    """What disturbed a block, or None.

    Others disturb it if they used its CPUs and its threads had to wait: its own threads that share a CPU wait as well,
    and the system's counters are accurate to one tick only.
    """
    tick = TICK / found["wall_s"]
    if found["steal"] is not None and found["steal"] > max(STEAL, 1.5 * tick):
        return f"the hypervisor took {found['steal']:.0%} of its CPUs"
    taken = [found[name] for name in ("others", "waited") if found[name] is not None]
    if len(taken) == 2 and min(taken) > OTHERS and found["others"] > OTHERS + tick:
        return f"other processes used {found['others']:.0%} of its CPUs"
    if found["throttled"]:
        return "its CPUs were throttled"
    return gpu.disturbance(found.get("gpu"))


def _clock(cpus: Collection[int], root: Path) -> float | None:
    """The mean frequency of these CPUs in Hz; None if the system does not report it."""
    folder = root / "sys/devices/system/cpu"
    rates = [_read(folder / f"cpu{cpu}/cpufreq/scaling_cur_freq").strip() for cpu in cpus]
    return sum(map(int, rates)) * 1e3 / len(rates) if rates and all(word.isdigit() for word in rates) else None


def _celsius(root: Path) -> float | None:
    """The hottest of the machine's zones, in degrees Celsius; None if the system reports none."""
    readings = [_read(path).strip() for path in (root / "sys/class/thermal").glob("thermal_zone*/temp")]
    return max((int(word) / 1e3 for word in readings if word.lstrip("-").isdigit()), default=None)


def _waited(root: Path) -> float | None:
    """Seconds that the threads of this process and its descendants have waited for a CPU."""
    seconds = []
    for thread in (thread for each in _processes(root) for thread in process_tree.entries(each, "task", root)):
        with contextlib.suppress(ValueError, IndexError):
            seconds.append(int(_read(thread / "schedstat").split()[1]) / 1e9)
    return sum(seconds) if seconds else None


def _processes(root: Path) -> list[str]:
    return ["self", *(str(process) for process in process_tree.members()[1:])] if root == ROOT else ["self"]


def _throttled(cpus: Collection[int], root: Path) -> int | None:
    folder = root / "sys/devices/system/cpu"
    counts = [_read(folder / f"cpu{cpu}/thermal_throttle/core_throttle_count").strip() for cpu in cpus]
    return sum(map(int, counts)) if counts and all(word.isdigit() for word in counts) else None


def _less(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else max(after - before, 0.0)


def _share(part: float | None, total: float) -> float | None:
    return None if part is None else round(part / total, 4)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
