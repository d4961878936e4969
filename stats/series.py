"""Tests on a series of times: from where it is steady, whether it drifts, whether neighbours are correlated. Pure
functions; NumPy only.

Times have outliers (another process had the CPU for a while), so change points and trends are computed on the ranks
of the times, and levels are medians.
"""

import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

NEAR = 0.02  # levels that differ by less are one level
WINDOW = 5  # samples that make a level; fewer are an outlier
POINTS = 100  # for the search of change points; longer series are reduced to that number of medians
PENALTY = 3.0  # per change point, times the noise and the logarithm of the number of points
MIN_TREND = 6  # blocks; fewer show neither a drift nor a resemblance
SURE = 0.01  # the rate of false alarms on a series without drift


def steady_from(samples: Sequence[float]) -> int | None:
    """Return the index from which the series is steady up to its end, or None while it is not steady yet.

    The end of warm-up is a change point (Barrett et al., Virtual Machine Warmup Blows Hot and Cold, OOPSLA 2017, doi
    10.1145/3133876): the series is cut where its level changes, and its last piece is steady together with the pieces
    before it whose level is within 2 %. It must be half of the series, because a slow decay looks steady in a short
    window; the last two quarters must agree within 2 % as well. Noise that would hide a change of 5 % requires more
    samples first, up to twelve windows. A level above an earlier one counts: a processor that has left its turbo clock
    does not come back.
    """
    count = len(samples)
    if count < 2 * WINDOW:
        return None
    series, quarter = np.asarray(samples, dtype=np.float64), max(WINDOW, count // 4)
    level, before = float(np.median(series[-quarter:])), float(np.median(series[-2 * quarter : -quarter]))
    error = _noise(series[-2 * quarter :]) * math.sqrt(math.pi / quarter)  # of a difference of two such medians
    if error > 0.05 * level and count < 12 * WINDOW:
        return None
    if abs(level - before) > NEAR * level:
        return None
    begin = _last_level(series)
    return begin if 2 * begin <= count else None


def drift(values: Sequence[float]) -> float | None:
    """Return the relative rise of a series from its begin to its end, 0.05 for +5 %, or None if it could be chance.

    The test is Mann's and Kendall's on the signs of all differences, at 1 %; the slope is Theil's and Sen's, the median
    of all slopes (Kendall, Rank Correlation Methods, 1975; Sen, 1968, doi 10.1080/01621459.1968.10480934).
    """
    series = np.asarray(values, dtype=np.float64)
    count = len(series)
    if count < MIN_TREND or float(np.median(series)) <= 0:
        return None
    first, second = np.triu_indices(count, 1)
    rises = series[second] - series[first]
    score = float(np.sign(rises).sum())
    sigma = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    if abs(score) - 1 <= sigma * NormalDist().inv_cdf(1 - SURE / 2):
        return None
    slope = float(np.median(rises / (second - first)))
    return slope * (count - 1) / float(np.median(series))


def resemblance(values: Sequence[float]) -> float:
    """Return the correlation of neighbours, from -1 to 1, or 0.0 if it could be chance or is not positive.

    It is computed from the ranks: the sum of their squared steps over that of a random order (Bartels, 1982, doi
    10.1080/01621459.1982.10477764), at 1 %, one-sided. Correlated blocks hold less information than the same number of
    independent ones.
    """
    count = len(values)
    if count < MIN_TREND:
        return 0.0
    ranks = _ranks(np.asarray(values, dtype=np.float64))
    spread = float(np.square(ranks - ranks.mean()).sum())
    if spread == 0:
        return 0.0
    ratio = float(np.square(np.diff(ranks)).sum()) / spread
    variance = 4 * (count - 2) * (5 * count**2 - 2 * count - 9) / (5 * count * (count + 1) * (count - 1) ** 2)
    sure = (2 - ratio) / math.sqrt(variance) > NormalDist().inv_cdf(1 - SURE)
    return min(max(1 - ratio / 2, 0.0), 0.95) if sure else 0.0


def change_points(values: Sequence[float] | Array) -> list[int]:
    """Return the bounds of a series' pieces of one level each: 0, the begin of every further piece, the length.

    Optimal partitioning of the ranks' normal scores (Jackson et al., 2005, doi 10.1109/LSP.2001.838216) with a penalty
    of three times the noise of neighbours (von Neumann's estimate) times the logarithm of the length.
    """
    series = np.asarray(values, dtype=np.float64)
    count = len(series)
    normal = NormalDist()
    scores = np.array([normal.inv_cdf(rank / (count + 1)) for rank in _ranks(series)])
    noise = max(float(np.square(np.diff(scores)).mean()) / 2, 0.01) if count > 1 else 1.0
    penalty = PENALTY * noise * math.log(max(count, 2))
    sums, squares = _running(scores), _running(np.square(scores))
    best, cut = np.zeros(count + 1), np.zeros(count + 1, dtype=np.intp)
    best[0] = -penalty
    for end in range(1, count + 1):
        lengths = end - np.arange(end)
        costs = best[:end] + squares[end] - squares[:end] - np.square(sums[end] - sums[:end]) / lengths + penalty
        cut[end] = int(np.argmin(costs))
        best[end] = costs[cut[end]]
    cuts = [count]
    while cuts[-1]:
        cuts.append(int(cut[cuts[-1]]))
    return cuts[::-1]


def _last_level(series: Array) -> int:
    """Return the index from which the series has the level of its end. Short pieces between are outliers."""
    size = -(-len(series) // POINTS)
    offset = len(series) % size
    points = np.median(series[offset:].reshape(-1, size), axis=1)
    cuts = change_points(points)
    last = len(cuts) - 2
    while last and (len(points) - cuts[last]) * size < WINDOW:
        last -= 1
    level, begin = float(np.median(points[cuts[last] :])), cuts[last]
    for start, end in reversed([*itertools.pairwise(cuts[: last + 1])]):
        if abs(float(np.median(points[start:end])) - level) <= NEAR * level:
            begin = start
        elif (end - start) * size >= WINDOW or not start:
            break
    return begin * size + offset if begin else 0


def _noise(series: Array) -> float:
    """Return the standard deviation of a series from its steps, to which a trend adds little, unlike to the spread."""
    steps = np.diff(series)
    return 1.4826 / math.sqrt(2) * float(np.median(np.abs(steps - np.median(steps))))


def _ranks(series: Array) -> Array:
    """Return ranks from 1 on; equal values share the mean of theirs."""
    _, place, counts = np.unique(series, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _running(values: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(values)])
