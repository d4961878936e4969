"""The job that times the phases of an iteration: complete iterations, on samples in files, with the cell's own step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xbench.data import DataSet
from xbench.host.clock import now
from xbench.parity import calls
from xbench.runtimes import Trainer
from xbench.workers.cell import CELL, Cell


def iterate(folder: str, batch: int, seconds: float, limit: int) -> dict[str, list[float]]:
    """Iterations until the seconds are over: a batch is read (`io`), put on the device (`h2d`), and used for a step
    (`compute`), each complete before the next one begins; `whole` is the time from one iteration's end to the next
    one's. The first does not count: its caches are cold."""
    (cell,), data = CELL, read(Path(folder))
    runtime = cell.runtime
    assert isinstance(runtime, Trainer)
    runtime.reset()
    times: dict[str, list[float]] = {name: [] for name in ("io", "h2d", "compute", "whole")}
    cell.last, begun = None, now()
    before = begun
    for step in range(limit + 1):
        inputs, labels = data.training_batch(batch, 0, step)
        read_s = now() - before
        (given, target), put_s, put_wall = _timed(cell, lambda: _put(runtime, inputs, labels))  # noqa: B023
        result, step_s, step_wall = _timed(cell, lambda: _step(runtime, given, target))  # noqa: B023
        after = now()
        way = put_wall - put_s + step_wall - step_s  # round trip of a runtime in another process
        for name, value in zip(times, (read_s, put_s, step_s, after - before - way), strict=True):
            times[name].append(value)
        before = after
        if after - begun > seconds and step:
            break
    loss = calls.loss(runtime, result)
    if not np.isfinite(loss):
        raise ValueError(f"the loss became {loss} behind {step + 1} iterations")
    return {name: values[1:] for name, values in times.items()}


def _put(runtime: Trainer, inputs: list[np.ndarray], labels: np.ndarray) -> tuple[Any, Any]:
    given, target = runtime.put(inputs), runtime.put([labels])
    runtime.wait((*given, *target))
    return given, target[0]


def _step(runtime: Trainer, given: Any, target: Any) -> Any:
    result = runtime.step(given, target)
    runtime.wait(result)
    return result


def _timed(cell: Cell, call: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result of a call, its seconds by the clock of the computing process, and those that passed here."""
    clock, start = calls.clock(cell.runtime) if cell.remote else 0.0, now()
    result = call()
    wall = now() - start
    return result, calls.clock(cell.runtime) - clock if cell.remote else wall, wall


def read(folder: Path) -> DataSet:
    """The samples of a folder (`phases.store`), mapped: a batch is read when it is needed."""
    return DataSet(**{path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))})


JOBS = (iterate,)
