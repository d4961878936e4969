"""Is one classifier worse than another on the same samples? Pure functions; NumPy only.

Both classifiers saw every sample, so only samples on which they differ tell anything: intervals are formed from the
differences per sample, not from two separate metrics. tools/quality/paired_coverage.py simulates how often they
contain the true difference (its .txt).
"""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xbench.stats.statistics import Array

Hits = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]

RESAMPLES = 2000
MOST_MISSING = 0.1  # of the resamples; what is left would be those in which a rare class happens to be frequent
_STEPS = 60  # of a bisection, which leaves less than the rounding of a double


class Difference(NamedTuple):
    """The metric of the candidate minus that of the reference, with a two-sided interval, in the unit of the metric.

    Negative means that the candidate is worse. For a metric of which less is better, give the functions below its
    negative.
    """

    value: float
    low: float
    high: float


def of_hits(candidate: Hits, reference: Hits, confidence: float = 0.95) -> Difference:
    """Return the difference of two shares of hits, from -1 to 1; both arrays are [samples], True for a hit.

    Tango's score interval (1998, doi 10.1002/(SICI)1097-0258(19980430)17:8<891::AID-SIM780>3.0.CO;2-B). It has a width
    even if the classifiers agree on every sample: z^2 / (n + z^2) to either side. ValueError if there is no sample or
    the lengths differ.
    """
    count = _common_length(candidate, reference)
    gained, lost = (int(np.count_nonzero(a & ~b)) for a, b in ((candidate, reference), (reference, candidate)))
    z = _quantile(confidence)
    low, high = -_upper_end(lost, gained, count, z), _upper_end(gained, lost, count, z)
    return Difference((gained - lost) / count, low, high)


def mcnemar(gained: int, lost: int) -> float:
    """Return the exact two-sided p value that gains and losses are equally likely (McNemar, 1947, doi
    10.1007/BF02295996).

    `gained` samples were right with the candidate alone, `lost` with the reference alone.
    """
    total, fewer = gained + lost, min(gained, lost)
    if 2 * fewer == total:
        return 1.0
    first = math.lgamma(total + 1) - math.lgamma(fewer + 1) - math.lgamma(total - fewer + 1) - total * math.log(2)
    term = tail = 1.0  # in units of the first term: each on its own can be too small for a double
    for number in range(fewer, 0, -1):
        term *= number / (total - number + 1)
        tail += term
    return min(2 * math.exp(first + math.log(tail)), 1.0)


def of_means(candidate_scores: Array, reference_scores: Array, confidence: float = 0.95) -> Difference:
    """Return the difference of two metrics that are the mean of one number per sample; both arrays are [samples].

    The normal interval, with one squared difference added to their sum. Without it the interval is too narrow if few
    samples differ; for scores of 0 and 1 it is the adjustment of Agresti and Min (2005, doi 10.1002/sim.1781). Its size
    is the mean square weighted by the squares, so that one large difference among small ones counts as well. It
    needs no resampling.

    If no score differs the interval has no width, as nothing shows how large a difference would be; `of_hits` is not
    so. Hits are left to `of_hits`. ValueError if there is no sample, the lengths differ, or a score is not finite.
    """
    count = _common_length(candidate_scores, reference_scores)
    change = np.asarray(candidate_scores, dtype=np.float64) - np.asarray(reference_scores, dtype=np.float64)
    if not np.isfinite(change).all():
        raise ValueError("a score is not finite")
    value, squares = float(change.mean()), np.square(change)
    total = float(squares.sum())
    added = float(np.square(squares).sum()) / total if total else 0.0
    half = _quantile(confidence) * math.sqrt(float(np.square(change - value).sum()) + added) / count
    return Difference(value, value - half, value + half)


def resampled(
    count: int,
    statistic: Callable[[Indices], float],
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Difference:
    """Return the difference of two metrics by the paired bootstrap over `count` samples, for any metric.

    `statistic` returns the metric of the candidate minus that of the reference on chosen samples, [samples] of indices
    with repetitions. The ends are percentiles (Efron and Tibshirani, 1993, doi 10.1201/9780429246593). BCa (Efron,
    1987, doi 10.1080/01621459.1987.10478410) is not used: its two corrections are noise if few samples differ, and it
    covers less often there; with many samples that differ both are the same.

    Resamples of which the statistic is NaN, as a class does not occur, are left out. If the classifiers agree on every
    sample the interval has no width. ValueError if more than a tenth is left out, or the value itself is NaN.
    """
    if count < 1:
        raise ValueError("no samples")
    value = float(statistic(np.arange(count, dtype=np.intp)))
    if math.isnan(value):
        raise ValueError("the metric of all samples is NaN")
    drawn = np.array([statistic(rng.integers(count, size=count, dtype=np.intp)) for _ in range(resamples)])
    kept = drawn[~np.isnan(drawn)]
    if len(kept) < (1 - MOST_MISSING) * resamples:
        missing = resamples - len(kept)
        raise ValueError(f"the metric is NaN in {missing} of {resamples} resamples: a class has too few samples")
    low, high = np.quantile(kept, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Difference(value, min(float(low), value), max(float(high), value))


def judged(difference: Difference, max_drop: float) -> str:
    """Return "no worse" if the interval excludes a drop of more than `max_drop`, which has the unit of the metric.

    Else "worse" if it excludes that the two are equal, else "unclear". This is a test of non-inferiority (Piaggio et
    al., 2012, doi 10.1001/jama.2012.87802): a drop that is certain but below `max_drop` is "no worse".
    """
    if difference.low >= -max_drop:
        return "no worse"
    return "worse" if difference.high < 0 else "unclear"


def samples_needed(difference: Difference, count: int, max_drop: float, confidence: float = 0.95) -> int | None:
    """Return about how many samples would show "no worse" if the difference and its spread stayed as they are.

    `count` is how many samples gave the difference. The distance of its lower end shrinks with the square root of the
    number; that of hits which never differ as z^2 / (n + z^2). If few hits differ, fewer samples do, down to a half if
    all of them are losses. None if no number would do: the drop is `max_drop` or more.
    """
    room, distance = difference.value + max_drop, difference.value - difference.low
    if room <= 0:
        return None
    square = _quantile(confidence) ** 2
    if difference.value == 0 and math.isclose(distance, square / (count + square), rel_tol=1e-9):
        return max(math.ceil(square * (1 - max_drop) / max_drop), 1)
    return max(math.ceil(count * (distance / room) ** 2), 1)


def _common_length(candidate: npt.NDArray[np.generic], reference: npt.NDArray[np.generic]) -> int:
    if len(candidate) != len(reference):
        raise ValueError(f"{len(candidate)} samples of the candidate, {len(reference)} of the reference")
    if not len(candidate):
        raise ValueError("no samples")
    return len(candidate)


def _quantile(confidence: float) -> float:
    """Return how many standard errors an interval reaches to either side."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _upper_end(gained: int, lost: int, count: int, z: float) -> float:
    """Return the difference that is z standard errors above the observed one; the lower end mirrors it."""
    if gained == count:
        return 1.0
    low, high = (gained - lost) / count, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _score(middle, gained, lost, count) > -z:
            low = middle
        else:
            high = middle
    return high


def _score(shift: float, gained: int, lost: int, count: int) -> float:
    """Return by how many standard errors the observed difference is above `shift`, which is between -1 and 1.

    The standard error is that of the most likely shares of gains and losses whose difference is `shift`. `losing` is
    that share of losses, the larger root of 2 n q^2 + linear q - lost shift (1 - shift) = 0.
    """
    linear = (2 * count - gained + lost) * shift - gained - lost
    root = math.sqrt(max(linear**2 + 8 * count * lost * shift * (1 - shift), 0.0))
    losing = (root - linear) / (4 * count)
    return (gained - lost - count * shift) / math.sqrt(count * (2 * losing + shift * (1 - shift)))
