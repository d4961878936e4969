"""Audit of how a cell works while it is timed: whether `wait` waits, whether answers are cached,
which CPUs and devices are used. Measured here; `contracts.py` judges it."""

import contextlib
import itertools
import math
import os
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.host import process_tree
from xbench.host.clock import now
from xbench.host.stopwatch import Stopwatch
from xbench.parity import calls, candidate, verdict
from xbench.runtimes import Options, load
from xbench.workers import timing
from xbench.workers.cell import CELL, Cell, fetched_of, proving, step_of

TIMES = ("put_s", "repeated_s", "fresh_s", "copied_s", "fetch_s", "refetch_s")
SEEDS = itertools.count(1000)  # of unseen inputs
BEGUN = 15.0  # seconds that work started by the first call may last: torch.compile's pool imports PyTorch
SETTLE, WINDOW = 0.5, 0.02  # seconds: until thread pools sleep, and of one measurement
TRANSFERS, SMALL = 11, 256  # arrays that are transferred back, and their length
QUIET = 3  # measurements in a row: in a single one a spinning thread may have waited for a CPU in use by others
LOOK = 0.1  # least seconds to measure CPUs: the system counts a thread's waiting when it ends


def audit(rounds: int, patience: float, seconds: float, cpus: list[int]) -> dict[str, Any]:
    """Times steps on seen and unseen inputs, in `rounds` rounds or as many as begin within `patience` seconds, and
    fetching their results; then measures, for `seconds`, the CPUs it uses if it may use all of `cpus`,
    and when it is idle."""
    (cell,), seconds, patience = CELL, max(seconds, LOOK), max(patience, LOOK)
    if not cell.idled:
        _idle(seconds=BEGUN)
        cell.idled = True
    facts = _answers(cell, rounds, patience)
    cell.proof += sum(sum(facts[name]) for name in TIMES)
    total = min(facts["repeated_s"]) + min(facts["fetch_s"])  # of a step, even if it returns before it is done
    short = total < patience  # more steps of a long one would cost more than its timing
    facts |= {"same": _repeats(cell) if short else None, "stale": _is_stale(cell) if short else None}
    facts |= {"varies": _varies(cell), "transfer_s": _transfers(cell, facts["fetched_arrays"])}
    _idle(looks=1)  # our own sums use threads, too
    limit = 1 + int(4 * seconds / total)  # of steps that it may begin in that time
    facts |= _cpu_use(cell, seconds, limit, cpus) | {"idle_cpus": _idle()}
    facts |= {"placed": calls.placed(cell.runtime), "gpu_open": _gpu_is_open()}
    return facts | {"proof_s": cell.proof}


def _answers(cell: Cell, rounds: int, patience: float) -> dict[str, Any]:
    """Seconds of a step on seen inputs (`repeated_s`), on new ones (`fresh_s`), on the first ones in new arrays
    (`copied_s`); of putting inputs on the device, of fetching the results of a step, and of fetching them again."""
    times: dict[str, list[float]] = {name: [] for name in TIMES}
    first, fetched, shuffle = cell.references[0], list[np.ndarray](), random.Random(0).shuffle
    end, new = now() + patience, True
    for _ in range(rounds):
        if times["put_s"] and now() > end:
            break
        copied = step_of(cell, {name: array.copy() for name, array in first.items()})
        drawn = _drawn(cell)
        new = new and any(not np.array_equal(drawn[name], first[name]) for name in drawn)
        watch = Stopwatch()
        fresh = step_of(cell, drawn)
        times["put_s"].append(watch.worked())
        steps = [("repeated_s", cell.steps[0]), ("copied_s", copied), ("fresh_s", fresh)]
        shuffle(steps)  # else the scheduler's time slices may hit the same one every time
        for name, step in steps:
            times[name] += timing.sample([step], 0, 1)
        for name in ("fetch_s", "refetch_s"):
            watch = Stopwatch()
            fetched = fetched_of(cell)
            times[name].append(watch.worked())
    times |= {} if new else {"fresh_s": []}
    given = [*candidate.inputs_of(first), first["labels"]]
    sizes = {"put": given, "fetched": fetched}
    facts = {f"{name}_bytes": sum(np.asarray(a).nbytes for a in arrays) for name, arrays in sizes.items()}
    return {**times, **facts, **{f"{name}_arrays": len(arrays) for name, arrays in sizes.items()}}


def _transfers(cell: Cell, count: int) -> dict[str, list[float]]:
    """Seconds to transfer arrays back from a device that need no computation: as many small arrays as a step returns,
    which were put there before (`all`), and `one`. Empty on a CPU, or if the runtime cannot get such arrays."""
    times: dict[str, list[float]] = {}
    if cell.device == "cpu" or cell.remote:
        return times
    for name, arrays in (("all", count), ("one", 1)):
        for _ in range(TRANSFERS):
            given = cell.runtime.put([np.full(SMALL, next(SEEDS), np.float32) for _ in range(arrays)])
            try:
                watch = Stopwatch()
                calls.outputs(cell.runtime, given)
                times.setdefault(name, []).append(watch.worked())
            except Exception:  # an adapter may only know its own results
                return {}
    return times


def _drawn(cell: Cell) -> dict[str, np.ndarray]:
    """New inputs of the timed shapes, with the old labels."""
    arrays, labels = candidate.inputs_of(cell.references[0]), cell.references[0]["labels"]
    inputs = candidate.redrawn(cell.artifact, arrays, labels, next(SEEDS))
    named = {f"input/{index}": array for index, array in enumerate(inputs)}
    return {**named, "labels": labels.copy()}


def _repeats(cell: Cell) -> float | None:
    """The distance of two runs on one input, over the size of the result; 0.0 if they are equal bit by bit, None if
    they need not be, as dropout is on, or if only the weights would show it."""
    if cell.mode == "step" or (cell.mode != "forward" and cell.artifact.has_dropout):
        return None
    runs = _two_runs(cell)
    pairs = [(a, b) for a, b in zip(*runs, strict=True) if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f")]
    far = [verdict.distance(a, b)[0] / (verdict.size_of(b)[0] or 1.0) for a, b in pairs]
    return max(far, default=0.0)


def _two_runs(cell: Cell) -> list[list[np.ndarray]]:
    """Results of two runs of one input."""
    runs = []
    for _ in range(2):
        with proving(cell):
            cell.steps[0]()
        runs.append([np.array(value) for value in fetched_of(cell)])
    return runs


def _varies(cell: Cell) -> bool | None:
    """Whether two gradients of one input differ if dropout is on; None for other cells, and for steps, which change
    the weights."""
    if cell.mode != "gradient" or not cell.artifact.has_dropout:
        return None
    runs = _two_runs(cell)
    return not all(map(np.array_equal, *runs))


def _is_stale(cell: Cell) -> bool | None:
    """Whether reused arrays with new values still give the old answer; for forward, with two references."""
    first, second = (candidate.inputs_of(reference) for reference in cell.references[:2])
    if cell.mode != "forward" or any(a.shape != b.shape for a, b in zip(first, second, strict=True)):
        return None
    reused = [array.copy() for array in first]
    old = _outputs(cell, reused)
    for array, values in zip(reused, second, strict=True):
        array[...] = values
    answer, new = _outputs(cell, reused), _outputs(cell, [array.copy() for array in second])
    return _apart(answer, old) < _apart(answer, new) / 2


def _outputs(cell: Cell, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    with proving(cell):
        result = cell.runtime.forward(*cell.runtime.put(arrays))
        cell.runtime.wait(result)
        return [np.array(value) for value in calls.outputs(cell.runtime, result)]


def _apart(some: Iterable[np.ndarray], others: Iterable[np.ndarray]) -> float:
    """The distance of two answers; non-finite elements are skipped, another shape is infinite."""
    total = 0.0
    for a, b in zip(some, others, strict=True):
        if a.shape != b.shape:
            return math.inf
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
        total += float(difference[np.isfinite(difference)].sum())
    return total


def _cpu_use(cell: Cell, seconds: float, limit: int, cpus: list[int]) -> dict[str, Any]:
    """CPUs used by the worker and its children, in total and (`most_cpus`) while others leave them free
    for a while; its threads that are busy for a tenth of the time or more, and how many are busy at once:
    running, or waiting for a CPU in use by others."""
    with _opened(cpus):
        threads, readings, left = process_tree.scheduled(), [(process_tree.cpu_seconds(), now())], limit
        with proving(cell):
            while left > 0 and readings[-1][1] < readings[0][1] + seconds:
                left -= len(timing.sample(cell.steps, WINDOW, left))
                readings.append((process_tree.cpu_seconds(), now()))
        after = process_tree.scheduled()
    used, wall = (b - a for a, b in zip(readings[0], readings[-1], strict=True))
    shares = sorted((cpu - before) / (end - start) for (before, start), (cpu, end) in itertools.pairwise(readings))
    spent = [[b - a for a, b in zip(threads.get(n, (0, 0)), late, strict=True)] for n, late in after.items()]
    at_once = (sum(map(sum, spent)) if spent else used) / wall if wall > LOOK / 2 else None
    busy = sum(run > wall / 10 for run, _ in spent) if spent else None
    most = shares[int(0.9 * (len(shares) - 1))]
    use = {"cpus": used / wall, "most_cpus": most, "open_cpus": len(cpus)}
    return use | {"busy_threads": busy, "threads_at_once": at_once}


@contextlib.contextmanager
def _opened(cpus: list[int]) -> Iterator[None]:
    """While it is open, all threads of the worker's processes may use all of these CPUs."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    own, before = os.sched_getaffinity(0), {}
    for thread in process_tree.threads():
        with contextlib.suppress(OSError):  # it has ended
            before[thread] = os.sched_getaffinity(thread)
            os.sched_setaffinity(thread, cpus)
    try:
        yield
    finally:
        for thread in process_tree.threads():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, before.get(thread, own))


def _idle(looks: int = QUIET, seconds: float = SETTLE) -> float:
    """CPUs in use while the runtime has no work, after its threads have had `seconds` to go to sleep: the mean of
    `looks` measurements in a row."""
    end, used = now() + seconds, [1.0] * looks
    while max(used[-looks:]) > 0.1 and now() < end:
        cpu, start = process_tree.cpu_seconds(), now()
        time.sleep(WINDOW)
        used.append((process_tree.cpu_seconds() - cpu) / (now() - start))
    return sum(used[-looks:]) / looks


def _gpu_is_open() -> bool:
    """Whether the worker, or a process that it started, has a GPU driver open."""
    for link in (link for process in process_tree.members() for link in process_tree.entries(process, "fd")):
        with contextlib.suppress(OSError):
            if os.readlink(link).startswith(("/dev/nvidia", "/dev/dri", "/dev/kfd")):
                return True
    return False


def respond(artifact: str, runtime: str, device: str, threads: int, inputs: str, path: str) -> dict[str, float]:
    """Writes a runtime's results on the arrays of a file; returns the seconds of the fastest of a few steps."""
    model = Artifact.read(artifact)
    with np.load(inputs, allow_pickle=False) as file:
        arrays = [file[name] for name in file.files]
    ready = load(runtime, model, Options("forward", device, threads))
    ready.prepare(arrays, np.zeros(len(arrays[0]), np.int64), dropout=False)
    given = ready.put(arrays)
    made: list[Any] = []

    def step() -> None:
        made[:] = [ready.forward(*given)]
        ready.wait(made[0])

    step()  # some compile now
    times = timing.sample([step], 1.0, 10)
    verdict.join(
        Path(path), {str(index): np.asarray(value) for index, value in enumerate(calls.outputs(ready, made[0]))}
    )
    return {"forward_s": min(times)}


JOBS = (audit, respond)
