"""Searches the smallest set of nodes to leave in float32. A pure function of how much each node alone is off, and of a
trial that says whether a set is good enough.

The error of a network is taken for the sum of the squares of those of its nodes: that orders the sets. Only trials say
which are good enough. A set is taken for bad if one that contains it was bad.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

Nodes = frozenset[str]
Good = Callable[[Nodes], bool]
PATIENCE = 8  # other sets of one node fewer that are tried at the end,
AS_GOOD = 2.0  # if they leave at most so many times the error of the best of their size


@dataclass(frozen=True)
class Found:
    """The smallest set that is good enough, None if there is none, and whether the search was ended by the number of
    trials. A smaller set may exist then."""

    nodes: Nodes | None
    trials: int
    ended: bool


class _Spent(Exception):
    """No trial is left."""


def smallest(errors: Mapping[str, float], is_good: Good, most: int) -> Found:
    """The smallest set found in at most `most` trials. `errors` are of the output if a node alone is in the lower
    precision, at least 0; infinite if it is not finite."""
    trials = _Trials(is_good, most)
    order = sorted((each for each in errors if errors[each] > 0), key=errors.__getitem__, reverse=True)
    try:
        count = _prefix(order, trials)
        if count:
            _reduce(order[:count], trials)
            _swap(errors, trials)
        ended = False
    except _Spent:
        ended = True
    return Found(trials.best, len(trials.known), ended)


class _Trials:
    """The sets that were tried, at most `most`, and the smallest that is good."""

    def __init__(self, is_good: Good, most: int) -> None:
        self._is_good, self._most = is_good, most
        self.known: dict[Nodes, bool] = {}
        self.best: Nodes | None = None

    def good(self, nodes: Nodes) -> bool:
        """
        Raises:
            _Spent: the trials are spent.
        """
        if nodes not in self.known:
            if any(not good and nodes < other for other, good in self.known.items()):
                return False
            if len(self.known) == self._most:
                raise _Spent
            self.known[nodes] = self._is_good(nodes)
            if self.known[nodes] and (self.best is None or len(nodes) < len(self.best)):
                self.best = nodes
        return self.known[nodes]


def _prefix(order: list[str], trials: _Trials) -> int | None:
    """The fewest nodes of an order, from the first, that are good enough; None if even all but one are not. Few are
    tried before many."""
    bad, size = -1, 0
    while not trials.good(frozenset(order[:size])):
        bad = size
        if size >= len(order) - 1:
            return None
        size = min(2 * size or 1, len(order) - 1)
    while size - bad > 1:
        middle = (bad + size) // 2
        if trials.good(frozenset(order[:middle])):
            size = middle
        else:
            bad = middle
    return size


def _reduce(nodes: list[str], trials: _Trials) -> None:
    """Takes nodes out of a good set, many at a time as long as that works, those that are least off first."""
    kept, size = list(nodes), len(nodes) // 2
    while size:
        for part in [kept[start : start + size] for start in range(0, len(kept), size)][::-1]:
            fewer = [each for each in kept if each not in part]
            if trials.good(frozenset(fewer)):
                kept = fewer
        size //= 2


def _swap(errors: Mapping[str, float], trials: _Trials) -> None:
    """Tries other sets of one node fewer, those first that leave the least error, until some of them were bad."""
    while trials.best:
        others = (each for each in _by_error(errors, len(trials.best) - 1) if each not in trials.known)
        if not any(trials.good(each) for each in itertools.islice(others, PATIENCE)):
            return


def _by_error(errors: Mapping[str, float], size: int) -> Iterator[Nodes]:
    """The sets of a size that leave little error, the least first."""
    largest = max((each for each in errors.values() if math.isfinite(each)), default=0.0)
    squares = {name: (each if math.isfinite(each) else 2 * largest + 1) ** 2 for name, each in errors.items() if each}
    order = sorted(squares, key=squares.__getitem__, reverse=True)
    total = math.fsum(squares.values())

    def left(places: tuple[int, ...]) -> float:
        return total - math.fsum(squares[order[each]] for each in places)

    first = tuple(range(size))
    queue, seen = [(left(first), first)], {first}
    while queue and queue[0][0] <= AS_GOOD * left(first):
        _, places = heapq.heappop(queue)
        yield frozenset(order[each] for each in places)
        for number, place in enumerate(places):
            limit = places[number + 1] if number + 1 < size else len(order)
            moved = (*places[:number], place + 1, *places[number + 1 :])
            if place + 1 < limit and moved not in seen:
                seen.add(moved)
                heapq.heappush(queue, (left(moved), moved))
