"""Who is to blame: what each source of error does to the outputs alone, and how much a better choice would avoid.

An excess is how many times a source's effect is that of a choice that is not called wrong: a range between two thirds
and three times the values', the weights rounded again, the same range without the few channels that are far larger than
all others. `LIMITS` are between what right files have and what planted faults have (tools/quality/like_margins.txt).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from xbench.parity.like.cures import Cures, Errors
from xbench.parity.like.effects import Effects
from xbench.parity.like.local import Local, Source

TRIED = 8  # sources whose cures are computed, those with the largest effects
TIGHT, WIDE = 1.5, 3.0  # how much narrower, or wider, than the values a range may be that is not called wrong
LIMITS = {"range": 1.1, "large": 2.2, "weights": 5.0, "outlier": 8.0, "half": 4.0, "node": 1.0}
LEAST = 0.05  # share of the loss of a source that is named
SHARE = 0.2  # of all of those together


@dataclass(frozen=True)
class Finding:
    """`effect`: how far the outputs are off if a source alone errs; `share` of the squares of all of them. `excess` by
    the name of a fault."""

    source: Source
    effect: float
    share: float
    excess: dict[str, float] = field(default_factory=dict)

    @property
    def fault(self) -> str | None:
        """What is wrong with it, if something is."""
        found = {name: value / LIMITS[name] for name, value in self.excess.items() if name in LIMITS}
        worst = max(found, key=found.__getitem__, default=None)
        return worst if worst is not None and found[worst] >= 1 and self.share >= LEAST else None


def findings(local: Local, cures: Cures, effects: Effects) -> list[Finding]:
    """Of all sources, the largest effect first."""
    alone = {source: effects.of(cures.actual(source)) for source in local.every()}
    total = sum(effect**2 for effect in alone.values()) or 1.0
    order = sorted(alone, key=lambda source: -alone[source])
    tried = {source: _tried(source, alone[source], cures, effects) for source in order[:TRIED] if alone[source]}
    return [Finding(source, alone[source], alone[source] ** 2 / total, tried.get(source, {})) for source in order]


def blamed(found: Iterable[Finding]) -> list[Finding]:
    """Those that are to blame, the largest effect first: with something wrong, if together they make much of the loss.
    A channel that is far larger than the others spoils several tensors, and the weights that make it."""
    wrong = [each for each in found if each.fault]
    return wrong if sum(each.share for each in wrong) >= SHARE else []


def _tried(source: Source, effect: float, cures: Cures, effects: Effects) -> dict[str, float]:
    """The excess of each fault that a source may have."""

    def of(errors: Iterable[Errors | None]) -> float:
        """The least effect of some choices; not a number if there is none."""
        return min((effects.of(each) for each in errors if each is not None), default=math.nan)

    excess = dict[str, float]()
    if source.kind == "activation":
        fitted = of([cures.range_fitted(source)])
        excess["outlier"] = _times(fitted, of(cures.range_without(source, axis) for axis in (1, -1)))
        if source.node.op_type != "DynamicQuantizeLinear":
            tight, wide = (of([cures.range_fitted(source, times)]) for times in (1 / TIGHT, WIDE))
            excess["range"] = _times(effect, max(fitted, tight, wide))
            excess["large"] = _times(of([cures.range_stepped(source)]), max(fitted, wide))
    elif source.kind == "weights":
        fitted = of([cures.weights_fitted(source)])
        excess["weights"] = _times(effect, fitted)
        excess["outlier"] = _times(fitted, of(cures.weights_without(source, axis) for axis in (0, -1)))
    elif source.kind == "half":
        excess["half"] = _times(effect, of([cures.half_unbounded(source)]))
    else:
        excess["node"] = math.inf
    return {name: value for name, value in excess.items() if not math.isnan(value)}


def _times(one: float, other: float) -> float:
    if math.isnan(one) or math.isnan(other):
        return math.nan
    return one / other if other else (math.inf if one else 1.0)
