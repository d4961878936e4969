"""Job of PyTorch's worker on timed training blocks: whether the final state of a runtime is the result of its
steps (`parity/trajectory.py`)."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.converters.autodiff.optimizer import slots
from xbench.host import machine
from xbench.parity import candidate, verdict
from xbench.workers import batches

_MADE: dict[str, Any] = {}  # gradients with dropout, by model and reference
LARGE = 2**23  # parameters above which two sets of gradients are not kept
SPARE = 2**30  # bytes that other processes may need meanwhile


def trajectory(
    artifact: str,
    mode: str,
    references: Sequence[str],
    seed: int,
    segment: int,
    states: Sequence[dict[str, Any]],
    exact: bool,
    precision: str,
) -> list[dict[str, Any]]:
    """The outcome of each state: `path` is the file of a runtime's state, `steps` the number of steps of the segment
    (in mode gradient `steps` is None and `index` is that of the last reference)."""
    model = Artifact.read(artifact)
    arrays = [verdict.read(Path(each["path"])) for each in states]
    if mode == "gradient":
        return [asdict(_gradient(model, references[each["index"]], a)) for each, a in zip(states, arrays, strict=True)]
    given = [verdict.read(Path(path), ("input/", "labels")) for path in references]
    inputs = [candidate.inputs_of(each) for each in given]
    made = batches.training(model.info, [each["labels"] for each in given], seed)
    taken = [(int(each["steps"]), state) for each, state in zip(states, arrays, strict=True)]
    order = batches.order(seed, segment, max(steps for steps, _ in taken))
    steps = [(inputs[made[place][0]], made[place][1]) for place in order]
    return [asdict(each) for each in _judged(model, steps, taken, exact, precision)]


def _gradient(model: Artifact, reference: str, state: dict[str, np.ndarray]) -> Any:
    """The outcome of one gradient. The expected ones are kept: all cells of a comparison need them."""
    from xbench.parity import draws

    key = f"{model.digest} {reference}"
    if key not in _MADE:
        if len(_MADE) > 1 or model.info["parameter_count"] > LARGE:
            _MADE.clear()
        given = verdict.read(Path(reference), ("input/", "labels"))
        _MADE[key] = draws.gradients(model, (candidate.inputs_of(given), given["labels"]))
    return draws.judged_gradient(_MADE[key], state)


def _judged(model: Artifact, steps: Any, states: Any, exact: bool, precision: str) -> list[Any]:
    from xbench.parity import draws, trajectory

    copies = 3 + len(slots(model.info["optimizer"]))  # parameters, gradients, initial parameters
    one = 4 * copies * model.info["parameter_count"]
    several = model.has_dropout and precision == "fp32"
    need = SPARE + one * (4 + 2 * draws.DRAWS if several else 4 if exact else 3)
    if need > machine.available_memory():
        words = f"needs {need / 2**30:.1f} GiB of memory beside the runtimes"
        return [trajectory.Outcome(None, words, batches.SEGMENT) for _ in states]
    if model.has_dropout:
        return draws.judged(model, steps, states)
    return trajectory.judged(model, steps, states, exact, narrow=precision != "fp32")


JOBS = (trajectory,)
