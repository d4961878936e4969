"""The cell of a worker, and its steps: what is timed, in every mode and on every plane."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.host.clock import now
from xbench.parity import calls, candidate
from xbench.runtimes import Runtime, Trainer


@dataclass
class Training:
    """The segment of a block with the last training step (`batches.py`): the losses of its steps."""

    seed: int
    segment: int
    losses: list[float] = field(default_factory=list)


@dataclass
class Cell:
    """The runtime that a worker has prepared. `references` are the inputs of its steps, and the expected results of
    forward; `paths` are the complete files, `prepared` the shapes of the inputs that the runtime was last prepared for.
    `idled` says that the work started by the first call has had time to end. `given` are the inputs of `references` on
    the device, if they stay there; `last` is the result of the last step, and `index` its reference, None if it has
    none. `known` are digests of correct results; `stepped` and `looked` are the seconds of timed steps and of checks of
    gradients. `proof` are the seconds spent on proof and audit; `way` those of a step that a clock other than the
    worker's need not see."""

    artifact: Artifact
    runtime: Runtime
    mode: str
    references: list[dict[str, np.ndarray]]
    precision: str = "fp32"
    device: str = "cpu"
    remote: bool = False  # whether the clock of another process counts
    paths: list[str] = field(default_factory=list)
    prepared: list[tuple[int, ...]] = field(default_factory=list)
    plane: str = "resident"
    idled: bool = False
    given: list[Any] = field(default_factory=list)
    steps: list[Callable[[], object]] = field(default_factory=list)
    last: Any = None
    index: int | None = 0
    training: Training | None = None
    known: dict[int, str] = field(default_factory=dict)
    stepped: float = 0.0
    looked: float = 0.0
    proof: float = 0.0
    way: float = 0.0
    usage: list[dict[str, Any]] = field(default_factory=list)


CELL: list[Cell] = []  # at most one in a worker


@contextlib.contextmanager
def proving(cell: Cell) -> Iterator[None]:
    """While it is open, time counts as proof or audit."""
    start = now()
    yield
    cell.proof += now() - start


def steps_of(cell: Cell, plane: str) -> list[Callable[[], object]]:
    """One step per reference: inputs rotate, so that a runtime that caches its last answer is caught. From now on the
    cell is timed on this plane."""
    cell.plane = plane
    cell.given = [None if plane == "host" else cell.runtime.put(candidate.inputs_of(r)) for r in cell.references]
    return [step_of(cell, reference, given) for reference, given in zip(cell.references, cell.given, strict=True)]


def step_of(cell: Cell, reference: Mapping[str, np.ndarray], given: Any = None) -> Callable[[], object]:
    """What is timed: one step on the inputs and labels of a reference; `given` are these inputs if they are on the
    device. It first releases the previous result: two at once would cost page faults, in some processes and not in
    others."""
    arrays = candidate.inputs_of(reference)
    if cell.plane == "host":
        step = _forward_of_host(cell, arrays) if cell.mode == "forward" else _trained_of_host(cell, reference)
    else:
        given = cell.runtime.put(arrays) if given is None else given
        step = _forward(cell, given) if cell.mode == "forward" else _trained(cell, given, reference["labels"])

    def alone() -> None:
        cell.last = None
        step()

    if cell.remote:
        return lambda: _remote_seconds(cell.runtime, alone)
    return (lambda: calls.by_events(cell.runtime, alone)) if cell.plane == "device" else alone


def _remote_seconds(runtime: Runtime, step: Callable[[], object]) -> float:
    """The seconds of a step by the clock of the process that computes it: without the round trip."""
    before = calls.clock(runtime)
    step()
    return calls.clock(runtime) - before


def _forward_of_host(cell: Cell, arrays: list[np.ndarray]) -> Callable[[], object]:
    runtime = cell.runtime

    def host() -> None:
        cell.last = result = runtime.forward(*runtime.put(arrays))
        runtime.get(result)

    return host


def _forward(cell: Cell, inputs: Any) -> Callable[[], object]:
    forward, wait = cell.runtime.forward, cell.runtime.wait

    def resident() -> None:
        cell.last = result = forward(*inputs)
        wait(result)

    return resident


def _call(cell: Cell) -> Callable[..., Any]:
    assert isinstance(cell.runtime, Trainer)
    return cell.runtime.gradients if cell.mode == "gradient" else cell.runtime.step


def _trained_of_host(cell: Cell, reference: Mapping[str, np.ndarray]) -> Callable[[], object]:
    runtime, arrays, labels, call = cell.runtime, candidate.inputs_of(reference), reference["labels"], _call(cell)
    assert isinstance(runtime, Trainer)

    def host() -> None:
        cell.last = result = call(runtime.put(arrays), runtime.put([labels])[0])
        if cell.mode == "gradient":
            runtime.fetch(result)
        else:
            runtime.get(result[:1])

    return host


def _trained(cell: Cell, inputs: Any, labels: np.ndarray) -> Callable[[], object]:
    (target,), call, wait = cell.runtime.put([labels]), _call(cell), cell.runtime.wait

    def resident() -> None:
        cell.last = result = call(inputs, target)
        wait(result)

    return resident


def fetched_of(cell: Cell) -> list[np.ndarray]:
    """All results of the last step, on the host."""
    if cell.mode == "forward":
        return calls.outputs(cell.runtime, cell.last)
    assert isinstance(cell.runtime, Trainer)
    trained = cell.mode == "step"
    arrays = calls.weights(cell.runtime) if trained else calls.fetched(cell.runtime, cell.last)[1]
    return [*arrays.values()]
