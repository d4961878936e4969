"""The peak rates of this machine: float32 FLOP/s and bytes/s, probed once in a worker with a cell's limits.

Kept in the cache (`peaks/`), by processor, CPUs, threads, device and library versions. A probe is a lower
bound: another program may have slowed it down, and a better kernel may be faster. To probe again, delete the file.
"""

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xbench.case import digest
from xbench.converters import cache, seals
from xbench.host import machine
from xbench.workers.worker import Worker, WorkerFailure

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
LEAST, MOST = 64 << 20, 256 << 20  # bytes of an array that is copied
TIMEOUT = 60.0


def measured(device: str, threads: int, logs: Path, say: Callable[[str], None]) -> dict[str, Any] | None:
    """`flops` and `bandwidth` of this machine, from the cache or probed now, which takes seconds; None if the probe
    failed. Nothing else should run meanwhile."""
    name = digest(_facts(device, threads))
    place = cache.root() / "peaks" / f"{name}.json"
    known: dict[str, Any] | None = seals.kept(place, name)
    if _is_complete(known):
        return known
    say("probe this machine's peaks")
    worker = Worker(logs / "peaks.log", device, threads)
    try:
        peaks: dict[str, Any] = worker.call(
            "peaks", TIMEOUT, device=device, threads=threads, copied=_copied(machine.available_memory())
        )
    except WorkerFailure:
        return None
    finally:
        worker.stop()
    if not _is_complete(peaks):
        return None
    with contextlib.suppress(OSError):  # then it is probed again
        place.parent.mkdir(parents=True, exist_ok=True)
        seals.keep(place, name, {"of": _facts(device, threads)} | peaks)
    return peaks


def _facts(device: str, threads: int) -> dict[str, Any]:
    """What a probe depends on."""
    about = machine.facts(device)
    where = {name: about.get(name) for name in ("cpu", "cpus", "gpu")} | {"threads": threads, "device": device}
    return where | {"versions": machine.versions(("numpy", "torch"))}


def _copied(available: int, caches: Path = CACHES) -> int:
    """Bytes of the array to copy: four times the last-level cache, as McCalpin's STREAM asks, within limits of
    time and available memory. A virtual machine sees the cache of the entire processor."""
    last = 0
    for path in caches.glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            last = max(last, int(path.read_text().strip().removesuffix("K")) << 10)
    return max(1 << 20, min(max(4 * last, LEAST), MOST, available // 8)) // 4 * 4


def _is_complete(peaks: Any) -> bool:
    values = [peaks.get(name) for name in ("flops", "bandwidth")] if isinstance(peaks, dict) else [None]
    return all(isinstance(value, float) and math.isfinite(value) and value > 0 for value in values)
