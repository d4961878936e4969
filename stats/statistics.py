"""Medians and their intervals. Pure functions; NumPy only.

Samples of one block resemble each other more than samples of different blocks (clock, temperature, neighbours), so a
sample is not an independent observation but a block is. All resampling is therefore done over blocks, and every block
has the same weight whatever its number of samples.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xbench.stats.series import resemblance

Array = npt.NDArray[np.float64]

MIN_BLOCKS = 3
RESAMPLES = 1000
_GRID = 2048
Z = 1.959964
# 97.5 % quantiles of Student's t for 1 to 9 degrees of freedom; from 10 on the expansion in `_t` is exact to 0.1 %.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


class Interval(NamedTuple):
    """A median and its 95 % interval, in the unit of the samples; the ends are None if they are unknown."""

    median: float
    low: float | None
    high: float | None


def median_interval(blocks: Iterable[Sequence[float]], rng: np.random.Generator) -> Interval:
    """Return the median of all samples and its 95 % interval by bootstrap over blocks.

    A sample weighs one over the number of samples of its block. Fewer than three blocks cannot show how much blocks
    differ: they give the range of the samples, and (None, None) if even that has no width, as for a single sample. If
    neighbouring blocks are correlated the interval is stretched, as they hold less information than independent ones.
    """
    arrays = [np.asarray(block, dtype=np.float64) for block in blocks if len(block)]
    if not arrays:
        raise ValueError("no samples")
    median = median_of(arrays)
    if len(arrays) < MIN_BLOCKS:
        low, high = min(float(a.min()) for a in arrays), max(float(a.max()) for a in arrays)
        return Interval(median, low, high) if low < high else Interval(median, None, None)
    low, high = np.quantile(resampled_medians(arrays, rng), [0.025, 0.975])
    stretch = stretched([float(np.median(array)) for array in arrays])
    low, high = median - stretch * max(median - float(low), 0.0), median + stretch * max(float(high) - median, 0.0)
    return Interval(median, max(low, 0.0), high)


def relative_half_width(interval: Interval) -> float:
    """Return half the width of the interval over its median, 0.02 for +-2 %; infinity if the width is unknown."""
    if interval.low is None or interval.high is None or interval.median <= 0:
        return math.inf
    return (interval.high - interval.low) / 2 / interval.median


def median_of(arrays: list[Array]) -> float:
    """Return the median of the pooled samples, each block with the same weight."""
    pooled = np.concatenate(arrays)
    if len({len(array) for array in arrays}) == 1:
        return float(np.median(pooled))
    order = np.argsort(pooled)
    reached = np.cumsum(np.concatenate([np.full(len(a), 1 / len(a)) for a in arrays])[order])
    half = len(arrays) / 2
    ends = np.searchsorted(reached, [half - 1e-9, half + 1e-9]).clip(max=len(pooled) - 1)
    return float(pooled[order][ends].mean())


def resampled_medians(arrays: list[Array], rng: np.random.Generator) -> Array:
    """Return the medians of `RESAMPLES` draws of the same number of blocks with replacement."""
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

    Forming the full distribution of every draw instead costs ten times as much.
    """
    low = np.zeros(len(counts), dtype=np.intp)
    high = np.full(len(counts), len(shares) - 1, dtype=np.intp)
    while (low < high).any():
        middle = (low + high) // 2
        reached = np.einsum("rb,rb->r", counts, shares[middle]) > level
        high = np.where(reached, middle, high)
        low = np.where(reached, low, np.minimum(middle + 1, high))
    return low


def stretched(values: Sequence[float]) -> float:
    """Return by how much the bootstrap's interval of a series of blocks is to be stretched.

    Its variance is short by (n - 1) / n, its quantiles are the normal's instead of Student's, and n blocks whose
    neighbours correlate by r count for n (1 - r) / (1 + r).
    """
    number, alike = len(values), resemblance(values)
    return students_t(number - 1) / Z * math.sqrt(number / (number - 1) * (1 + alike) / (1 - alike))


def students_t(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    first = (Z**3 + Z) / 4
    second = (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    return Z + first / freedom + second / freedom**2


def students_share(t: float, freedom: int) -> float:
    """Return the share of Student's distribution below t, for a whole number of degrees of freedom.

    The finite series of Abramowitz and Stegun (1964), 26.7.3 and 26.7.4.
    """
    angle = math.atan2(t, math.sqrt(freedom))
    odd, square = freedom % 2, math.cos(angle) ** 2
    term, total = 1.0, 0.0
    for number in range(1, freedom // 2 + 1):
        total += term
        term *= square * (2 * number - 1 + odd) / (2 * number + odd)
    within = math.sin(angle) * total * (math.cos(angle) if odd else 1.0)
    return (1 + (2 / math.pi * (angle + within) if odd else within)) / 2
