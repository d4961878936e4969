"""The cell that a worker holds, and its steps: what is timed, in every mode and on every plane."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.parity import candidate
from xbench.runtimes import Runtime, Trainer, _checked


@dataclass
class Cell:
    """The runtime a worker has made ready. `references` are what its steps read, and what those of forward are compared
    with; `paths` where they lie whole. `proof` are the seconds that it has worked to be proved and audited."""

    artifact: Artifact
    runtime: Runtime
    mode: str
    references: list[dict[str, np.ndarray]]
    precision: str = "fp32"
    device: str = "cpu"
    remote: bool = False  # whether the clock of another process counts
    paths: list[str] = field(default_factory=list)
    steps: list[Callable[[], object]] = field(default_factory=list)
    last: Any = None
    turn: int = 0
    proof: float = 0.0
    usage: list[dict[str, Any]] = field(default_factory=list)


CELL: list[Cell] = []  # of a worker there is one at most


@contextlib.contextmanager
def proving(cell: Cell) -> Iterator[None]:
    """While it is open, the runtime works for a proof or an audit."""
    start = time.perf_counter()
    yield
    cell.proof += time.perf_counter() - start


def steps_of(cell: Cell, plane: str) -> list[Callable[[], object]]:
    """One step a reference: inputs rotate, so that a runtime that remembers its last answer is caught."""
    return [step_of(cell, reference, plane) for reference in cell.references]


def step_of(cell: Cell, reference: Mapping[str, np.ndarray], plane: str) -> Callable[[], object]:
    """What is timed: one step on the inputs and labels of a reference. It begins by letting go of the last one's
    result: two at once would cost page faults, in some processes and not in others."""
    make = _forward_step if cell.mode == "forward" else _trainer_step
    step = make(cell, reference, plane)

    def alone() -> None:
        cell.last = None
        step()

    if cell.remote:
        return lambda: _told(cell.runtime, alone)
    return (lambda: _checked.by_events(cell.runtime, alone)) if plane == "device" else alone


def _told(runtime: Runtime, step: Callable[[], object]) -> float:
    """The seconds of a step by the clock of the process that computes it: without the way there and back."""
    before = _checked.clock(runtime)
    step()
    return _checked.clock(runtime) - before


def _forward_step(cell: Cell, reference: Mapping[str, np.ndarray], plane: str) -> Callable[[], object]:
    runtime, arrays = cell.runtime, candidate.inputs_of(reference)
    if plane == "host":

        def host() -> None:
            cell.last = result = runtime.forward(*runtime.put(arrays))
            runtime.get(result)

        return host
    inputs, forward, wait = runtime.put(arrays), runtime.forward, runtime.wait

    def resident() -> None:
        cell.last = result = forward(*inputs)
        wait(result)

    return resident


def _trainer_step(cell: Cell, reference: Mapping[str, np.ndarray], plane: str) -> Callable[[], object]:
    runtime, arrays, labels = cell.runtime, candidate.inputs_of(reference), reference["labels"]
    assert isinstance(runtime, Trainer)
    call = runtime.gradients if cell.mode == "gradient" else runtime.step
    if plane == "host":

        def host() -> None:
            cell.last = result = call(runtime.put(arrays), runtime.put([labels])[0])
            if cell.mode == "gradient":
                runtime.fetch(result)
            else:
                runtime.get(result[:1])

        return host
    inputs, (target,) = runtime.put(arrays), runtime.put([labels])

    def resident() -> None:
        cell.last = result = call(inputs, target)
        runtime.wait(result)

    return resident
