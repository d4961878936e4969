"""Explains a wrong training step: computes whole steps under each mistake."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from xbench.converters.artifact import Artifact
from xbench.parity import network
from xbench.parity.explain import CLEAR, Finding, Tensors, errors
from xbench.parity.explain.norms import some
from xbench.parity.explain.step import Step
from xbench.parity.mistakes import Mistake, both
from xbench.parity.mistakes.training import losses, norms, statistics, updates
from xbench.parity.verdict import LIMITS, LOSS, compared, distance

MASKS = 16  # draws of dropout to compare a result with
SPREAD = 3.0  # factor by which it may be outside of their range
FITS = 6  # iterations to fit an unknown number
PAIRED = 2  # mistakes that are combined with every other


def trained(artifact: Artifact, mode: str, reference: Tensors, candidate: Tensors) -> list[Finding]:
    """Mistakes of a training step that explain its loss, gradients, weights, statistics and the optimizer's arrays."""
    step = Step(artifact, mode, reference, candidate)
    with network.default_type(torch.float64):
        tried: list[tuple[Mistake, dict[str, float]]] = []
        matches: list[tuple[Mistake, float]] = []
        for group in _groups(step):
            new = [(m, step.off(m)) for m in group]
            tried += new
            matches = [(m, max(off.values())) for m, off in new if max(off.values()) <= LIMITS["fp32"]]
            if matches:
                break
        matches = matches or list(_fits(step)) or list(_dropped(step)) or list(_pairs(step, tried))
    ranked = sorted(matches, key=lambda each: max(each[1], CLEAR))
    return [Finding(m.name, m.says, float(ratio)) for m, ratio in ranked]


def _groups(step: Step) -> list[list[Mistake]]:
    """All mistakes, the likely ones for the wrong tensors first: a step of a large network takes seconds."""
    info, mode = step.artifact.info, step.mode
    first = [*losses(info), *norms(info["program_operators"])]
    if mode == "gradient":
        return [[*first, *_frozen(step)], list(some(step))]
    kept = [*statistics(info["program_operators"]), *some(step)]
    moved = [*updates(info["optimizer"]), *_frozen(step)]
    off = errors(step.given, step.reference, step.reference)
    wrong = {name for name, floors in off.items() if floors > LIMITS["fp32"]}
    if f"{LOSS}1" in wrong:  # before anything was updated
        return [first, kept, moved]
    if wrong <= {f"weight/{name}" for name in info["statistics"]}:
        return [kept, moved, first]
    return [moved + kept, first]


def _frozen(step: Step) -> Iterator[Mistake]:
    """Parameters that no gradient reaches: those without a gradient, or moved by their decay alone; and those that did
    not move at all."""
    given, reference, initial = step.given, step.reference, step.artifact.program().params
    if step.mode == "gradient":
        names = _named(reference, "gradient")
        still = [n for n in names if not given[f"gradient/{n}"].any() and reference[f"gradient/{n}"].any()]
        unmoved = []
    else:
        now = errors(given, reference, reference)
        like = errors(given, step.compute(Mistake("", "", zeroed=tuple(step.artifact.parameters))), reference)
        wrong = [n for n in step.artifact.parameters if now[f"weight/{n}"] > LIMITS["fp32"]]
        still = [n for n in wrong if like[f"weight/{n}"] <= LIMITS["fp32"]]
        unmoved = [n for n in wrong if np.array_equal(given.get(f"weight/{n}", ()), initial[n])]
    if still:
        yield Mistake("no_gradient", f"no gradient reaches {_few(still)}", zeroed=tuple(still))
    if unmoved:
        yield Mistake("no_update", f"the update leaves out {_few(unmoved)}", skipped=tuple(unmoved))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _named(tensors: Iterable[str], kind: str) -> list[str]:
    return [name.removeprefix(f"{kind}/") for name in tensors if name.startswith(f"{kind}/")]


# ***** mistakes with a number that is fitted to the result *****


def _fits(step: Step) -> Iterator[tuple[Mistake, float]]:
    """An arbitrary factor of the loss or of the learning rate, or an arbitrary limit of clipping."""
    if step.mode == "gradient":
        names = [f"gradient/{name}" for name in _named(step.reference, "gradient")]
        square = sum(float((step.reference[n] ** 2).sum()) for n in names)
        factor = sum(float((step.reference[n] * step.given[n]).sum()) for n in names) / square if square else 0.0
        scaled = lambda k: lambda loss: lambda outputs, labels: k * loss(outputs, labels)  # noqa: E731
        kinds = [lambda k: Mistake("loss_scaled", f"the loss is multiplied by {k:.6g}", loss=scaled(k))]
        kinds += [lambda k: Mistake("gradient_scaled", f"every gradient is multiplied by {k:.6g}", loss=_unseen(k))]
        for make in kinds:
            mistake = make(factor)
            if factor and math.isfinite(factor) and (ratio := max(step.off(mistake).values())) <= LIMITS["fp32"]:
                yield mistake, ratio
        return
    rule, norm = step.artifact.info["optimizer"], _first_norm(step)

    def rated(k: float) -> Mistake:
        return Mistake("learning_rate", f"the learning rate is multiplied by {k:.6g}", rule={"lr": k * rule["lr"]})

    def clipped(k: float) -> Mistake:
        says = f"gradients are clipped to a global norm of {k * norm:.6g}"
        return Mistake("clipping", says, rule={"clip": k * norm})

    for make in (rated, clipped):
        if (fit := _fitted(step, make)) is not None:
            yield fit


def _unseen(k: float) -> Callable[[network.Loss], network.Loss]:
    """Changes a loss so that its gradient is multiplied by k and its value stays."""

    def changed(loss: network.Loss) -> network.Loss:
        def value(outputs: Any, labels: Any) -> Any:
            result = loss(outputs, labels)
            return k * result + (1 - k) * result.detach()

        return value

    return changed


def _first_norm(step: Step) -> float:
    """The global norm of the oracle's gradient."""
    gradients = Step(step.artifact, "gradient", step.reference, {}).compute(Mistake("", ""))
    return math.sqrt(sum(float((a**2).sum()) for n, a in gradients.items() if n.startswith("gradient/")))


def _fitted(step: Step, make: Callable[[float], Mistake]) -> tuple[Mistake, float] | None:
    """The mistake with the number that moves the weights as far as the runtime did."""
    initial = step.artifact.program().params

    def way(tensors: Tensors) -> float:
        return math.sqrt(sum(distance(tensors[f"weight/{n}"], a)[0] ** 2 for n, a in initial.items()))

    if any(f"weight/{n}" not in step.candidate for n in initial) or not math.isfinite(gone := way(step.candidate)):
        return None
    k = gone / way(step.reference)
    for _ in range(FITS):
        expected = step.compute(make(k))
        if not (math.isfinite(far := way(expected)) and far):
            return None
        k *= gone / far
    mistake = make(k)
    ratio = float(max(step.off(mistake).values()))
    return (mistake, ratio) if ratio <= LIMITS["fp32"] else None


# ***** pairs of mistakes, and dropout *****


def _pairs(step: Step, tried: Sequence[tuple[Mistake, dict[str, float]]]) -> Iterator[tuple[Mistake, float]]:
    """Two mistakes together: one of those that leave the fewest tensors wrong, and any other."""

    def wrong(ratios: Mapping[str, float]) -> int:
        return sum(ratio > LIMITS["fp32"] for ratio in ratios.values())

    now = wrong(errors(step.given, step.reference, step.reference))
    useful = [(m, ratios) for m, ratios in tried if "" not in ratios and wrong(ratios) < now]
    for first, _ in sorted(useful, key=lambda each: wrong(each[1]))[:PAIRED]:
        for second, _ in tried:
            pair = both(first, second)
            if pair is not None and (ratio := max(step.off(pair).values())) <= LIMITS["fp32"]:
                yield pair, ratio
                return


def _dropped(step: Step) -> Iterator[tuple[Mistake, float]]:
    """Dropout left on: which elements it drops is unknown, but not how far off it makes every tensor."""
    if not step.artifact.has_dropout:
        return
    names = compared(step.reference, step.candidate)  # the first is the loss
    off = {name: distance(step.given[name], step.reference[name])[0] for name in names if name in step.given}
    if len(off) < len(names) or not all(map(math.isfinite, off.values())):
        return
    mistake = Mistake("dropout_on", f"Dropout is left on: every tensor is as far off as over {MASKS} draws of it")
    draws = [step.compute(mistake, seed) for seed in range(MASKS)]
    like = []
    for name in names:
        known = [distance(draw[name], step.reference[name])[0] for draw in draws]
        like.append(min(known) / SPREAD <= off[name] <= max(known) * SPREAD)
    if np.mean(like) >= 0.95 and like[0]:
        yield mistake, 0.0
