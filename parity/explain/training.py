"""Mistakes of a training step: whole steps are computed under each."""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from xbench.converters.artifact import Artifact
from xbench.converters.torch import TABLE
from xbench.converters.torch_dropout import dropping
from xbench.parity import network
from xbench.parity.candidate import inputs_of
from xbench.parity.explain import CLEAR, Finding, Tensors, errors
from xbench.parity.mistakes import Change, Mistake, Operator, attribute, both
from xbench.parity.mistakes.layers import frozen
from xbench.parity.mistakes.training import losses, norms, statistics, updates
from xbench.parity.verdict import LIMITS, LOSS, compared, distance, steps_of
from xbench.runtimes.torch import ProgramModule, named_tensors, update

MASKS = 16  # draws of dropout that a result is compared with
SPREAD = 3.0  # by how much it may be outside of what they gave
FITS = 6  # steps towards a number that is not known
NEAR = 64 * LIMITS["fp32"]  # floors off from which on a mistake's own rounding cannot be what is left
NORM = "BatchNormalization"
PAIRED = 2  # mistakes that are tried together with every other


def trained(artifact: Artifact, mode: str, reference: Tensors, candidate: Tensors) -> list[Finding]:
    """Mistakes of a training step that explain its loss, gradients, weights, statistics and the optimizer's arrays."""
    step = Step(artifact, mode, reference, candidate)
    with network.default_type(torch.float64):
        tried: list[tuple[Mistake, dict[str, float]]] = []
        found: list[tuple[Mistake, float]] = []
        for group in _groups(step):
            new = [(m, step.off(m)) for m in group]
            tried += new
            found = [(m, max(off.values())) for m, off in new if max(off.values()) <= LIMITS["fp32"]]
            if found:
                break
        found = found or list(_fits(step)) or list(_dropped(step)) or list(_pairs(step, tried))
    ranked = sorted(found, key=lambda each: max(each[1], CLEAR))
    return [Finding(m.name, m.says, float(ratio)) for m, ratio in ranked]


def _groups(step: "Step") -> list[list[Mistake]]:
    """All mistakes, those first that go with what is wrong: a step of a large network takes seconds."""
    info, mode = step.artifact.info, step.mode
    first = [*losses(info), *norms(info["program_operators"])]
    if mode == "gradient":
        return [[*first, *_frozen(step)], list(_some(step))]
    kept = [*statistics(info["program_operators"]), *_some(step)]
    moved = [*updates(info["optimizer"]), *_frozen(step)]
    off = errors(step.given, step.reference, step.reference)
    wrong = {name for name, floors in off.items() if floors > LIMITS["fp32"]}
    if f"{LOSS}1" in wrong:  # before anything was updated
        return [first, kept, moved]
    if wrong <= {f"weight/{name}" for name in info["statistics"]}:
        return [kept, moved, first]
    return [moved + kept, first]


@dataclass
class Step:
    """A training step that went wrong, and the oracle of it under any mistake."""

    artifact: Artifact
    mode: str
    reference: Tensors
    candidate: Tensors

    def compute(
        self, mistake: Mistake, seed: int | None = None, dtype: torch.dtype = torch.float64, moved: int | None = None
    ) -> Tensors:
        """Every tensor to compare; `seed` is that of dropout, where it is on, `moved` that of a change of all
        weights."""
        module = ProgramModule(self.artifact.program(), mistake.table(TABLE)).to(dtype).train()
        if moved is not None:
            network.move(module, moved)
        module.dropout = seed is not None
        if seed is not None:
            torch.manual_seed(seed)
        info = {**self.artifact.info, "optimizer": {**self.artifact.info["optimizer"], **mistake.rule}}
        named = named_tensors(module)
        for name in mistake.zeroed:
            named[name].register_hook(torch.zeros_like)

        def updated(*given: Any) -> None:
            for name in mistake.skipped:
                named[name].grad = None
            (mistake.update or update)(*given)

        *inputs, labels = network.arrays([*inputs_of(self.reference), self.reference["labels"]], dtype)
        with dropping(seed is not None), network.default_type(dtype):
            batches = [(inputs, labels)] * max(1, steps_of(self.reference))
            return network.trained(info, module, batches, self.mode, mistake.loss, updated)

    def off(self, mistake: Mistake) -> dict[str, float]:
        """The error of every tensor under a mistake, in noise floors; infinite where it cannot be computed."""
        try:
            expected = self.compute(mistake)
            found = errors(self.given, expected, self.reference)
            if LIMITS["fp32"] < max(found.values()) < NEAR:
                found = errors(self.given, expected, self._floors(mistake, expected))
        except Exception:  # a mistake that does not go with this network
            return {"": math.inf}
        return found

    def _floors(self, mistake: Mistake, expected: Tensors) -> Tensors:
        """The reference with the noise of the mistake, measured as the oracle's is, where it is more: Adam with coupled
        decay divides by numbers that rounding makes, and other weights meet other kinks in the second step."""
        floors = {name: self.reference[f"floor/{name}"] for name in expected if f"floor/{name}" in self.reference}
        for moved in (None, 0, 1):
            made = self.compute(mistake, dtype=torch.float32, moved=moved)
            share = 1.0 if moved is None else network.MOVED_SHARE
            for name, floor in floors.items():
                floors[name] = np.maximum(floor, np.array(distance(made[name], expected[name])) / share)
        return {**self.reference, **{f"floor/{name}": floor for name, floor in floors.items()}}

    @property
    def given(self) -> Tensors:
        """What the runtime gave; a gradient it did not give is zero."""
        missing = {n: np.zeros_like(a) for n, a in self.reference.items() if n.startswith("gradient/")}
        return {**missing, **self.candidate}


def _frozen(step: Step) -> Iterable[Mistake]:
    """Parameters that no gradient reaches: those that were given none, or did not move."""
    if step.mode == "gradient":
        still = [n for n in _named(step.reference, "gradient") if not step.given[f"gradient/{n}"].any()]
        still = [n for n in still if step.reference[f"gradient/{n}"].any()]
    elif step.mode == "step":
        expected = step.compute(Mistake("", "", zeroed=tuple(step.artifact.parameters)))
        like = errors(step.given, expected, step.reference)
        still = [
            n for n in _named(like, "weight") if like[f"weight/{n}"] <= LIMITS["fp32"] and n in step.artifact.parameters
        ]
        now = errors(step.given, step.reference, step.reference)
        still = [n for n in still if now[f"weight/{n}"] > LIMITS["fp32"]]
    if not still:
        return
    names = ", ".join(still[:3]) + (f" and {len(still) - 3} more" if len(still) > 3 else "")
    yield Mistake("no_gradient", f"no gradient reaches {names}", zeroed=tuple(still))
    if step.mode == "step":
        yield Mistake("no_update", f"the update leaves out {names}", skipped=tuple(still))


def _some(step: Step) -> Iterator[Mistake]:
    """BatchNormalizations in evaluation among others that train: those whose statistics stay, or where none are
    compared, each alone."""
    calls = _normed(step)
    if step.mode == "gradient":
        sets = [[number] for number in range(len(calls))]
    else:
        held = step.artifact.program().state
        still = {n for n, a in held.items() if np.array_equal(step.given.get(f"weight/{n}", ()), a)}
        sets = [[number for number, name in enumerate(calls) if name in still]]
    kinds = (
        ("norm_mode", "uses the running statistics, not those of the batch", frozen),
        ("bn_not_updated", "does not update its running statistics", attribute("momentum", 1.0)),
    )
    for among in sets if len(calls) > 1 else []:
        names = ", ".join(calls[number] for number in among)
        for name, says, change in kinds if 0 < len(among) < len(calls) else ():
            only = functools.partial(_only, frozenset(among), len(calls), change)
            yield Mistake(name, f"{NORM} of {names} alone {says}", {NORM: only})


def _normed(step: Step) -> list[str]:
    """The mean that each call of BatchNormalization is given, in order."""
    program, calls = step.artifact.program(), list[str]()
    params, state = ({n: torch.from_numpy(a) for n, a in held.items()} for held in (program.params, program.state))

    def watched(x: Any, scale: Any, bias: Any, mean: Any, var: Any, **named: Any) -> Any:
        calls.append(next((name for name, array in state.items() if array is mean), NORM))
        return TABLE[NORM](x, scale, bias, mean, var, **named)

    if NORM in step.artifact.info["program_operators"]:
        with torch.no_grad(), network.default_type(torch.float32):
            program.bind({**TABLE, NORM: watched})(
                params, state, *network.arrays(inputs_of(step.reference), torch.float32)
            )
    return calls


def _only(among: frozenset[int], count: int, change: Change, operator: Operator) -> Operator:
    """An operator that is changed in some of the `count` calls that a network has of it."""
    numbers, other = itertools.count(), change(operator)
    return lambda *given, **named: (other if next(numbers) % count in among else operator)(*given, **named)


def _named(tensors: Iterable[str], kind: str) -> list[str]:
    return [name.removeprefix(f"{kind}/") for name in tensors if name.startswith(f"{kind}/")]


# ***** mistakes that the result itself gives a number to *****


def _fits(step: Step) -> Iterator[tuple[Mistake, float]]:
    """A factor of the loss, of the learning rate, or a limit of clipping that nobody would guess."""
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
        if (found := _fitted(step, make)) is not None:
            yield found


def _unseen(k: float) -> Callable[[network.Loss], network.Loss]:
    """Makes a loss whose gradient is k times its own."""

    def changed(loss: network.Loss) -> network.Loss:
        def value(outputs: Any, labels: Any) -> Any:
            found = loss(outputs, labels)
            return k * found + (1 - k) * found.detach()

        return value

    return changed


def _first_norm(step: Step) -> float:
    """The global norm of the oracle's gradient."""
    whole = Step(step.artifact, "gradient", step.reference, {}).compute(Mistake("", ""))
    return math.sqrt(sum(float((a**2).sum()) for n, a in whole.items() if n.startswith("gradient/")))


def _fitted(step: Step, make: Callable[[float], Mistake]) -> tuple[Mistake, float] | None:
    """The mistake with the number that moves the weights as far as they moved."""
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


# ***** two mistakes, and random ones *****


def _pairs(step: Step, tried: Sequence[tuple[Mistake, dict[str, float]]]) -> Iterator[tuple[Mistake, float]]:
    """Two mistakes together: the one that puts most tensors right, and any other."""

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
    """Dropout that is on: which elements it drops nobody knows, but how far off they make every tensor is known."""
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
