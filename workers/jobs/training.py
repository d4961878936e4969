"""Jobs of a worker that trains. It has one training (`_TRAINING`), and its jobs end with the step in
which their seconds are over, so that the caller can show the progress.

Accuracy is counted by the training runtime itself, on its own weights: `forward` evaluates with them.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.data import DataSet
from xbench.host import usage
from xbench.host.clock import now
from xbench.host.machine import versions
from xbench.parity import calls, candidate, verdict
from xbench.runtimes import Options, Trainer, load, row_of
from xbench.workers import samples


@dataclass
class Training:
    """A runtime prepared to train, and the loss of every step so far."""

    runtime: Trainer
    device: str
    data: DataSet
    batch: int
    seed: int
    losses: list[float] = field(default_factory=list)


_TRAINING: list[Training] = []


def open_training(
    artifact: str, runtime: str, device: str, threads: int, data: str, batch: int, seed: int
) -> dict[str, Any]:
    """Prepares a runtime, dropout off."""
    ready, given = load(runtime, Artifact.read(artifact), Options("step", device, threads)), samples.read(Path(data))
    assert isinstance(ready, Trainer)
    ready.prepare(*given.training_batch(batch, seed, 0), dropout=False)
    _TRAINING[:] = [Training(ready, device, given, batch, seed)]
    return {"versions": versions((*row_of(runtime).packages, "numpy"))}


def train(last: int, seconds: float) -> dict[str, Any]:
    """Trains until `last` steps are done, the seconds are over, or a loss is not finite; returns the new losses and
    their time."""
    (own,) = _TRAINING
    begun = usage.begin(own.device)
    runtime, first, start = own.runtime, len(own.losses), now()
    while len(own.losses) < last and (len(own.losses) == first or now() - start < seconds):
        inputs, labels = own.data.training_batch(own.batch, own.seed, len(own.losses))
        result = runtime.step(runtime.put(inputs), runtime.put([labels])[0])
        runtime.wait(result)
        own.losses.append(calls.loss(runtime, result))
        if not np.isfinite(own.losses[-1]):
            break
    seconds = now() - start
    used = usage.end(begun, len(own.losses) - first)
    return {"losses": own.losses[first:], "seconds": seconds, "usage": usage.piece(used, seconds)}


def judge_training(reference: str) -> dict[str, Any]:
    """The verdict on all losses so far, each separately, and on the current weights and optimizer's arrays."""
    (own,) = _TRAINING
    return candidate.judged(candidate.trained(own.runtime, own.losses), verdict.read(Path(reference))).as_dict()


def begin_again() -> None:
    """Restores the initial weights, and switches dropout on."""
    (own,) = _TRAINING
    own.runtime.prepare(*own.data.training_batch(own.batch, own.seed, 0), dropout=True)
    own.runtime.reset()
    own.losses.clear()


def count_right(part: str, first: int, seconds: float) -> dict[str, int]:
    """Goes through a part's samples from `first` until the seconds are over: how many labels it compared, how many
    of them the runtime predicts, and the sample to continue with, 0 after the last."""
    (own,) = _TRAINING
    runtime, chosen, right, seen = own.runtime, own.data.looked_at(part), 0, 0
    end = now() + seconds
    while first < len(chosen) and (not seen or now() < end):
        places = chosen[first : first + own.batch]
        inputs, labels = own.data.batch(part, np.resize(places, own.batch))  # an already compiled shape
        result = runtime.forward(*runtime.put(inputs))
        runtime.wait(result)
        hits = np.asarray(calls.outputs(runtime, result)[0]).argmax(-1) == labels
        right, seen = right + int(hits[: len(places)].sum()), seen + hits[: len(places)].size
        first += len(places)
    return {"right": right, "seen": seen, "next": first % len(chosen)}


JOBS = (open_training, train, judge_training, begin_again, count_right)
