"""Warm-up ends when the series is steady; drifts and correlated blocks are reported, chance is not."""

import numpy as np
import pytest

from xbench.stats.series import change_points, drift, resemblance, steady_from


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def first_steady(series: np.ndarray) -> tuple[int, int | None]:
    """Feed the series sample by sample; return the number of samples used, and the answer."""
    for count in range(1, len(series) + 1):
        start = steady_from(series[:count])
        if start is not None:
            return count, start
    return len(series), None


def test_a_constant_series_is_steady_as_soon_as_it_can_be_told():
    assert first_steady(np.full(50, 3.0)) == (10, 0)
    assert steady_from([3.0] * 9) is None


def test_a_long_first_call_is_warm_up():
    assert first_steady(np.array([500.0] + [1.0] * 30)) == (10, 1)


def test_a_step_after_five_samples_is_seen():
    for level in (0.1, 2.0):
        count, start = first_steady(np.array([1.0] * 5 + [level] * 40))
        assert start == 5 and 12 <= count <= 15


@pytest.mark.parametrize("scale", [3, 10, 30, 100])
def test_a_slow_decay_ends_when_little_is_left(scale):
    series = 1 + np.exp(-np.arange(20 * scale) / scale)
    count, start = first_steady(series)
    assert start is not None and series[count - 1] < 1.015
    assert 0 < start < count and series[start] < 1.06


def test_a_series_that_keeps_growing_is_never_steady():
    assert first_steady(1.05 ** np.arange(200))[1] is None


@pytest.mark.parametrize(("noise", "most"), [(0.02, 15), (0.1, 70), (0.3, 120)])
def test_noise_does_not_keep_a_steady_series_from_ending(noise, most):
    counts = [first_steady(1 + noise * rng(seed).standard_normal(200))[0] for seed in range(100)]
    assert np.quantile(counts, 0.9) <= most


@pytest.mark.parametrize(("noise", "scale"), [(0.02, 3), (0.02, 10), (0.1, 3), (0.1, 10)])
def test_noise_does_not_hide_a_warm_up(noise, scale):
    left = []
    for seed in range(100):
        decay = 2 * np.exp(-np.arange(300) / scale)
        count, start = first_steady((1 + decay) * (1 + noise * rng(seed).standard_normal(300)))
        assert start is not None
        left.append(decay[count - 1])
    assert np.median(left) < 0.02 and np.quantile(left, 0.9) < 0.1


def test_outliers_neither_end_nor_begin_anything():
    """Another process had the CPU in every tenth step."""
    counts = []
    for seed in range(100):
        series = 1 + 0.01 * rng(seed).standard_normal(200)
        series[rng(seed + 1000).random(200) < 0.1] *= 1.5
        counts.append(first_steady(series)[0])
    assert np.quantile(counts, 0.9) <= 20


def test_change_points_are_where_the_level_changes():
    levels = np.repeat([3.0, 1.0, 2.0], [20, 30, 50]) * rng(1).lognormal(0, 0.02, 100)
    assert change_points(levels) == [0, 20, 50, 100]
    assert change_points([1.0]) == [0, 1]
    wrong = sum(len(change_points(rng(seed).standard_normal(60))) > 2 for seed in range(200))
    assert wrong <= 10  # of series without any


def walk(seed: int, count: int, alike: float) -> list[float]:
    """Values around 1 of which neighbours correlate by `alike`."""
    generator = rng(seed)
    values = [generator.standard_normal()]
    for _ in range(count - 1):
        values.append(alike * values[-1] + (1 - alike**2) ** 0.5 * generator.standard_normal())
    return [1 + 0.02 * value for value in values]


@pytest.mark.parametrize("count", [6, 15, 40])
def test_chance_is_called_a_drift_or_a_resemblance_once_in_a_hundred_series(count):
    series = [walk(seed, count, 0.0) for seed in range(1000)]
    assert sum(drift(each) is not None for each in series) <= 20
    assert sum(resemblance(each) > 0 for each in series) <= 20


def test_a_drift_is_found_and_told_as_a_share():
    drifts = [drift((1 + 0.2 * np.arange(15) / 14) * rng(seed).lognormal(0, 0.02, 15)) for seed in range(100)]
    assert sum(each is None for each in drifts) == 0
    assert np.median([each for each in drifts if each]) == pytest.approx(0.2 / 1.1, rel=0.1)
    assert (drift(np.linspace(2, 1, 10)) or 0) < -0.5
    assert drift([1.0, 2.0, 3.0]) is None and drift([0.0] * 9) is None


def test_neighbours_that_resemble_each_other_are_found():
    resemblances = [resemblance(walk(seed, 40, 0.8)) for seed in range(100)]
    assert sum(each > 0 for each in resemblances) >= 90
    assert 0.5 < np.median(resemblances) < 0.95
    assert resemblance([1.0] * 20) == 0.0 and resemblance([1.0, 2.0]) == 0.0
    assert resemblance([1.0, 2.0] * 10) == 0.0, "what alternates says more, not less"
