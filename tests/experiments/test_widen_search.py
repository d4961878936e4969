"""The search for the smallest set of nodes: against all sets of small networks, and within its trials on large ones."""

import itertools
import math

import numpy as np
import pytest

from xbench.experiments.widen.search import smallest

NODES = 12


class Network:
    """A network whose nodes add errors that are not independent, as quantised layers do. `share` of the error of all
    is acceptable."""

    def __init__(self, seed, count, dependence=0.5):
        rng = np.random.default_rng(seed)
        self.names = [f"n{number}" for number in range(count)]
        own = np.exp(rng.normal(0, 1.5, count))
        mixed = rng.normal(size=(count, count)) * dependence / math.sqrt(count)
        self.errors = np.diag(own) + np.sqrt(np.outer(own, own)) * (mixed @ mixed.T)
        self.most = self.left(()) * rng.uniform(0.02, 0.95)
        alone = np.sqrt(np.diag(self.errors)) * np.exp(rng.normal(0, 0.1, count))  # as measured on a few samples
        self.alone = dict(zip(self.names, alone.tolist(), strict=True))
        self.trials = []

    def left(self, wide):
        low = np.array([name not in wide for name in self.names], float)
        return float(low @ self.errors @ low)

    def is_good(self, wide):
        self.trials.append(wide)
        return self.left(wide) <= self.most

    def fewest(self):
        sizes = range(len(self.names))
        return next(n for n in sizes for wide in itertools.combinations(self.names, n) if self.left(wide) <= self.most)


@pytest.mark.parametrize("seed", range(12))
def test_of_twelve_nodes_it_finds_as_few_as_all_sets_or_one_more(seed):
    network = Network(seed, NODES)
    found = smallest(network.alone, network.is_good, 30)
    assert network.left(found.nodes) <= network.most
    assert len(found.nodes) <= network.fewest() + 1
    assert found.trials == len(network.trials) == len(set(network.trials)) <= 30


@pytest.mark.parametrize("count", [64, 150])
def test_of_many_nodes_a_good_set_is_known_after_few_trials(count):
    for seed in range(10):
        network = Network(seed, count, 0.0)
        found = smallest(network.alone, network.is_good, 30)
        order = sorted(network.alone, key=network.alone.get, reverse=True)
        fewest = next(size for size in range(count) if network.left(order[:size]) <= network.most)
        assert len(found.nodes) <= fewest + 1
        assert next(n for n, wide in enumerate(network.trials) if network.left(wide) <= network.most) < 10


def test_if_all_may_be_narrow_one_trial_says_so():
    found = smallest({"a": 0.1, "b": 0.2}, lambda wide: True, 30)
    assert (found.nodes, found.trials, found.ended) == (frozenset(), 1, False)


def test_if_no_set_is_good_there_is_none():
    found = smallest(dict.fromkeys("abcdefgh", 0.1), lambda wide: False, 30)
    assert (found.nodes, found.ended) == (None, False)
    assert found.trials <= 5  # none, 1, 2, 4, 7 of 8


def test_when_the_trials_are_spent_it_gives_the_smallest_good_set_so_far():
    network = Network(3, 64)
    found = smallest(network.alone, network.is_good, 7)
    assert (found.trials, found.ended) == (7, True)
    good = [wide for wide in network.trials if network.left(wide) <= network.most]
    assert found.nodes == min(good, key=len)


def test_a_node_that_overflows_comes_first_and_one_without_error_never():
    trials = []
    errors = {"a": 0.3, "overflows": math.inf, "moves": 0.0, "b": 0.2}
    found = smallest(errors, lambda wide: trials.append(wide) or "overflows" in wide, 30)
    assert found.nodes == {"overflows"}
    assert not any("moves" in wide for wide in trials)


def test_a_set_within_a_bad_one_is_not_tried():
    tried = []

    def is_good(wide):
        tried.append(wide)
        return {"a", "b"} <= wide

    found = smallest({"c": 3.0, "a": 2.9, "b": 2.8, "d": 0.1}, is_good, 30)
    assert found.nodes == {"a", "b"}
    bad = [wide for wide in tried if not {"a", "b"} <= wide]
    assert not any(first < second for second in bad for first in bad[bad.index(second) + 1 :])


def test_nodes_that_only_seem_to_matter_are_taken_out():
    """Those with the largest errors alone may not be the ones that cost answers."""
    seeming = {f"seems{number}": 5.0 + number for number in range(6)}
    found = smallest({**seeming, "a": 3.0, "b": 2.9, "c": 0.1, "d": 0.1}, lambda wide: {"a", "b"} <= wide, 30)
    assert found.nodes == {"a", "b"}
    assert found.trials < 15


def test_a_smaller_set_of_other_nodes_is_found():
    found = smallest(
        {"a": 1.3, "b": 1.2, "c": 1.1, "x": 1.0, "y": 0.9}, lambda wide: {"a", "b", "c"} <= wide or "x" in wide, 30
    )
    assert found.nodes == {"x"}


def test_nodes_without_error_are_no_sets():
    found = smallest({"a": 1.0, "moves": 0.0, "moves too": 0.0}, lambda wide: False, 30)
    assert (found.nodes, found.trials) == (None, 1)
