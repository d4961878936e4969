"""The clock of a process. It is bound here once, before any adapter is loaded, so an adapter that patches the module
`time` does not change xbench's clock. A worker's times are checked against its parent's clock (`marks.py`)."""

import itertools
import time

now = time.perf_counter
used = time.process_time
used_by = time.clock_gettime  # of another process, on Linux


def resolution(readings: int = 1000) -> float:
    """The clock's resolution in seconds: the smallest difference between consecutive readings."""
    times = [now() for _ in range(readings)]
    reported = time.get_clock_info("perf_counter").resolution
    return max(reported, min((b - a for a, b in itertools.pairwise(times) if b > a), default=reported))
