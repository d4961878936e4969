"""The intervals have the coverage that they promise."""

import math
import time

import numpy as np
import pytest

from xbench.stats.statistics import (
    Interval,
    median_interval,
    relative_half_width,
    students_share,
    students_t,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def draw(generator: np.random.Generator, number: int, size: int = 20, between: float = 0.05) -> list[np.ndarray]:
    """Blocks of lognormal samples around 1 s; the blocks differ by `between`, the samples of one by 5 %."""
    return [math.exp(generator.normal(0, between)) * generator.lognormal(0, 0.05, size) for _ in range(number)]


@pytest.mark.parametrize("number", [3, 6, 10, 30])
@pytest.mark.parametrize("size", [1, 20])
def test_the_interval_covers_the_true_median(number, size):
    generator = rng(number)
    intervals = [median_interval(draw(generator, number, size), generator) for _ in range(400)]
    covered = np.mean([interval.low <= 1 <= interval.high for interval in intervals])
    assert 0.90 <= covered <= 0.99


def test_more_blocks_give_a_narrower_interval():
    widths = [relative_half_width(median_interval(draw(rng(1), number), rng(2))) for number in (3, 10, 100)]
    assert widths[0] > widths[1] > widths[2] > 0


def test_samples_of_one_block_are_not_independent():
    """Forty times the samples in different blocks must not narrow the interval like forty times the blocks."""
    few = relative_half_width(median_interval(draw(rng(3), 10, 5), rng(2)))
    many = relative_half_width(median_interval(draw(rng(3), 10, 200), rng(2)))
    assert many > few / 3


def test_times_twice_as_long_give_twice_the_interval():
    blocks = draw(rng(4), 12)
    once, twice = median_interval(blocks, rng(5)), median_interval([2 * block for block in blocks], rng(5))
    assert twice == pytest.approx(tuple(2 * value for value in once), rel=1e-12)


def test_the_median_is_exact_and_every_block_counts_alike():
    assert median_interval([[1.0, 2.0], [3.0, 4.0]], rng()).median == 2.5
    assert median_interval([[5.0], [1.0], [3.0]], rng()).median == 3.0
    assert median_interval([[1.0] * 1000, [2.0], [2.0]], rng()).median == 2.0
    assert median_interval([[1.0] * 10, [3.0]], rng()).median == 2.0


def test_the_resampled_median_is_the_median_of_the_pooled_draw():
    """Against the direct computation, draw by draw, without blocks of unequal length (NumPy has no weighted median)."""
    blocks = draw(rng(6), 7, 8)
    interval = median_interval(blocks, rng(7))
    drawn = rng(7).integers(7, size=(1000, 7))
    plain = [np.median(np.concatenate([blocks[place] for place in line])) for line in drawn]
    stretch = students_t(6) / 1.959964 * math.sqrt(7 / 6)
    low, high = np.quantile(plain, [0.025, 0.975])
    assert interval.low == pytest.approx(interval.median - stretch * (interval.median - low), rel=1e-9)
    assert interval.high == pytest.approx(interval.median + stretch * (high - interval.median), rel=1e-9)


def test_fewer_than_three_blocks_give_the_range_and_never_a_false_zero():
    assert median_interval([[1.0, 2.0, 4.0]], rng()) == Interval(2.0, 1.0, 4.0)
    assert median_interval([[1.0], [3.0], []], rng()) == Interval(2.0, 1.0, 3.0)
    for unknown in ([[2.0]], [[2.0], [2.0]]):
        interval = median_interval(unknown, rng())
        assert interval == Interval(2.0, None, None)
        assert relative_half_width(interval) == math.inf
    with pytest.raises(ValueError, match="no samples"):
        median_interval([[], []], rng())


def test_the_relative_half_width_is_the_per_cent_that_is_shown():
    assert relative_half_width(Interval(10.0, 9.8, 10.2)) == pytest.approx(0.02)


def test_a_call_stays_under_10_milliseconds():
    blocks = draw(rng(9), 60, 50)
    spent = []
    for _ in range(20):
        start = time.perf_counter()
        median_interval(blocks, rng(0))
        spent.append(time.perf_counter() - start)
    assert min(spent) < 0.010


def test_many_samples_cost_little_and_the_grid_loses_nothing():
    blocks = draw(rng(10), 20, 20_000)
    start = time.perf_counter()
    interval = median_interval(blocks, rng(0))
    assert time.perf_counter() - start < 1
    thin = median_interval([block[:100] for block in blocks], rng(0))
    assert relative_half_width(interval) == pytest.approx(relative_half_width(thin), rel=0.25)


@pytest.mark.parametrize(("freedom", "expected"), [(2, 4.303), (9, 2.262), (10, 2.228), (15, 2.131), (1000, 1.962)])
def test_studentsstudents_t(freedom, expected):
    assert students_t(freedom) == pytest.approx(expected, rel=2e-3)


def test_blocks_that_resemble_their_neighbours_say_less():
    """A slow wave through 40 blocks, and the same blocks in another order."""
    wave = [[1 + 0.05 * math.sin(number / 5)] for number in range(40)]
    mixed = [wave[place] for place in rng(3).permutation(40)]
    assert relative_half_width(median_interval(wave, rng(2))) > 2 * relative_half_width(median_interval(mixed, rng(2)))


@pytest.mark.parametrize("freedom", [1, 2, 3, 6, 7, 12, 29, 30])
def test_the_share_below_a_quantile(freedom):
    assert students_share(students_t(freedom), freedom) == pytest.approx(0.975, abs=2e-4)
    assert students_share(0.0, freedom) == pytest.approx(0.5)
    assert students_share(-1.3, freedom) == pytest.approx(1 - students_share(1.3, freedom))
