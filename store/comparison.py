"""Two stores, cell by cell: what became slower, what no longer passes. Pure functions on records.

Two runs at different times differ by more than their rounds show, and by more than the processes of one of them do, so
a run is one observation; each run of the same command with `--rerun` adds one. Among many cells some look slower by
chance: the p-values are corrected so that on average at most one in twenty of the reported changes is false
(Benjamini and Hochberg, 1995, doi 10.1111/j.2517-6161.1995.tb02031.x).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from xbench.case import Case
from xbench.host.machine import label
from xbench.stats.ratio import SESSION, Estimate, Ratio, as_ratio, moderated, observation
from xbench.store.record import NOTHING, Record, known

Side = dict[tuple[str, Case], list[Record]]  # by machine and case
FALSE = 0.05  # the largest share of the reported changes that may be false
VERDICTS = ("lost", "slower", "faster", "same", "fixed", "failing", "other machine", "only old", "only new")


@dataclass(frozen=True)
class Change:
    """The change of a cell. `ratio` is new over old; `p` the probability of one as far from 1 by chance, corrected for
    the number of cells; both None unless there is a time on both sides."""

    case: Case
    verdict: str
    old: Record | None
    new: Record | None
    ratio: Ratio | None = None
    p: float | None = None
    runs: tuple[int, int] = (0, 0)

    @property
    def machine(self) -> str:
        """The machine of its last measurement."""
        return label((self.new or self.old or {}).get("machine"))

    @property
    def versions(self) -> dict[str, tuple[str | None, str | None]]:
        """The packages whose version changed."""
        old, new = ((side or {}).get("versions") or {} for side in (self.old, self.new))
        both = {name: (old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys())}
        return {name: pair for name, pair in both.items() if pair[0] != pair[1]}

    def is_worse(self, share: float) -> bool:
        """Whether it no longer passes, or became significantly slower, by this share or more."""
        return self.verdict == "lost" or bool(self.verdict == "slower" and self.ratio and self.ratio.value >= 1 + share)


def compare(old: Iterable[Record], new: Iterable[Record]) -> list[Change]:
    """Return the change of every cell that is in either, the worst first."""
    sides = [_runs(records) for records in (old, new)]
    cells = dict.fromkeys((*sides[0], *sides[1]))
    changes = [
        _change(case, *pair) for case in dict.fromkeys(case for _, case in cells) for pair in _pairs(case, *sides)
    ]
    timed = [change for change in changes if change.p is not None]
    corrected = dict(zip(map(id, timed), adjusted([change.p or 0.0 for change in timed]), strict=True))
    judged = [_judged(change, corrected.get(id(change))) for change in changes]
    return sorted(judged, key=lambda c: (VERDICTS.index(c.verdict), -(c.ratio.value if c.ratio else 0.0)))


def adjusted(p: Sequence[float]) -> list[float]:
    """Return Benjamini's and Hochberg's corrected p-values, in the order given."""
    order = np.argsort(p)[::-1]
    corrected, least = [0.0] * len(p), 1.0
    for rank, place in zip(range(len(p), 0, -1), order, strict=True):
        least = min(least, p[place] * len(p) / rank)
        corrected[place] = least
    return corrected


def chance(estimate: Estimate) -> float:
    """Return the probability that Student's t is as far from 0 as this estimate, on either side.

    With x = sqrt(n) tan a the density is cos(a)^(n - 1), which is summed by the trapezoidal rule.
    """
    if estimate.error == 0:
        return 1.0 if estimate.value == 0 else 0.0
    begin = math.atan(abs(estimate.value) / estimate.error / math.sqrt(estimate.freedom))
    tail, half = (
        float(np.trapezoid(np.cos(angles) ** (estimate.freedom - 1), angles))
        for angles in (np.linspace(first, math.pi / 2, 4001) for first in (begin, 0.0))
    )
    return min(tail / half, 1.0)


def _runs(records: Iterable[Record]) -> Side:
    """Return the last record of each case on each machine, and before it those of the same model and versions."""
    runs: Side = {}
    for record in records:
        runs.setdefault((label(record.get("machine")), Case(**record["case"])), []).append(record)
    return {cell: [each for each in some if each["key"] == some[-1]["key"]] for cell, some in runs.items()}


def _pairs(case: Case, old: Side, new: Side) -> Iterator[tuple[list[Record], list[Record]]]:
    """Return the pairs to compare of a case: each machine with itself; if none is on both sides, what there is."""
    here, there = ([machine for machine, other in side if other == case] for side in (old, new))
    if len(here) == len(there) == 1:
        yield old[here[0], case], new[there[0], case]
        return
    for machine in dict.fromkeys((*here, *there)):
        yield old.get((machine, case), []), new.get((machine, case), [])


def _change(case: Case, old: list[Record], new: list[Record]) -> Change:
    if not old or not new:
        return Change(case, "only new" if new else "only old", old[-1] if old else None, new[-1] if new else None)
    before, after = old[-1], new[-1]
    passed = before["status"] == "PASS", after["status"] == "PASS"
    if passed != (True, True):
        return Change(case, {(True, False): "lost", (False, True): "fixed"}.get(passed, "failing"), before, after)
    if label(before.get("machine")) != label(after.get("machine")):
        return Change(case, "other machine", before, after)
    sides = [[run for run in side if _is_timed(run)] for side in (old, new)]
    seen = [[observation(known(run["times"])["blocks"]) for run in side] for side in sides]
    if not all(seen):
        return Change(case, "same", before, after)
    estimate = moderated(seen[::-1], SESSION)
    return Change(
        case, "same", before, after, as_ratio(estimate, False), chance(estimate), (len(seen[0]), len(seen[1]))
    )


def _judged(change: Change, p: float | None) -> Change:
    if change.ratio is None or p is None:
        return change
    verdict = "same" if p > FALSE else "slower" if change.ratio.value > 1 else "faster"
    return Change(change.case, verdict, change.old, change.new, change.ratio, p, change.runs)


def _is_timed(record: Record) -> bool:
    return record["status"] == "PASS" and bool((record.get("times") or NOTHING).get("blocks"))
