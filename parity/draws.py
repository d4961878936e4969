"""Judges training with dropout, whose draws differ between runtimes: compares a state with several draws by PyTorch.

It compares how far a state has moved along their mean, its distance from the mean, and from a training without dropout.
A few draws estimate the usual range only roughly, so what looks wrong is compared with more, made one at a time.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from xbench.converters.artifact import Artifact
from xbench.parity.trajectory import BLIND, Arrays, Batch, Outcome, Training, rounding_otherwise, steps_in_words

DRAWS, MORE = 6, 24  # trainings with dropout to compare with, and further ones for what looks wrong
WIDE, ROOM = 5.0, 0.15  # how much another draw may differ: in standard deviations, and as a share of a number
NOISE, HALF = 0.3, 0.5  # draws that differ by more make a tensor useless; a tensor off by more is wrong
FAINT = 1e-3  # of its change: variation by dropout below this may be rounding
LEAST = 0.7  # of the usual distance of a draw from others, and from a training without dropout

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Made:
    """The result of steps, a `step` or a `gradient` of each batch: the changes of two trainings without dropout, which
    differ in rounding, the changes of the draws, and the losses of the draws."""

    artifact: Artifact
    mode: str
    batches: Sequence[Batch]
    start: Tensors
    plain: Tensors
    rounded: Tensors
    draws: Sequence[Tensors]
    losses: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Usual:
    """Positions of draws among others by kind of tensor (draws, 3, tensors), see `_placed`; losses (draws, steps)."""

    placed: Mapping[str, np.ndarray]
    losses: np.ndarray


def judged(artifact: Artifact, batches: Sequence[Batch], states: Sequence[tuple[int, Arrays]]) -> list[Outcome]:
    """Like `trajectory.judged`, for a network with dropout."""
    runs = _trainings(artifact, batches[0])
    start = {name: value.clone() for name, value in runs[0].state("step").items()}
    outcomes: dict[int, Outcome] = {}
    losses: list[list[float]] = [[] for _ in runs]
    marks = {steps for steps, _ in states}
    for count, batch in enumerate(batches[: max(marks)], 1):
        for each, kept in zip(runs, losses, strict=True):
            kept.append(each.step(batch))
        if count in marks:
            plain, rounded, *draws = (_changes(each.state("step"), start) for each in runs)
            made = Made(artifact, "step", batches[:count], start, plain, rounded, draws, losses[2:])
        for index, (steps, state) in enumerate(states):
            if steps == count:
                outcomes[index] = _outcome(made, state)
    return [Outcome(outcomes[i].passed, outcomes[i].says, max(marks)) for i in range(len(states))]


def gradients(artifact: Artifact, batch: Batch) -> Made:
    """The gradients of one batch."""
    runs = _trainings(artifact, batch)
    losses = [[each.gradient(batch)] for each in runs]
    plain, rounded, *draws = (_changes(each.state("gradient"), {}) for each in runs)
    return Made(artifact, "gradient", [batch], {}, plain, rounded, draws, losses[2:])


def judged_gradient(made: Made, state: Arrays) -> Outcome:
    """Whether dropout may produce this gradient."""
    return _outcome(made, state)


def _trainings(artifact: Artifact, batch: Batch) -> list[Training]:
    """Two trainings without dropout, which differ in rounding, then the draws."""
    plain = [Training(artifact, torch.float32), rounding_otherwise(artifact, batch)]
    return plain + [Training(artifact, torch.float32, dropout=seed) for seed in range(1, DRAWS + 1)]


def _outcome(made: Made, state: Arrays) -> Outcome:
    known = {name: np.asarray(state[name], np.float32) for name in made.plain if name in state}
    if missing := [name for name in made.plain if name not in known and not name.startswith("optimizer/")]:
        return Outcome(False, f"{missing[0]} is missing", 0)
    if other := [name for name, value in known.items() if value.shape != made.plain[name].shape]:
        return Outcome(False, f"{other[0]} has another shape", 0)
    given = _changes({n: torch.from_numpy(v) for n, v in known.items()}, made.start)
    seen = [name for name in given if _is_seen(made.plain[name], made.rounded[name])]
    if not seen:
        return Outcome(None, "float32 tells nothing of what dropout changes here", 0)
    kinds: dict[str, list[str]] = {}
    for name in seen:
        kinds.setdefault(kind_of(name, made.artifact.info["statistics"]), []).append(name)
    losses = np.array([state[f"loss/{step}"].item() for step in range(1, len(made.batches) + 1)])
    placed = {kind: _placed(names, given, made.draws, made.plain) for kind, names in kinds.items()}
    says = _differs(kinds, placed, losses, _few(made, kinds))
    says = says and _differs(kinds, placed, losses, _many(made, kinds))
    return Outcome(not says, says, 0)


def _few(made: Made, kinds: Mapping[str, Sequence[str]]) -> Usual:
    """The position of each draw among the others."""
    draws = made.draws
    placed = {
        kind: np.array([_placed(names, each, [o for o in draws if o is not each], made.plain) for each in draws])
        for kind, names in kinds.items()
    }
    return Usual(placed, np.array([loss[: len(made.batches)] for loss in made.losses]))


def _many(made: Made, kinds: Mapping[str, Sequence[str]]) -> Usual:
    """The positions of further draws among these, computed as for a runtime."""
    placed: dict[str, list[np.ndarray]] = {kind: [] for kind in kinds}
    losses = []
    for changes, loss in _drawn(made):
        losses.append(loss)
        for kind, names in kinds.items():
            placed[kind].append(_placed(names, changes, made.draws, made.plain))
    return Usual({kind: np.array(each) for kind, each in placed.items()}, np.array(losses))


def _drawn(made: Made) -> Iterator[tuple[Tensors, list[float]]]:
    """Further draws, one at a time: together they would not fit into memory."""
    for seed in range(DRAWS + 1, DRAWS + MORE + 1):
        own = Training(made.artifact, torch.float32, dropout=seed)
        losses = [own.step(batch) if made.mode == "step" else own.gradient(batch) for batch in made.batches]
        yield _changes(own.state(made.mode), made.start), losses


def _changes(tensors: Mapping[str, torch.Tensor], start: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {n: value - start[n] if n in start else value.clone() for n, value in tensors.items()}


def _is_seen(plain: torch.Tensor, rounded: torch.Tensor) -> bool:
    """Whether float32 resolves the change of a tensor: that of a bias before BatchNorm is rounding alone."""
    lost, change = (float(torch.linalg.vector_norm(each)) for each in (plain - rounded, plain))
    return lost <= BLIND * change


def kind_of(name: str, statistics: Container[str]) -> str:
    """The kind of a tensor of a state, in words."""
    kind, _, rest = name.partition("/")
    if kind == "weight":
        return "running statistics" if rest in statistics else "weights"
    return f"optimizer's {rest.partition('.')[0]}" if kind == "optimizer" else f"{kind}s"


def _differs(
    kinds: Mapping[str, Sequence[str]], placed: Mapping[str, np.ndarray], losses: np.ndarray, usual: Usual
) -> str | None:
    """What differs from the usual draws, in words; None if nothing does."""
    count = len(losses)
    for kind, names in kinds.items():
        if says := _kind_differs(names, placed[kind], usual.placed[kind]):
            return f"the {kind} after {steps_in_words(count)} {says}"
    for step, (number, others) in enumerate(zip(losses, usual.losses.T, strict=True), 1):
        room = 2 * WIDE * max(float(others.std(ddof=1)), ROOM / 3 * abs(float(others.mean())))
        if not abs(number - others.mean()) <= room:
            return f"the loss of step {step} is {number:.6g}, not {others.mean():.6g}"
    return None


def _kind_differs(names: Sequence[str], placed: np.ndarray, own: np.ndarray) -> str | None:
    if not np.isfinite(placed[:, own[0, 0] != 0]).all():
        return "are not finite"
    spread = own[:, 0].std(axis=0, ddof=1)
    clear = (own[:, 0] != 0).all(axis=0) & (spread < NOISE)  # tensors of which one draw shows how far they have moved
    if not clear.any():
        return None
    along, away, apart = (own[:, i, clear] for i in range(3))
    if (share := _low(apart, placed[2, clear])) is not None:
        return f"differ from training without dropout by {share:.0%} of what is usual"
    mean, gone = along.mean(axis=1), placed[0, clear].mean()
    if abs(gone - mean.mean()) > max(WIDE * mean.std(ddof=1), ROOM):
        return f"have changed by {gone:.0%} of what training with dropout changes"
    late = np.abs(placed[0] - own[:, 0].mean(axis=0)) > HALF
    if (late & (spread < HALF / 10) & clear).any():
        return f"have not changed as training with dropout does: {names[int(np.argmax(late & (spread < HALF / 10)))]}"
    if (share := _low(away, placed[1, clear])) is not None or _is_high(away, placed[1, clear]):
        share = float(np.median(placed[1, clear]) / np.median(away)) if share is None else share
        return f"vary {share:.2g} times as much as dropout makes them vary"
    return None


def _low(own: np.ndarray, measured: np.ndarray) -> float | None:
    """The value as a share of the draws', if below that of any draw; else None. Tensors that dropout hardly reaches
    are left out: they differ by rounding alone."""
    clear = own.mean(axis=0) > FAINT
    if not clear.any():
        return None
    usual = own[:, clear].mean(axis=0)
    middle, share = np.median(own[:, clear] / usual, axis=1), float(np.median(measured[clear] / usual))
    return share if share < min(LEAST, middle.mean() - WIDE * middle.std(ddof=1)) else None


def _is_high(own: np.ndarray, measured: np.ndarray) -> bool:
    middle = np.median(own, axis=1)
    return bool(np.median(measured) > 2 * (middle.mean() + WIDE * middle.std(ddof=1)) + ROOM)


def _placed(
    names: Sequence[str],
    one: Mapping[str, torch.Tensor],
    others: Sequence[Mapping[str, torch.Tensor]],
    without: Mapping[str, torch.Tensor],
) -> np.ndarray:
    """For every tensor: how far it has moved along the mean of others, its distance from their mean, and from the
    training without dropout, in units of that mean; zeros if the mean is zero."""
    places = np.zeros((3, len(names)))
    for index, name in enumerate(names):
        mean = sum(other[name] for other in others) / len(others)
        size = float(torch.linalg.vector_norm(mean))
        if size:
            distances = [float(torch.linalg.vector_norm(one[name] - other)) / size for other in (mean, without[name])]
            places[:, index] = [float((one[name] * mean).sum()) / size**2, *distances]
    return places
