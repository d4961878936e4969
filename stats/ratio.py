"""The ratio of two times, and its confidence interval. Pure functions; NumPy only.

Rounds show how much a process differs from itself. Two processes of the same program differ as well, for as long as
they live, so an interval from the rounds of two processes alone is too narrow: it separates equals. A process is
therefore one observation. How much processes differ is estimated from those at hand together with earlier
measurements, which count as `FREEDOM` more of them: the moderated variance of Smyth (2004, doi
10.2202/1544-6115.1027). A single process per side has that prior alone.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    students_share,
    students_t,
)

# Standard deviations of the logarithm of a time, as measured by tools/measure/spread.py and told_apart.py (their .txt).
PROCESS = 0.02  # of processes whose rounds ran side by side
SESSION = 0.04  # of processes at different times, on a shared machine
FREEDOM = 6  # degrees of freedom of both priors
_TICK = 1e-12  # seconds; shorter than any clock resolves, and it keeps logarithms finite


class Ratio(NamedTuple):
    """The time of a over the time of b, with a 95 % interval; `paired` if it was formed round by round."""

    value: float
    low: float | None
    high: float | None
    paired: bool


Observation = tuple[float, float]  # the logarithm of one process's time, and its variance within the process's rounds


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
    medians, so that common slowdowns cancel; the ratio is the mean over the processes. Other sessions, or fewer
    than three common rounds, give the ratio of the medians, with a wider interval.
    """
    blocks_a, blocks_b = list(blocks_a), list(blocks_b)
    if same_session and (paired := paired_estimate(blocks_a, blocks_b, rng)):
        return as_ratio(paired, True)
    a, b = _by_process(blocks_a), _by_process(blocks_b)
    estimate = moderated(
        [[_log_median([*rounds.values()], rng) for rounds in side.values()] for side in (a, b)], SESSION
    )
    if min(sum(map(len, side.values())) for side in (a, b)) < MIN_BLOCKS:
        return Ratio(math.exp(estimate.value), None, None, False)
    return as_ratio(estimate, False)


def side_by_side(cells: Sequence[Iterable[Mapping[str, Any]]], rng: np.random.Generator) -> list[Estimate] | None:
    """Return by how much the logarithm of each of several cells of one session is above the mean of all, or None if
    no process has three rounds that are common to all.

    Slowdowns of a round common to all cancel. Subtracting the mean of k leaves an error (k - 1) / k of its variance,
    which is corrected: differences of independent errors are then as large as those of `paired_ratio`.
    """
    sides, stretch = [_by_process(blocks) for blocks in cells], math.sqrt(len(cells) / max(len(cells) - 1, 1))
    observed: list[list[Observation]] = [[] for _ in sides]
    for logs in _common_rounds(sides):
        for place, rounds in enumerate(logs - logs.mean(axis=0)):
            observed[place].append(_median_log(rounds, rng))
    if not observed[0]:
        return None
    estimates = []
    for side in observed:
        mean = float(np.mean([value for value, _ in side]))
        estimates.append(
            moderated([[(mean + (v - mean) * stretch, within * stretch**2) for v, within in side]], PROCESS)
        )
    return estimates


def beyond_middle(
    first: Iterable[Mapping[str, Any]],
    third: Iterable[Mapping[str, Any]],
    last: Iterable[Mapping[str, Any]],
    rng: np.random.Generator,
) -> Estimate | None:
    """Return by how much the logarithm of the third's time exceeds the mean of the two others', which ran side by side
    with it: positive if it is like the slower of them. None if no process has three rounds common to all."""
    logs = _common_rounds([_by_process(blocks) for blocks in (first, third, last)])
    observed = [_median_log(third - (first + last) / 2, rng) for first, third, last in logs]
    return moderated([observed], math.sqrt(1.5) * PROCESS) if observed else None


def above(estimate: Estimate, threshold: float = 0.0) -> float:
    """Return the probability, from 0 to 1, that what was estimated is above a threshold."""
    return students_share((estimate.value - threshold) / max(estimate.error, _TICK), estimate.freedom)


def median_over_processes(blocks: Iterable[Mapping[str, Any]], rng: np.random.Generator) -> Interval:
    """Return the median time of a cell and its 95 % interval. With one process the interval is that process's own: it
    cannot show how others differ."""
    processes = _by_process(blocks)
    if len(processes) == 1:
        (rounds,) = processes.values()
        return median_interval([samples.tolist() for samples in rounds.values()], rng)
    median = as_ratio(moderated([_observed(processes, rng)], PROCESS), True)
    return Interval(median.value, median.low, median.high)


def moderated(sides: Sequence[Sequence[Observation]], prior: float) -> Estimate:
    """Return the mean of one side of processes, or by how much the mean of the first side exceeds the second's.

    `prior` is the standard deviation of processes known beforehand. The variance within rounds is known well, and is
    weighted by the normal distribution; the variance between processes is not, and is weighted by Student's t.
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
    ran at one time: with respect to differences between runs they are one observation, whatever their number."""
    values, variances = zip(*_observed(_by_process(blocks), np.random.default_rng(0)), strict=True)
    return float(np.mean(values)), float(np.mean(variances)) / len(variances)


def paired_estimate(
    blocks_a: Iterable[Mapping[str, Any]], blocks_b: Iterable[Mapping[str, Any]], rng: np.random.Generator
) -> Estimate | None:
    """Return the logarithm of `paired_ratio` of one session; None if no process has three common rounds."""
    pairs = _pairs(_by_process(blocks_a), _by_process(blocks_b))
    return moderated([[_median_log(logs, rng) for logs in pairs]], math.sqrt(2) * PROCESS) if pairs else None


def as_ratio(estimate: Estimate, paired: bool) -> Ratio:
    """Return an estimate as a ratio with its 95 % interval."""
    value, half = estimate.value, students_t(estimate.freedom) * estimate.error
    return Ratio(math.exp(value), math.exp(value - half), math.exp(value + half), paired)


def _pairs(a: Mapping[int, Mapping[int, Array]], b: Mapping[int, Mapping[int, Array]]) -> list[Array]:
    """Return the logarithms of the ratios of common rounds, of each pair of processes that has three or more."""
    pairs = []
    for process in sorted(a.keys() & b.keys()):
        left, right = a[process], b[process]
        common = sorted(left.keys() & right.keys())
        logs = [_log(np.median(left[number])) - _log(np.median(right[number])) for number in common]
        if len(logs) >= MIN_BLOCKS:
            pairs.append(np.array(logs))
    return pairs


def _common_rounds(sides: Sequence[Mapping[int, Mapping[int, Array]]]) -> Iterator[Array]:
    """The logarithms of the block medians, by side and round, of each process with three rounds common to all."""
    for process in sorted(set.intersection(*(set(side) for side in sides))):
        common = sorted(set.intersection(*(set(side[process]) for side in sides)))
        if len(common) >= MIN_BLOCKS:
            yield np.array([[_log(np.median(side[process][number])) for number in common] for side in sides])


def _median_log(logs: Array, rng: np.random.Generator) -> Observation:
    """Return the median of the rounds of one pair of processes."""
    drawn = np.median(logs[rng.integers(len(logs), size=(RESAMPLES, len(logs)))], axis=1)
    return float(np.median(logs)), float(np.var(drawn)) * stretched(logs.tolist()) ** 2


def _observed(processes: Mapping[int, Mapping[int, Array]], rng: np.random.Generator) -> list[Observation]:
    return [_log_median([*rounds.values()], rng) for rounds in processes.values()]


def _log_median(rounds: list[Array], rng: np.random.Generator) -> Observation:
    """Return the logarithm of the median of one process; the variance is 0.0 if there are too few rounds."""
    value = _log(median_of(rounds))
    if len(rounds) < MIN_BLOCKS:
        return value, 0.0
    drawn = np.log(np.maximum(resampled_medians(rounds, rng), _TICK))
    return value, float(np.var(drawn)) * stretched([float(np.median(samples)) for samples in rounds]) ** 2


def _by_process(blocks: Iterable[Mapping[str, Any]]) -> dict[int, dict[int, Array]]:
    """Return the samples of each round of each process; records of schema 2 had one process only."""
    processes: dict[int, dict[int, list[float]]] = {}
    for block in blocks:
        if len(block["samples"]):
            rounds = processes.setdefault(block.get("process", 0), {})
            rounds.setdefault(block["round"], []).extend(block["samples"])
    if not processes:
        raise ValueError("no samples")
    return {
        process: {number: np.asarray(samples, dtype=np.float64) for number, samples in rounds.items()}
        for process, rounds in processes.items()
    }


def _log(seconds: Any) -> float:
    """Return the logarithm of a time, finite for a time of zero."""
    return math.log(max(float(seconds), _TICK))
