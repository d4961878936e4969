"""How many times as long one takes as another, and how sure that is. Pure functions; NumPy only.

Rounds tell how much a process differs from itself. Two processes of the same program differ as well, for as long as
they live, so an interval from the rounds of two processes alone is too narrow: it tells equals apart. A process is
therefore one observation. How much processes differ is estimated from those at hand together with
what was measured beforehand, which counts as `FREEDOM` more of them: the moderated variance of Smyth (2004, doi
10.2202/1544-6115.1027). A single process a side has that prior alone.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xbench.stats.statistics import (
    MIN_BLOCKS,
    RESAMPLES,
    Array,
    Interval,
    Z,
    median_interval,
    median_of,
    resampled_medians,
    stretched,
    students_t,
)

# Standard deviations of the logarithm of a time, such as tools/measure/spread.py and told_apart.py find (their .txt).
PROCESS = 0.02  # of processes whose rounds ran side by side
SESSION = 0.04  # of processes at different times, on a machine that others use too
FREEDOM = 6  # degrees of freedom that both are worth
_TICK = 1e-12  # seconds; shorter than any clock resolves, and it keeps logarithms finite


class Ratio(NamedTuple):
    """How many times as long as b does a take, with a 95 % interval; `paired` when it was formed round by round."""

    value: float
    low: float | None
    high: float | None
    paired: bool


Observation = tuple[float, float]  # the logarithm of one process, and the variance of it that its own rounds show


class Estimate(NamedTuple):
    """A logarithm, its standard error, and the degrees of freedom of that."""

    value: float
    error: float
    freedom: int


def paired_ratio(
    blocks_a: Iterable[Mapping[str, Any]],
    blocks_b: Iterable[Mapping[str, Any]],
    rng: np.random.Generator,
    *,
    same_session: bool = True,
) -> Ratio:
    """Return the time of a over the time of b; blocks are `{"round", "process", "samples"}` as in docs/results.md.

    In one session blocks of the same round ran side by side: a process gives the median of its rounds' ratios of block
    medians, so that what slows both down cancels; the ratio is the mean over the processes. Other sessions, or fewer
    than three common rounds, give the ratio of the medians, with a wider interval.
    """
    a, b = _by_process(blocks_a), _by_process(blocks_b)
    if same_session and (pairs := _pairs(a, b)):
        return as_ratio(moderated([[_median_log(logs, rng) for logs in pairs]], math.sqrt(2) * PROCESS), True)
    estimate = moderated(
        [[_log_median([*rounds.values()], rng) for rounds in side.values()] for side in (a, b)], SESSION
    )
    if min(sum(map(len, side.values())) for side in (a, b)) < MIN_BLOCKS:
        return Ratio(math.exp(estimate.value), None, None, False)
    return as_ratio(estimate, False)


def side_by_side(cells: Sequence[Iterable[Mapping[str, Any]]], rng: np.random.Generator) -> list[Estimate] | None:
    """Return by how much the logarithm of each of several cells of one session is above the mean of all, or None where
    no process has three rounds that are common to all.

    What slows a round down for all of them cancels. Without the mean of k an error has (k - 1) / k of its variance,
    which is made up for: errors that are drawn one by one then differ by as much as those of `paired_ratio`.
    """
    sides, stretch = [_by_process(blocks) for blocks in cells], math.sqrt(len(cells) / max(len(cells) - 1, 1))
    observed: list[list[Observation]] = [[] for _ in sides]
    for process in sorted(set.intersection(*(set(side) for side in sides))):
        common = sorted(set.intersection(*(set(side[process]) for side in sides)))
        if len(common) >= MIN_BLOCKS:
            logs = np.array([[_log(np.median(side[process][number])) for number in common] for side in sides])
            for place, rounds in enumerate(logs - logs.mean(axis=0)):
                observed[place].append(_median_log(rounds, rng))
    if not observed[0]:
        return None
    found = []
    for side in observed:
        mean = float(np.mean([value for value, _ in side]))
        found.append(moderated([[(mean + (v - mean) * stretch, within * stretch**2) for v, within in side]], PROCESS))
    return found


def median_over_processes(blocks: Iterable[Mapping[str, Any]], rng: np.random.Generator) -> Interval:
    """Return the median time of a cell and its 95 % interval. With one process the interval is that process's own: how
    another might differ it cannot show."""
    processes = _by_process(blocks)
    if len(processes) == 1:
        (rounds,) = processes.values()
        return median_interval([samples.tolist() for samples in rounds.values()], rng)
    found = as_ratio(moderated([_observed(processes, rng)], PROCESS), True)
    return Interval(found.value, found.low, found.high)


def moderated(sides: Sequence[Sequence[Observation]], prior: float) -> Estimate:
    """Return the mean of one side of processes, or by how much that of the first of two is above the second's.

    `prior` is the standard deviation of processes that is known beforehand. What the rounds show of a process is known
    well, and weighs as the normal does; what processes differ by is not, and weighs as Student's t.
    """
    values = [np.array([value for value, _ in side]) for side in sides]
    within = float(np.mean([variance for side in sides for _, variance in side]))
    freedom = FREEDOM + sum(len(side) - 1 for side in sides)
    seen = float(sum(np.var(side) * len(side) for side in values))
    known = FREEDOM * prior**2 / freedom
    between = max(known + (FREEDOM * within + seen) / freedom - within, known)
    variance = between + within * (Z / students_t(freedom)) ** 2
    first, *rest = (float(np.mean(side)) for side in values)
    return Estimate(first - sum(rest), math.sqrt(variance * sum(1 / len(side) for side in sides)), freedom)


def observation(blocks: Iterable[Mapping[str, Any]]) -> Observation:
    """Return the logarithm of a run's time, the mean over its processes, with the variance that their rounds show. They
    ran at one time: of how runs at different times differ they are one observation, however many they are."""
    values, variances = zip(*_observed(_by_process(blocks), np.random.default_rng(0)), strict=True)
    return float(np.mean(values)), float(np.mean(variances)) / len(variances)


def as_ratio(estimate: Estimate, paired: bool) -> Ratio:
    """Return an estimate as a ratio with its 95 % interval."""
    value, half = estimate.value, students_t(estimate.freedom) * estimate.error
    return Ratio(math.exp(value), math.exp(value - half), math.exp(value + half), paired)


def _pairs(a: Mapping[int, Mapping[int, Array]], b: Mapping[int, Mapping[int, Array]]) -> list[Array]:
    """Return the logarithms of the ratios of common rounds, of each pair of processes that has three or more."""
    found = []
    for process in sorted(a.keys() & b.keys()):
        ours, theirs = a[process], b[process]
        common = sorted(ours.keys() & theirs.keys())
        logs = [_log(np.median(ours[number])) - _log(np.median(theirs[number])) for number in common]
        if len(logs) >= MIN_BLOCKS:
            found.append(np.array(logs))
    return found


def _median_log(logs: Array, rng: np.random.Generator) -> Observation:
    """Return the median of the rounds of one pair of processes."""
    drawn = np.median(logs[rng.integers(len(logs), size=(RESAMPLES, len(logs)))], axis=1)
    return float(np.median(logs)), float(np.var(drawn)) * stretched(logs.tolist()) ** 2


def _observed(processes: Mapping[int, Mapping[int, Array]], rng: np.random.Generator) -> list[Observation]:
    return [_log_median([*rounds.values()], rng) for rounds in processes.values()]


def _log_median(rounds: list[Array], rng: np.random.Generator) -> Observation:
    """Return the logarithm of the median of one process; the variance is 0.0 where too few rounds show any."""
    value = _log(median_of(rounds))
    if len(rounds) < MIN_BLOCKS:
        return value, 0.0
    drawn = np.log(np.maximum(resampled_medians(rounds, rng), _TICK))
    return value, float(np.var(drawn)) * stretched([float(np.median(samples)) for samples in rounds]) ** 2


def _by_process(blocks: Iterable[Mapping[str, Any]]) -> dict[int, dict[int, Array]]:
    """Return the samples of each round of each process; records of schema 2 knew of one process only."""
    found: dict[int, dict[int, list[float]]] = {}
    for block in blocks:
        if len(block["samples"]):
            rounds = found.setdefault(block.get("process", 0), {})
            rounds.setdefault(block["round"], []).extend(block["samples"])
    if not found:
        raise ValueError("no samples")
    return {
        process: {number: np.asarray(samples, dtype=np.float64) for number, samples in rounds.items()}
        for process, rounds in found.items()
    }


def _log(seconds: Any) -> float:
    """Return the logarithm of a time, finite for a time of zero."""
    return math.log(max(float(seconds), _TICK))
