"""Times single steps inside a worker. Everything that is timed goes through `sample`."""

import gc
from collections.abc import Callable, Sequence

from xbench.host.clock import now
from xbench.stats.series import steady_from

Step = Callable[[], object]  # a float it returns is its seconds by the device's own clock
Clock = Callable[[], float]


def sample(
    steps: Sequence[Step],
    seconds: float,
    limit: int,
    first: int = 0,
    clock: Clock = now,
    after: Callable[[int], object] | None = None,
) -> list[float]:
    """Times single steps, taken in turn from `steps`, until `seconds` have passed or `limit` are done; at least one.
    `after` is called with the number of a step when its clock has stopped.

    The garbage collector is off meanwhile, as in `timeit`.
    """
    samples: list[float] = []
    append, count, enabled = samples.append, len(steps), gc.isenabled()
    gc.disable()
    try:
        end = clock() + seconds
        for index in range(first, first + limit):
            step = steps[index % count]
            start = clock()
            reported = step()
            stop = clock()
            append(reported if type(reported) is float else stop - start)
            if after:
                after(index)
            if stop >= end:
                break
    finally:
        if enabled:
            gc.enable()
    return samples


def warm(steps: Sequence[Step], seconds: float, limit: int = 5000, clock: Clock = now) -> list[float]:
    """Steps until the series of times is steady, or until `seconds` have passed; returns all of them.

    Steadiness is tested whenever the series has grown by half, so that testing costs less than stepping.
    """
    samples: list[float] = []
    start = clock()
    while (left := seconds - (clock() - start)) > 0 and len(samples) < limit:
        samples += sample(steps, left, max(10, len(samples) // 2), len(samples), clock)
        if steady_from(samples) is not None:
            break
    return samples
