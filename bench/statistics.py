"""Medians, their intervals, paired ratios and the end of warm-up. Pure functions; NumPy only.

Samples of one block resemble each other more than samples of different blocks (clock, temperature, neighbours), so a
sample is not an independent observation but a block is. All resampling is therefore done over blocks, and every block
counts alike however many samples it holds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MIN_BLOCKS = 3
RESAMPLES = 1000
_GRID = 2048
_TICK = 1e-12  # seconds; shorter than any clock resolves, and it keeps logarithms finite
_Z = 1.959964
# 97.5 % quantiles of Student's t for 1 to 9 degrees of freedom; from 10 on the expansion in `_t` is exact to 0.1 %.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


class Interval(NamedTuple):
    """A median and its 95 % interval, in the unit of the samples; the ends are None where nothing is known of them."""

    median: float
    low: float | None
    high: float | None


class Ratio(NamedTuple):
    """How many times as long as b does a take, with a 95 % interval; `paired` when it was formed round by round."""

    value: float
    low: float | None
    high: float | None
    paired: bool


def median_interval(blocks: Iterable[Sequence[float]], rng: np.random.Generator) -> Interval:
    """Return the median of all samples and its 95 % interval by bootstrap over blocks.

    A sample weighs one over the number of samples of its block. Fewer than three blocks cannot show how much blocks
    differ: they give the range of the samples, and (None, None) where even that has no width, as a single sample.
    """
    arrays = [np.asarray(block, dtype=np.float64) for block in blocks if len(block)]
    if not arrays:
        raise ValueError("no samples")
    median = _median(arrays)
    if len(arrays) < MIN_BLOCKS:
        low, high = min(float(a.min()) for a in arrays), max(float(a.max()) for a in arrays)
        return Interval(median, low, high) if low < high else Interval(median, None, None)
    low, high = _widened(median, _resampled_medians(arrays, rng), len(arrays))
    return Interval(median, max(low, 0.0), high)


def relative_half_width(interval: Interval) -> float:
    """Return half the width of the interval over its median, 0.02 for +-2 %; infinity where the width is unknown."""
    if interval.low is None or interval.high is None or interval.median <= 0:
        return math.inf
    return (interval.high - interval.low) / 2 / interval.median


def paired_ratio(
    blocks_a: Iterable[Mapping[str, Any]],
    blocks_b: Iterable[Mapping[str, Any]],
    rng: np.random.Generator,
    *,
    same_session: bool = True,
) -> Ratio:
    """Return the time of a over the time of b; blocks are `{"round", "samples"}` as in docs/results.md.

    In one session blocks of the same round ran side by side: the ratio is the median of the rounds' ratios of block
    medians, so that what slows both down cancels. Other sessions, or fewer than three common rounds, give the ratio of
    the medians, with a wider interval.
    """
    a, b = _by_round(blocks_a), _by_round(blocks_b)
    common = sorted(a.keys() & b.keys()) if same_session else []
    if len(common) < MIN_BLOCKS:
        return _unpaired_ratio(list(a.values()), list(b.values()), rng)
    logs = np.array([_log(np.median(a[number])) - _log(np.median(b[number])) for number in common])
    value = float(np.median(logs))
    drawn = np.median(logs[rng.integers(len(logs), size=(RESAMPLES, len(logs)))], axis=1)
    low, high = _widened(value, drawn, len(logs))
    return Ratio(math.exp(value), math.exp(low), math.exp(high), True)


def is_flat(samples: Sequence[float], window: int = 5) -> int | None:
    """Return the index from which the series has been flat up to its end, or None while it is not flat yet.

    The last quarter (at least `window` samples) is compared with the quarter before it. The windows grow with the
    series because a slow decay looks flat through a short one: with growing windows it ends when about 1 % is left.
    They must agree within 2 %. Noise that would hide a change of 5 % asks for more samples first, up to twelve windows.
    A level above an earlier one counts as flat: a processor that has left its turbo clock does not come back.
    """
    size = max(window, len(samples) // 4)
    if len(samples) < 2 * size:
        return None
    series = np.asarray(samples, dtype=np.float64)
    before, last = series[-2 * size : -size], series[-size:]
    level = float(np.median(last))
    steps = np.diff(series[-2 * size :])  # the noise of neighbours: a trend adds little to it, unlike to the spread
    sigma = 1.4826 / math.sqrt(2) * float(np.median(np.abs(steps - np.median(steps))))
    error = sigma * math.sqrt(math.pi / size)  # of a difference of two medians of `size` samples each
    if error > 0.05 * level and len(series) < 12 * window:
        return None
    if abs(level - float(np.median(before))) > 0.02 * level:
        return None
    outside = np.flatnonzero(np.abs(series[:-size] - level) > max(0.05 * level, 5 * sigma))
    return int(outside[-1]) + 1 if len(outside) else 0


def _median(arrays: list[Array]) -> float:
    """Return the median of the pooled samples, each block counting alike."""
    pooled = np.concatenate(arrays)
    if len({len(array) for array in arrays}) == 1:
        return float(np.median(pooled))
    order = np.argsort(pooled)
    reached = np.cumsum(np.concatenate([np.full(len(a), 1 / len(a)) for a in arrays])[order])
    half = len(arrays) / 2
    ends = np.searchsorted(reached, [half - 1e-9, half + 1e-9]).clip(max=len(pooled) - 1)
    return float(pooled[order][ends].mean())


def _resampled_medians(arrays: list[Array], rng: np.random.Generator) -> Array:
    """Return the medians of `RESAMPLES` draws of as many blocks with replacement."""
    number = len(arrays)
    drawn = rng.integers(number, size=(RESAMPLES, number)) + number * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=RESAMPLES * number).reshape(RESAMPLES, number).astype(np.float64)
    grid, shares = _cumulative_shares(arrays)
    lower = _first_above(counts, shares, number / 2 - 1e-9)
    upper = _first_above(counts, shares, number / 2 + 1e-9)
    return (grid[lower] + grid[upper]) / 2


def _cumulative_shares(arrays: list[Array]) -> tuple[Array, Array]:
    """Return a grid of values and, for each value and block, the share of the block's samples not above it.

    The median of any draw lies between the smallest and the largest median of a block, so the grid holds only the
    samples between them, and no more than `_GRID`: memory stays small however many samples there are.
    """
    ordered = [np.sort(array) for array in arrays]
    pooled = np.concatenate(ordered)
    low, high = min(a[(len(a) - 1) // 2] for a in ordered), max(a[len(a) // 2] for a in ordered)
    grid = np.unique(pooled[(pooled >= low) & (pooled <= high)])
    if len(grid) > _GRID:
        grid = grid[np.linspace(0, len(grid) - 1, _GRID).round().astype(np.intp)]
    block = np.repeat(np.arange(len(arrays)), [len(a) for a in arrays])
    weight = np.concatenate([np.full(len(a), 1 / len(a)) for a in arrays])
    cell = np.searchsorted(grid, pooled) * len(arrays) + block
    shape = (len(grid) + 1, len(arrays))
    shares = np.bincount(cell, weights=weight, minlength=shape[0] * shape[1]).reshape(shape)[:-1]
    return grid, np.cumsum(shares, axis=0)


def _first_above(counts: Array, shares: Array, level: float) -> npt.NDArray[np.intp]:
    """Return for each draw the first grid index whose cumulative share exceeds the level, by bisection of all at once.

    Forming the whole distribution of every draw instead costs ten times as much.
    """
    low = np.zeros(len(counts), dtype=np.intp)
    high = np.full(len(counts), len(shares) - 1, dtype=np.intp)
    while (low < high).any():
        middle = (low + high) // 2
        reached = np.einsum("rb,rb->r", counts, shares[middle]) > level
        high = np.where(reached, middle, high)
        low = np.where(reached, low, np.minimum(middle + 1, high))
    return low


def _widened(value: float, drawn: Array, number: int) -> tuple[float, float]:
    """Return the 2.5 % and 97.5 % quantiles of the draws, their distance to the value stretched for few blocks.

    The bootstrap's variance is short by (n - 1) / n and its quantiles are the normal's where Student's are due.
    """
    stretch = _t(number - 1) / _Z * math.sqrt(number / (number - 1))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return value - stretch * max(value - float(low), 0.0), value + stretch * max(float(high) - value, 0.0)


def _t(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    return _Z + first / freedom + second / freedom**2


def _unpaired_ratio(a: list[Array], b: list[Array], rng: np.random.Generator) -> Ratio:
    """Return the ratio of the medians; its interval takes a and b as independent."""
    value = _log(_median(a)) - _log(_median(b))
    if min(len(a), len(b)) < MIN_BLOCKS:
        return Ratio(math.exp(value), None, None, False)
    drawn = np.log(np.maximum(_resampled_medians(a, rng), _TICK) / np.maximum(_resampled_medians(b, rng), _TICK))
    low, high = _widened(value, drawn, min(len(a), len(b)))
    return Ratio(math.exp(value), math.exp(low), math.exp(high), False)


def _by_round(blocks: Iterable[Mapping[str, Any]]) -> dict[int, Array]:
    """Return the samples of each round."""
    rounds: dict[int, list[float]] = {}
    for block in blocks:
        if len(block["samples"]):
            rounds.setdefault(block["round"], []).extend(block["samples"])
    if not rounds:
        raise ValueError("no samples")
    return {number: np.asarray(samples, dtype=np.float64) for number, samples in rounds.items()}


def _log(seconds: Any) -> float:
    """Return the logarithm of a time, finite for a time of zero."""
    return math.log(max(float(seconds), _TICK))
