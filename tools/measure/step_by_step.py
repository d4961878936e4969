"""The cost of a judge in a separate process: every step requested by the parent, and timed by it.

    python tools/measure/step_by_step.py

Whoever owns the process with the clock controls the times. So the only way not to trust a worker's times at all is that
its parent requests every step itself. This measures the added time per step, on a child that only answers, in two ways:
asleep until the answer comes (a pipe, as for workers), and spinning on shared memory, which keeps a CPU busy.
"""

import os
import statistics
import time
from multiprocessing import shared_memory

COUNT, ROUNDS = 400, 15


def piped() -> list[float]:
    """Seconds from a question to its answer through two pipes."""
    questions, asking = os.pipe()
    answers, answering = os.pipe()
    if not os.fork():
        while os.read(questions, 1) == b"?":
            os.write(answering, b"!")
        os._exit(0)
    times = []
    for _ in range(COUNT):
        start = time.perf_counter()
        os.write(asking, b"?")
        os.read(answers, 1)
        times.append(time.perf_counter() - start)
    os.write(asking, b".")
    os.wait()
    for end in (questions, asking, answers, answering):
        os.close(end)
    return times


def spun() -> list[float]:
    """The same through a byte in shared memory that both poll."""
    memory = shared_memory.SharedMemory(create=True, size=1)
    place, times = memory.buf, []
    assert place is not None
    place[0] = 0
    if not os.fork():
        while place[0] != 2:
            if place[0] == 1:
                place[0] = 0
        os._exit(0)
    for _ in range(COUNT):
        start = time.perf_counter()
        place[0] = 1
        while place[0]:
            pass
        times.append(time.perf_counter() - start)
    place[0] = 2
    os.wait()
    memory.unlink()
    return times


def main() -> None:
    ways = {"a pipe, asleep": piped, "shared memory, spinning": spun}
    medians: dict[str, list[float]] = {name: [] for name in ways}
    spreads: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            times = sorted(way())
            medians[name].append(statistics.median(times))
            spreads[name].append(times[int(0.9 * len(times))] - times[int(0.1 * len(times))])
    print(f"{COUNT} steps, {ROUNDS} rounds in turns, {os.cpu_count()} CPUs; microseconds that a step takes more")
    print(f"  {'way':26} {'median':>8} {'10 to 90 %':>11}")
    for name in ways:
        print(
            f"  {name:26} {statistics.median(medians[name]) * 1e6:8.1f} {statistics.median(spreads[name]) * 1e6:11.1f}"
        )


if __name__ == "__main__":
    main()
