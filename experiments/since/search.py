"""Bisection over releases in order, of which the first is good and the last bad. Knows nothing of what is asked."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

GOOD, BAD, SKIPPED, UNCLEAR = "good", "bad", "skipped", "unclear"


class Look(NamedTuple):
    """What a step found of a release: GOOD, BAD, SKIPPED if it could not be tried, UNCLEAR if what was measured does
    not say; a sentence about it, and how certain that is, up to 1."""

    state: str
    words: str
    certainty: float = 1.0


class Found(NamedTuple):
    """The last good release, the first bad one, and what every step found of the releases that were tried, in the
    order of the steps. Between the two are only releases that could not be judged."""

    good: str
    bad: str
    looks: dict[str, Look]

    @property
    def certainty(self) -> float:
        """How certain all answers together are, from 0 to 1."""
        return math.prod(look.certainty for look in self.looks.values() if look.state in (GOOD, BAD))


def most_steps(count: int) -> int:
    """The number of steps that `search` needs for as many releases, if it can judge each that it tries."""
    return max(0, math.ceil(math.log2(count - 1))) if count > 1 else 0


def search(releases: Sequence[str], judge: Callable[[str, str, str], Look]) -> Found:
    """Finds two neighbours between which the releases become bad. `judge(good, release, bad)` looks at a release
    between two whose state is known. If it cannot say which it is, the nearest to it is tried."""
    good, bad = 0, len(releases) - 1
    looks: dict[str, Look] = {}
    while left := [each for each in range(good + 1, bad) if releases[each] not in looks]:
        place = min(left, key=lambda each: abs(each - (good + bad) / 2))
        look = looks[releases[place]] = judge(releases[good], releases[place], releases[bad])
        if look.state == GOOD:
            good = place
        elif look.state == BAD:
            bad = place
    return Found(releases[good], releases[bad], looks)
