"""Training with dropout, which draws other numbers in every runtime: a state is compared with several of PyTorch's own.

How far it has gone along their mean, how far it is from that mean, and how far from a training without dropout.
"""

from collections.abc import Container, Mapping, Sequence

import numpy as np
import torch

from xbench.converters.artifact import Artifact
from xbench.parity.trajectory import BLIND, Arrays, Batch, Outcome, Training, rounding_otherwise, steps_in_words

DRAWS = 6  # trainings with dropout that one is compared with
WIDE, ROOM = 5.0, 0.15  # standard deviations of these, and the share of a number, that another draw may differ by
NOISE, HALF = 0.3, 0.5  # a tensor whose draws differ by more tells nothing; one that is off by so much is wrong
FAINT = 1e-3  # of its change: what dropout makes a tensor vary is no more than rounding may
LEAST = 0.7  # of the usual distance of a draw from others, and from a training without dropout


def judged(artifact: Artifact, batches: Sequence[Batch], states: Sequence[tuple[int, Arrays]]) -> list[Outcome]:
    """As `trajectory.judged`, of a network with dropout."""
    runs = _trainings(artifact)
    start = {name: value.clone() for name, value in runs[0].state("step").items()}
    found: dict[int, Outcome] = {}
    losses: list[list[float]] = [[] for _ in runs]
    marks = {steps for steps, _ in states}
    for count, batch in enumerate(batches[: max(marks)], 1):
        for each, kept in zip(runs, losses, strict=True):
            kept.append(each.step(batch))
        if count in marks:
            made = [_changes(each.state("step"), start) for each in runs]
        for index, (steps, state) in enumerate(states):
            if steps == count:
                found[index] = _outcome(artifact, state, start, made, losses)
    return [Outcome(found[i].passed, found[i].says, max(marks)) for i in range(len(states))]


Made = tuple[list[dict[str, torch.Tensor]], list[list[float]]]


def gradients(artifact: Artifact, batch: Batch) -> Made:
    """The gradients of one batch and their losses, twice without dropout and then of every draw."""
    runs = _trainings(artifact)
    losses = [[each.gradient(batch)] for each in runs]
    return [_changes(each.state("gradient"), {}) for each in runs], losses


def judged_gradient(artifact: Artifact, made: Made, state: Arrays) -> Outcome:
    """Whether a gradient is one of those that dropout may draw."""
    return _outcome(artifact, state, {}, *made)


def _trainings(artifact: Artifact) -> list[Training]:
    """Two without dropout, which differ in their rounding, then the draws."""
    plain = [Training(artifact, torch.float32), rounding_otherwise(artifact)]
    return plain + [Training(artifact, torch.float32, dropout=seed) for seed in range(1, DRAWS + 1)]


def _outcome(
    artifact: Artifact,
    state: Arrays,
    start: Mapping[str, torch.Tensor],
    made: Sequence[Mapping[str, torch.Tensor]],
    losses: Sequence[Sequence[float]],
) -> Outcome:
    known = {name: np.asarray(state[name], np.float32) for name in made[0] if name in state}
    if missing := [name for name in made[0] if name not in known and not name.startswith("optimizer/")]:
        return Outcome(False, f"{missing[0]} is missing", 0)
    given = _changes({n: torch.from_numpy(v) for n, v in known.items()}, start)
    numbers = [state[f"loss/{step}"].item() for step in range(1, len(losses[0]) + 1)]
    return _among(given, made, numbers, losses, artifact.info["statistics"])


def _changes(tensors: Mapping[str, torch.Tensor], start: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {n: value - start[n] if n in start else value.clone() for n, value in tensors.items()}


def _among(
    given: Mapping[str, torch.Tensor],
    made: Sequence[Mapping[str, torch.Tensor]],
    numbers: Sequence[float],
    losses: Sequence[Sequence[float]],
    statistics: Container[str],
) -> Outcome:
    """`made` and `losses` are of the two trainings without dropout, then of the draws."""
    (plain, rounded, *draws), count = made, len(numbers)
    seen = [name for name in given if _is_seen(plain[name], rounded[name])]
    for kind in dict.fromkeys(kind_of(name, statistics) for name in seen):
        names = [name for name in seen if kind_of(name, statistics) == kind]
        if says := _differs(names, given, plain, draws):
            return Outcome(False, f"the {kind} after {steps_in_words(count)} {says}", 0)
    for step, number in enumerate(numbers):
        others = np.array([loss[step] for loss in losses[2:]])
        room = 2 * WIDE * max(float(others.std(ddof=1)), ROOM / 3 * abs(float(others.mean())))
        if not abs(number - others.mean()) <= room:
            return Outcome(False, f"the loss of step {step + 1} is {number:.6g}, not {others.mean():.6g}", 0)
    return Outcome(True, None, 0)


def _is_seen(plain: torch.Tensor, rounded: torch.Tensor) -> bool:
    """Whether float32 tells what a tensor has changed: of a bias before BatchNorm it has nothing but rounding."""
    lost, change = (float(torch.linalg.vector_norm(each)) for each in (plain - rounded, plain))
    return lost <= BLIND * change


def kind_of(name: str, statistics: Container[str]) -> str:
    """What a tensor of a state is, in words."""
    kind, _, rest = name.partition("/")
    if kind == "weight":
        return "running statistics" if rest in statistics else "weights"
    return f"optimizer's {rest.partition('.')[0]}" if kind == "optimizer" else f"{kind}s"


def _differs(
    names: Sequence[str],
    given: Mapping[str, torch.Tensor],
    without: Mapping[str, torch.Tensor],
    draws: Sequence[Mapping[str, torch.Tensor]],
) -> str | None:
    if any(given[name].shape != without[name].shape for name in names):
        return "have another shape"
    own = np.array([_placed(names, each, [other for other in draws if other is not each], without) for each in draws])
    found = _placed(names, given, draws, without)
    if not np.isfinite(found[:, own[0, 0] != 0]).all():
        return "are not finite"
    spread = own[:, 0].std(axis=0, ddof=1)
    clear = (own[:, 0] != 0).all(axis=0) & (spread < NOISE)  # of these a draw tells how far they have gone
    if not clear.any():
        return None
    along, away, apart = (own[:, i, clear] for i in range(3))
    if (share := _low(apart, found[2, clear])) is not None:
        return f"differ from training without dropout by {share:.0%} of what is usual"
    mean, gone = along.mean(axis=1), found[0, clear].mean()
    if abs(gone - mean.mean()) > max(WIDE * mean.std(ddof=1), ROOM):
        return f"have changed by {gone:.0%} of what training with dropout changes"
    late = np.abs(found[0] - own[:, 0].mean(axis=0)) > HALF
    if (late & (spread < HALF / 10) & clear).any():
        return f"have not changed as training with dropout does: {names[int(np.argmax(late & (spread < HALF / 10)))]}"
    if (share := _low(away, found[1, clear])) is not None or _is_high(away, found[1, clear]):
        share = float(np.median(found[1, clear]) / np.median(away)) if share is None else share
        return f"vary {share:.2g} times as much as dropout makes them vary"
    return None


def _low(own: np.ndarray, found: np.ndarray) -> float | None:
    """The share of what it is for the draws, where that is less than of any other draw. What dropout hardly reaches
    tells nothing: there rounding is all that differs."""
    clear = own.mean(axis=0) > FAINT
    if not clear.any():
        return None
    usual = own[:, clear].mean(axis=0)
    middle, share = np.median(own[:, clear] / usual, axis=1), float(np.median(found[clear] / usual))
    return share if share < min(LEAST, middle.mean() - WIDE * middle.std(ddof=1)) else None


def _is_high(own: np.ndarray, found: np.ndarray) -> bool:
    middle = np.median(own, axis=1)
    return bool(np.median(found) > 2 * (middle.mean() + WIDE * middle.std(ddof=1)) + ROOM)


def _placed(
    names: Sequence[str],
    one: Mapping[str, torch.Tensor],
    others: Sequence[Mapping[str, torch.Tensor]],
    without: Mapping[str, torch.Tensor],
) -> np.ndarray:
    """Of every tensor: how far it has gone along the mean of others, how far it is from their mean, and how far from
    the training without dropout, in units of that mean; zeros where the mean is none."""
    found = np.zeros((3, len(names)))
    for index, name in enumerate(names):
        mean = sum(other[name] for other in others) / len(others)
        size = float(torch.linalg.vector_norm(mean))
        if size:
            distances = [float(torch.linalg.vector_norm(one[name] - other)) / size for other in (mean, without[name])]
            found[:, index] = [float((one[name] * mean).sum()) / size**2, *distances]
    return found
