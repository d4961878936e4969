"""Which of several cells is best, and with what probability. Pure functions on records that have times; NumPy only.

Everything is a cost in seconds; the lowest is best. The uncertainty of a cell's logarithm is drawn as in `ratio.py`:
Student's t with the spread of processes and sessions. Cells of one session share its effect; only their differences,
round by round, distinguish them. The share of draws in which a cell is first is the probability that it is the best,
with no prior knowledge (a flat prior on the logarithm).
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xbench.case import Case
from xbench.experiments.load import WIDTH
from xbench.stats.ratio import (
    FREEDOM,
    PROCESS,
    SESSION,
    Observation,
    Ratio,
    as_ratio,
    moderated,
    observation,
    paired_ratio,
    side_by_side,
)
from xbench.store.record import Opening, Record, known

Array = npt.NDArray[np.float64]

DRAWS = 20_000
APART = math.sqrt(SESSION**2 - PROCESS**2)  # spread of sessions, without that of the processes in them
START = 0.2  # standard deviation of the logarithm of a start; assumed, not measured: the disk cache is cold or warm
SURE = 0.95


def levelled(records: Sequence[Record]) -> list[float]:
    """The median of each cell in seconds. For cells whose rounds ran side by side: the median of the fastest times the
    ratio to it round by round, so that drift between blocks does not affect the ranking."""
    medians = [known(record["times"])["median_s"] for record in records]
    for members in _sessions(records):
        anchor = min(members, key=lambda place: medians[place])
        ratios = {place: ratio(records[place], records[anchor]) for place in members if place != anchor}
        for place, each in ratios.items():
            medians[place] = medians[anchor] * each.value if each.paired else medians[place]
    return medians


def ratio(a: Record, b: Record) -> Ratio:
    """The time of a over that of b: round by round if they ran side by side, else each as one observation."""
    if not (_has_samples(a) and _has_samples(b)):
        return Ratio(known(a["times"])["median_s"] / known(b["times"])["median_s"], None, None, False)
    left, right = (known(record["times"])["blocks"] for record in (a, b))
    if _session(a) is not None and _session(a) == _session(b):
        by_rounds = paired_ratio(left, right, np.random.default_rng(0))
        if by_rounds.paired:
            return by_rounds
    return ratio_of(observation(left), observation(right))


def ratio_of(a: Observation, b: Observation) -> Ratio:
    """The ratio of two runs at different times: logarithms, each with its own variance."""
    return as_ratio(moderated([[a], [b]], SESSION), False)


def drawn_steps(records: Sequence[Record], centres: Sequence[float], seed: int = 0) -> Array:
    """Draws of the true time of a step, around its estimate, in seconds, of shape (cells, draws)."""
    rng = np.random.default_rng(seed)
    logs = np.log(np.array(centres))[:, None] + np.zeros((len(records), DRAWS))
    alone = set(range(len(records)))
    for members in _sessions(records):
        errors = side_by_side([known(records[place]["times"])["blocks"] for place in members], rng)
        if errors is None:
            continue
        alone -= set(members)
        session = APART * rng.standard_t(FREEDOM, DRAWS)
        for place, error in zip(members, errors, strict=True):
            logs[place] += session + error.error * rng.standard_t(error.freedom, DRAWS)
    for place in sorted(alone):
        record = records[place]
        seen = observation(known(record["times"])["blocks"]) if _has_samples(record) else (0.0, 0.0)
        logs[place] += _error([seen], SESSION, rng)
    return np.asarray(np.exp(logs))


def drawn_starts(records: Sequence[Record]) -> Array:
    """Draws of the true time of a start, in seconds, of shape (cells, draws)."""
    rng, starts = np.random.default_rng(1), []
    for record in records:
        seen = [math.log(max(start(each), 1e-9)) for each in known(record["times"]).get("processes") or () if each]
        error = _error([(value, 0.0) for value in seen] or [(0.0, 0.0)], START, rng)
        starts.append(start(known(record["times"])) * np.exp(error))
    return np.array(starts).reshape(len(records), DRAWS)


def drawn_alone(observed: Sequence[Observation]) -> Array:
    """Draws of costs measured one after the other, in seconds, of shape (cells, draws)."""
    rng = np.random.default_rng(0)
    return np.array([np.exp(each[0] + _error([each], SESSION, rng)) for each in observed]).reshape(len(observed), DRAWS)


def chances(draws: Array) -> list[float]:
    """For each cell, the share of draws in which it costs least."""
    return [float(share) for share in np.bincount(draws.argmin(axis=0), minlength=len(draws)) / draws.shape[1]]


def drawn_ratio(value: float, draws: Array, first: Array) -> Ratio:
    """A ratio with the 95 % interval of its draws."""
    low, high = np.quantile(draws / first, [(1 - SURE) / 2, (1 + SURE) / 2])
    return Ratio(value, float(low), float(high), False)


def start(times: Opening) -> float:
    """Seconds from process start to the end of the first call, with no compiled kernels on disk."""
    first = times["first_s"] if times.get("anew_s") is None else times["anew_s"]
    return (times.get("load_s") or 0.0) + (times.get("compile_s") or 0.0) + (first or 0.0)


def percentile_of(samples: Sequence[float], percent: float) -> tuple[float, float | None]:
    """A percentile of samples, and its upper bound with 95 % certainty; None if there are too few samples for one.

    By order statistics: the number of samples below the percentile has a binomial distribution (David and Nagaraja,
    Order Statistics, 2003, 7.1). This assumes independent samples; neighbouring ones depend on each other a little.
    """
    ordered, share, count = np.sort(np.asarray(samples, dtype=np.float64)), percent / 100, len(samples)
    value = float(ordered[min(int(count * share), count - 1)])
    steps = np.arange(count, dtype=np.float64)
    rises = np.log((count - steps) / (steps + 1)) + math.log(share / (1 - share))
    below = np.cumsum(np.exp(np.concatenate([[0.0], np.cumsum(rises)]) + count * math.log1p(-share)))
    place = int(np.searchsorted(below, SURE - 1e-9))  # at most this number of samples are below it
    return value, float(ordered[place]) if place < count else None


def samples_needed(percent: float) -> int:
    """How many samples an upper bound of a percentile needs: the largest is above it with 95 % certainty."""
    return math.ceil(math.log(1 - SURE) / math.log(percent / 100))


def percentile_observed(samples: Sequence[float], percent: float) -> Observation:
    """The logarithm of a percentile, and its variance from its upper bound."""
    value, most = percentile_of(samples, percent)
    width = math.log(most / value) / 1.645 if most and value > 0 else 0.0
    return math.log(max(value, 1e-12)), width**2


def rate_observed(rate: float, searched: bool) -> Observation:
    """The logarithm of the seconds per item at a rate; a searched rate is known only to a share of it."""
    return -math.log(rate), (math.log1p(WIDTH) ** 2 / 12 if searched else 0.0)


def _error(observed: Sequence[Observation], prior: float, rng: np.random.Generator) -> Array:
    estimate = moderated([observed], prior)
    return np.asarray(estimate.error * rng.standard_t(estimate.freedom, DRAWS))


def _has_samples(record: Record) -> bool:
    return any(block["samples"] for block in known(record["times"]).get("blocks") or ())


def _session(record: Record) -> tuple[Any, ...] | None:
    """The key shared by cells whose rounds ran side by side."""
    return None if record.get("session") is None else (record["session"], *Case(**record["case"]).group)


def _sessions(records: Sequence[Record]) -> Iterable[list[int]]:
    """The indices of cells whose rounds may have run side by side, two or more of a session."""
    sessions: dict[tuple[Any, ...], list[int]] = {}
    for place, record in enumerate(records):
        session = _session(record)
        if session is not None and _has_samples(record):
            sessions.setdefault(session, []).append(place)
    return [members for members in sessions.values() if len(members) > 1]
