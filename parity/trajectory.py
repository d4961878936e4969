"""Judges timed training steps: PyTorch repeats them on the batches of the runtime, and the states are compared.

Rounding grows from step to step, so a state is judged by its change since the first step: a tensor may be off by the
usual number of noise floors (`verdict`), but by at most a quarter of its change, or four floors if these are more. A
tensor of which float32 itself loses an eighth of the change is not judged. If that holds for most tensors there were
too many steps, and `reach` is the number that is not too many.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from xbench.converters.artifact import Artifact
from xbench.converters.autodiff.loss import loss_of
from xbench.converters.ops import torch as ops
from xbench.converters.ops.torch_dropout import dropping
from xbench.parity.network import (
    MOVED_SHARE,
    arrays,
    default_type,
    flipped,
    is_batched,
    move,
    moves,
    outputs_of,
)
from xbench.parity.verdict import HALF_ULP, LIMITS
from xbench.runtimes.torch import (
    module_of,
    named_tensors,
    optimizer_of,
    optimizer_state,
    set_dropout,
    trainable,
    update,
)

QUARTER, BLIND = 1 / 4, 1 / 8  # of a tensor's change: the error allowed, and float32's own if it is judged

ORDERED = 2.0**-20  # of the loss: where it differs by more if the samples are reversed, their order matters
KINKS = 8  # runs with moved weights, each of which meets half of the kinks that rounding may meet
Batch = tuple[Sequence[np.ndarray], np.ndarray]
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """`passed` is None if nothing could be judged; `reach` is the number of steps that float32 can be judged on."""

    passed: bool | None
    says: str | None
    reach: int


class Training:
    """A network in training in one floating type."""

    def __init__(
        self,
        artifact: Artifact,
        dtype: torch.dtype,
        *,
        flip: bool = False,
        onednn: bool = True,
        moved: int | None = None,
        dropout: int | None = None,
    ) -> None:
        self.dtype, self.flip, self.onednn, self.dropout = dtype, flip, onednn, dropout
        self.info, self.rule, self.count = artifact.info, dict(artifact.info["optimizer"]), 0
        self.generator = None if dropout is None else torch.Generator().manual_seed(dropout).get_state()
        with self._settings():
            self.module = module_of(artifact).to(dtype).train()
            if moved is not None:
                move(self.module, moved)
            self.loss_of = loss_of(ops, artifact.info["loss"])
            self.parameters = trainable(self.module)
            self.optimizer = optimizer_of(self.rule, list(self.parameters.values()))
        tensors = named_tensors(self.module)
        self.tensors = {name: tensors[name] for name in (*self.parameters, *artifact.info["statistics"])}

    @contextlib.contextmanager
    def _settings(self) -> Iterator[None]:
        onednn = torch.backends.mkldnn.flags(enabled=self.onednn)
        with default_type(self.dtype), dropping(self.dropout is not None), onednn:
            yield

    def gradient(self, batch: Batch) -> float:
        """The loss; the gradients are left in the parameters."""
        inputs, labels = flipped(batch) if self.flip else batch
        with self._settings(), self._random():
            set_dropout(self.module, active=self.dropout is not None)
            self.optimizer.zero_grad()
            loss = self.loss_of(outputs_of(self.module, arrays(inputs, self.dtype)), arrays([labels], self.dtype)[0])
            loss.backward()
            set_dropout(self.module, active=False)
        return float(loss.detach())

    @contextlib.contextmanager
    def _random(self) -> Iterator[None]:
        """Switches to its own random state: several trainings take turns."""
        if self.generator is None:
            yield
            return
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.generator)
            yield
            self.generator = torch.get_rng_state()

    def step(self, batch: Batch) -> float:
        loss = self.gradient(batch)
        self.count += 1
        update(self.optimizer, self.rule, self.count)
        return loss

    def state(self, mode: str) -> dict[str, torch.Tensor]:
        """Weights, statistics and the optimizer's arrays, or the gradients, by kind and name."""
        if mode == "gradient":
            grads = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in self.parameters.items()}
            return {f"gradient/{name}": value for name, value in grads.items()}
        kept = optimizer_state(self.optimizer, self.parameters)
        named = {f"weight/{name}": value.detach() for name, value in self.tensors.items()}
        return named | {f"optimizer/{name}": value for name, value in kept.items()}


def rounding_otherwise(artifact: Artifact, batch: Batch) -> Training:
    """A float32 training by other kernels, with the samples in another order unless the loss depends on that: only
    rounding differs."""
    flip = is_batched(artifact.info) and not _order_matters(artifact, batch)
    return Training(artifact, torch.float32, flip=flip, onednn=False)


def _order_matters(artifact: Artifact, batch: Batch) -> bool:
    try:
        loss, other = (Training(artifact, torch.float64).gradient(each) for each in (batch, flipped(batch)))
    except Exception:  # a module may refuse the reversed batch
        return True
    return not abs(other - loss) <= ORDERED * abs(loss)


def coupled(artifact: Artifact, batch: Batch) -> bool:
    """Whether the loss of a batch of an even size is not the mean of the losses of its halves."""
    inputs, labels = batch
    half = len(labels) // 2
    halves = [([a[part] for a in inputs], labels[part]) for part in (slice(half), slice(half, None))]
    loss, *parts = (Training(artifact, torch.float64).gradient(each) for each in (batch, *halves))
    return not abs(sum(parts) / 2 - loss) <= ORDERED * abs(loss)


def judged(
    artifact: Artifact, batches: Sequence[Batch], states: Sequence[tuple[int, Arrays]], exact: bool, narrow: bool
) -> list[Outcome]:
    """The outcome of each state: the number of steps it was taken after, and the runtime's arrays then with the loss of
    every step. `exact` compares with float64, else with float32 at a quarter of a change. `narrow` is for a runtime
    asked for less than float32: float32's floors do not apply, but half of a change does.

    Rounding may carry a number across a kink, such as the larger of two almost equal ones, in the runtime but not in
    the run with moved weights, which meets half of the kinks. What looks wrong is compared with more such runs.
    """
    outcomes = _judged(artifact, batches, states, exact, narrow, 1)
    if exact and any(each.passed is False for each in outcomes):
        outcomes = _judged(artifact, batches, states, exact, narrow, KINKS)
    return outcomes


def _judged(
    artifact: Artifact,
    batches: Sequence[Batch],
    states: Sequence[tuple[int, Arrays]],
    exact: bool,
    narrow: bool,
    moved: int,
) -> list[Outcome]:
    """The outcomes compared with `moved` runs with moved weights."""
    start = {name: value.double().clone() for name, value in Training(artifact, torch.float32).state("step").items()}
    best = Training(artifact, torch.float64 if exact else torch.float32)
    others = [(rounding_otherwise(artifact, batches[0]), 1.0)]
    seeds = moves(moved if exact else 0)
    others += [(Training(artifact, torch.float32, moved=seed), 1 / MOVED_SHARE) for seed in seeds]
    losses: list[tuple[float, float]] = []
    outcomes: dict[int, Outcome] = {}
    reach, marks = 0, {steps for steps, _ in states}
    for count, batch in enumerate(batches[: max(marks)], 1):
        loss, noise = best.step(batch), 0.0
        noise = max(abs(each.step(batch) - loss) * share for each, share in others)
        losses.append((loss, max(noise, losses[-1][1] if losses else 0.0)))
        if count not in marks and count & (count - 1):
            continue
        floors = _floors(best, others, start)
        seen = [name for name, (_, change, floor) in floors.items() if floor <= BLIND * change or not change]
        reach = count if 2 * len(seen) >= len(floors) else reach
        for index, (steps, state) in enumerate(states):
            if steps == count:
                outcomes[index] = _outcome(best, floors, seen, losses, state, exact, narrow, reach == count)
    return [Outcome(outcomes[i].passed, outcomes[i].says, reach) for i in range(len(states))]


Floors = dict[str, tuple[float, float, float]]  # tensor -> its size, its change, what float32 loses


def _floors(best: Training, others: Iterable[tuple[Training, float]], start: Mapping[str, torch.Tensor]) -> Floors:
    expected, runs = best.state("step"), [(each.state("step"), share) for each, share in others]
    floors = {}
    for name, value in expected.items():
        exact = value.double()
        change = exact - start[name] if name in start else exact
        lost = [float(torch.linalg.vector_norm(run[name].double() - exact)) * share for run, share in runs]
        floors[name] = float(torch.linalg.vector_norm(exact)), float(torch.linalg.vector_norm(change)), max(lost)
    return floors


def _outcome(
    best: Training,
    floors: Floors,
    seen: Sequence[str],
    losses: Sequence[tuple[float, float]],
    state: Arrays,
    exact: bool,
    narrow: bool,
    clear: bool,
) -> Outcome:
    expected, count = best.state("step"), len(losses)
    if not clear:
        return Outcome(None, f"float32 itself loses too much in {count} steps", 0)
    for step, (loss, floor) in enumerate(losses, 1):
        given = state[f"loss/{step}"].item()
        if not abs(given - loss) <= _allowed(abs(loss), abs(loss), floor, exact, narrow):
            return Outcome(False, f"the loss of step {step} is {given:.6g}, not {loss:.6g}", 0)
    for name in seen:
        if name not in state:
            if name.startswith("weight/"):
                return Outcome(False, f"{name} is missing", 0)
            continue
        value = torch.from_numpy(np.asarray(state[name], np.float64))
        size, change, floor = floors[name]
        if value.shape != expected[name].shape:
            return Outcome(False, f"{name} has another shape", 0)
        error = float(torch.linalg.vector_norm(value - expected[name].double()))
        if not error <= _allowed(size, change, floor, exact, narrow):
            share = f"{error / change:.0%} of its change" if change else "which should not have changed"
            return Outcome(False, f"{name} after {steps_in_words(count)} is off by {share}", 0)
    return Outcome(True, None, 0)


def _allowed(size: float, change: float, floor: float, exact: bool, narrow: bool) -> float:
    most = max((2 if narrow else 1) * QUARTER * change, 4 * floor)
    rounding = LIMITS["fp32"] * HALF_ULP * size
    return max(rounding, min(LIMITS["fp32"] * floor, most) if exact and not narrow else most)


def steps_in_words(count: int) -> str:
    return f"{count} step{'s' if count > 1 else ''}"
