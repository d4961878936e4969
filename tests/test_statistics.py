"""The intervals cover what they promise, ratios are free of drift, and warm-up ends when the series is flat."""

import math
import time

import numpy as np
import pytest

from xbench.bench.statistics import (
    Interval,
    _t,
    is_flat,
    median_interval,
    paired_ratio,
    relative_half_width,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def draw(generator: np.random.Generator, number: int, size: int = 20, between: float = 0.05) -> list[np.ndarray]:
    """Blocks of lognormal samples around 1 s; the blocks differ by `between`, the samples of one by 5 %."""
    return [math.exp(generator.normal(0, between)) * generator.lognormal(0, 0.05, size) for _ in range(number)]


def numbered(blocks: list) -> list[dict]:
    return [{"round": number, "samples": list(samples)} for number, samples in enumerate(blocks)]


@pytest.mark.parametrize("number", [3, 6, 10, 30])
@pytest.mark.parametrize("size", [1, 20])
def test_the_interval_covers_the_true_median(number, size):
    generator = rng(number)
    intervals = [median_interval(draw(generator, number, size), generator) for _ in range(400)]
    covered = np.mean([found.low <= 1 <= found.high for found in intervals])
    assert 0.90 <= covered <= 0.99


@pytest.mark.parametrize("number", [6, 30])
@pytest.mark.parametrize("same_session", [True, False])
def test_the_interval_of_the_ratio_covers_the_true_ratio(number, same_session):
    generator = rng(number)
    hits = []
    for _ in range(300):
        slow, fast = [1.3 * block for block in draw(generator, number)], draw(generator, number)
        found = paired_ratio(numbered(slow), numbered(fast), generator, same_session=same_session)
        assert found.paired is same_session
        hits.append(found.low <= 1.3 <= found.high)
    assert 0.90 <= np.mean(hits) <= 0.99


def test_more_blocks_give_a_narrower_interval():
    widths = [relative_half_width(median_interval(draw(rng(1), number), rng(2))) for number in (3, 10, 100)]
    assert widths[0] > widths[1] > widths[2] > 0


def test_samples_of_one_block_are_not_independent():
    """Forty times the samples in blocks that differ must not narrow the interval as forty times the blocks would."""
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
    """Against the plain way, draw by draw, with blocks of unequal length left out (NumPy has no weighted median)."""
    blocks = draw(rng(6), 7, 8)
    found = median_interval(blocks, rng(7))
    drawn = rng(7).integers(7, size=(1000, 7))
    plain = [np.median(np.concatenate([blocks[place] for place in line])) for line in drawn]
    stretch = _t(6) / 1.959964 * math.sqrt(7 / 6)
    low, high = np.quantile(plain, [0.025, 0.975])
    assert found.low == pytest.approx(found.median - stretch * (found.median - low), rel=1e-9)
    assert found.high == pytest.approx(found.median + stretch * (high - found.median), rel=1e-9)


def test_fewer_than_three_blocks_give_the_range_and_never_a_false_zero():
    assert median_interval([[1.0, 2.0, 4.0]], rng()) == Interval(2.0, 1.0, 4.0)
    assert median_interval([[1.0], [3.0], []], rng()) == Interval(2.0, 1.0, 3.0)
    for unknown in ([[2.0]], [[2.0], [2.0]]):
        found = median_interval(unknown, rng())
        assert found == Interval(2.0, None, None)
        assert relative_half_width(found) == math.inf
    with pytest.raises(ValueError, match="no samples"):
        median_interval([[], []], rng())


def test_the_relative_half_width_is_the_per_cent_that_is_shown():
    assert relative_half_width(Interval(10.0, 9.8, 10.2)) == pytest.approx(0.02)


def test_a_drift_of_20_per_cent_that_both_see_leaves_the_ratio_alone():
    generator = rng(8)
    drift = np.linspace(1, 1.2, 40)
    slow = [1.5 * factor * generator.lognormal(0, 0.01, 10) for factor in drift]
    fast = [factor * generator.lognormal(0, 0.01, 10) for factor in drift]
    found = paired_ratio(numbered(slow), numbered(fast), generator)
    assert found.paired and abs(found.value / 1.5 - 1) < 0.01
    assert found.low < 1.5 < found.high and found.high / found.low < 1.01
    apart = paired_ratio(numbered(slow), numbered(fast), generator, same_session=False)
    assert apart.high / apart.low > 1.05


def test_rounds_that_only_one_has_are_left_out_of_the_paired_ratio():
    a = [{"round": number, "samples": [2.0]} for number in (1, 3, 5, 7)]
    b = [{"round": number, "samples": [1.0]} for number in (1, 3, 5)] + [{"round": 2, "samples": [100.0] * 9}]
    assert paired_ratio(a, b, rng()) == pytest.approx((2.0, 2.0, 2.0, True))


def test_too_few_rounds_are_not_paired_and_too_few_blocks_have_no_interval():
    a, b = numbered([[2.0], [2.2]]), numbered([[1.0], [1.1]])
    assert paired_ratio(a, b, rng()) == pytest.approx((2.0, None, None, False))


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
    found = median_interval(blocks, rng(0))
    assert time.perf_counter() - start < 1
    thin = median_interval([block[:100] for block in blocks], rng(0))
    assert relative_half_width(found) == pytest.approx(relative_half_width(thin), rel=0.25)


@pytest.mark.parametrize(("freedom", "expected"), [(2, 4.303), (9, 2.262), (10, 2.228), (15, 2.131), (1000, 1.962)])
def test_students_t(freedom, expected):
    assert _t(freedom) == pytest.approx(expected, rel=2e-3)


def first_flat(series: np.ndarray) -> tuple[int, int | None]:
    """Feed the series sample by sample: how many it took, and the answer."""
    for count in range(1, len(series) + 1):
        start = is_flat(series[:count])
        if start is not None:
            return count, start
    return len(series), None


def test_a_flat_series_is_flat_as_soon_as_it_can_be_told():
    assert first_flat(np.full(50, 3.0)) == (10, 0)
    assert is_flat([3.0] * 9) is None


def test_a_long_first_call_is_warm_up():
    assert first_flat(np.array([500.0] + [1.0] * 30)) == (10, 1)


def test_a_step_after_five_samples_is_seen():
    for level in (0.1, 2.0):
        count, start = first_flat(np.array([1.0] * 5 + [level] * 40))
        assert start == 5 and 12 <= count <= 15


@pytest.mark.parametrize("scale", [3, 10, 30, 100])
def test_a_slow_decay_ends_when_little_is_left(scale):
    series = 1 + np.exp(-np.arange(20 * scale) / scale)
    count, start = first_flat(series)
    assert start is not None and series[count - 1] < 1.015
    assert 0 < start < count and series[start] < 1.06


def test_a_series_that_keeps_growing_is_never_flat():
    assert first_flat(1.05 ** np.arange(200))[1] is None


@pytest.mark.parametrize(("noise", "most"), [(0.02, 15), (0.1, 70), (0.3, 120)])
def test_noise_does_not_keep_a_flat_series_from_ending(noise, most):
    counts = [first_flat(1 + noise * rng(seed).standard_normal(200))[0] for seed in range(100)]
    assert np.quantile(counts, 0.9) <= most


@pytest.mark.parametrize(("noise", "scale"), [(0.02, 3), (0.02, 10), (0.1, 3), (0.1, 10)])
def test_noise_does_not_hide_a_warm_up(noise, scale):
    left = []
    for seed in range(100):
        decay = 2 * np.exp(-np.arange(300) / scale)
        count, start = first_flat((1 + decay) * (1 + noise * rng(seed).standard_normal(300)))
        assert start is not None
        left.append(decay[count - 1])
    assert np.median(left) < 0.02 and np.quantile(left, 0.9) < 0.1
