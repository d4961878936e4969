"""Finds the wrong node by testing sets of nodes; the caller defines the test.

`shows` takes a sorted list of node numbers and returns whether the difference shows on those nodes alone. Any set may
be tested, because a node is given what it reads from outside its set.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

Shows = Callable[[list[int]], bool]
Nodes = Sequence[Mapping[str, Any]]  # each with the names of its `inputs` and `outputs`, in the order of the graph


def roots(nodes: Nodes, wrong: Collection[str]) -> list[int]:
    """The nodes with a wrong output whose inputs are all right, in order."""
    return [n for n, node in enumerate(nodes) if _meets(node["outputs"], wrong) and not _meets(node["inputs"], wrong)]


def roots_backward(nodes: Nodes, wrong: Mapping[int, Collection[str]]) -> list[int]:
    """The nodes that give wrong gradients of their inputs although later nodes give right gradients of their outputs;
    the last first. `wrong` has the inputs by the number of the node that reads them."""
    return [
        n for n in sorted(wrong, reverse=True) if not any(_meets(nodes[n]["outputs"], wrong[m]) for m in wrong if m > n)
    ]


def _meets(names: Iterable[str], others: Collection[str]) -> bool:
    return any(name in others for name in names)


def windows(nodes: Nodes, start: int, most: int) -> Iterator[list[int]]:
    """The nodes within 1, 2, 4, ... steps of one, in both directions, while the set grows and has at most `most`."""
    makers = {name: number for number, node in enumerate(nodes) for name in node["outputs"]}
    neighbours: list[set[int]] = [set() for _ in nodes]
    for number, node in enumerate(nodes):
        for maker in (makers[name] for name in node["inputs"] if name in makers):
            neighbours[number].add(maker)
            neighbours[maker].add(number)
    window, edge, steps = {start}, {start}, 0
    while edge := {near for number in edge for near in neighbours[number]} - window:
        window |= edge
        steps += 1
        if len(window) > most:
            return
        if not steps & (steps - 1):
            yield sorted(window)
    if steps & (steps - 1):
        yield sorted(window)


def first(count: int, shows: Shows) -> int | None:
    """The number of the node that ends the shortest run of nodes, from the first on, that shows the difference."""
    if not shows(list(range(count))):
        return None
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if shows(list(range(middle))) else (middle, bad)
    return bad - 1


def smallest(nodes: list[int], shows: Shows) -> list[int]:
    """A part of the nodes that shows the difference, and no longer does if any one of them is removed.

    Delta debugging: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (2002).
    """
    kept, pieces = sorted(nodes), 2
    while len(kept) > 1:
        ends = [len(kept) * piece // pieces for piece in range(pieces + 1)]
        parts = [kept[start:end] for start, end in pairwise(ends)]
        part = next((part for part in parts if shows(part)), None)
        rests = [[n for n in kept if n not in part] for part in parts] if pieces > 2 else []
        rest = None if part else next((rest for rest in rests if shows(rest)), None)
        if part:
            kept, pieces = part, 2
        elif rest:
            kept, pieces = rest, max(pieces - 1, 2)
        elif pieces >= len(kept):
            break
        else:
            pieces = min(2 * pieces, len(kept))
    return kept
