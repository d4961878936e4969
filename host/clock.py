"""The clock of a process. It is taken here once, before any adapter is loaded: one that puts another into the module
`time` changes nothing of ours. What a worker tells by it is set against its parent's (`marks.py`)."""

import itertools
import time

now = time.perf_counter
used = time.process_time
used_by = time.clock_gettime  # of another process, on Linux


def resolution(readings: int = 1000) -> float:
    """The shortest time that it can tell from none, in seconds: the smallest difference of readings in a row."""
    times = [now() for _ in range(readings)]
    told = time.get_clock_info("perf_counter").resolution
    return max(told, min((b - a for a, b in itertools.pairwise(times) if b > a), default=told))
