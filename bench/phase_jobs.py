"""What a worker can be asked to do when the phases of an iteration are timed: whole iterations, on samples that lie in
files, with the cell's own step."""

import time
from pathlib import Path

import numpy as np

from xbench.bench.cell import CELL
from xbench.data import DataSet
from xbench.runtimes import Trainer


def iterate(folder: str, batch: int, seconds: float, limit: int) -> dict[str, list[float]]:
    """Iterations until the seconds are over: a batch is read (`io`), put on the device (`h2d`), and a step made of it
    (`compute`), each complete before the next one begins; `whole` is the time from one iteration's end to the next
    one's. The first does not count: its caches are cold."""
    (cell,), data = CELL, read(Path(folder))
    runtime = cell.runtime
    assert isinstance(runtime, Trainer)
    runtime.reset()
    found: dict[str, list[float]] = {name: [] for name in ("io", "h2d", "compute", "whole")}
    cell.last, begun = None, time.perf_counter()
    before = begun
    for step in range(limit + 1):
        inputs, labels = data.training_batch(batch, 0, step)
        read_at = time.perf_counter()
        given, target = runtime.put(inputs), runtime.put([labels])
        runtime.wait((*given, *target))
        put_at = time.perf_counter()
        result = runtime.step(given, target[0])
        runtime.wait(result)
        after = time.perf_counter()
        parts = (read_at - before, put_at - read_at, after - put_at, after - before)
        for name, value in zip(found, parts, strict=True):
            found[name].append(value)
        before = after
        if after - begun > seconds and step:
            break
    loss = float(np.asarray(runtime.get(result[:1])[0]))
    if not np.isfinite(loss):
        raise ValueError(f"the loss became {loss} behind {step + 1} iterations")
    return {name: values[1:] for name, values in found.items()}


def read(folder: Path) -> DataSet:
    """The samples of a folder (`phases.store`), mapped: what a batch needs is read when it is asked for."""
    return DataSet(**{path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))})


JOBS = (iterate,)
