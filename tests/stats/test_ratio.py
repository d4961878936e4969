"""Ratios are free of drift, and their intervals include the variation between processes."""

import math

import numpy as np
import pytest

from xbench.stats.ratio import FREEDOM, PROCESS, SESSION, median_over_processes, moderated, paired_ratio
from xbench.stats.statistics import students_t


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def draw(generator: np.random.Generator, number: int, size: int = 20, between: float = 0.05) -> list[np.ndarray]:
    """Blocks of lognormal samples around 1 s; the blocks differ by `between`, the samples of one by 5 %."""
    return [math.exp(generator.normal(0, between)) * generator.lognormal(0, 0.05, size) for _ in range(number)]


def numbered(blocks: list) -> list[dict]:
    return [{"round": number, "samples": list(samples)} for number, samples in enumerate(blocks)]


def several(
    generator: np.random.Generator, processes: int, rounds: int, spread: float, level: float = 1.0
) -> list[dict]:
    """The blocks of several processes, which differ by `spread`; blocks of one differ by 1 %."""
    return [
        {"process": process, "round": process * rounds + number, "samples": list(here * samples)}
        for process in range(processes)
        for here in [level * math.exp(generator.normal(0, spread))]
        for number, samples in enumerate(draw(generator, rounds, 5, 0.01))
    ]


@pytest.mark.parametrize("processes", [1, 2, 5])
@pytest.mark.parametrize("same_session", [True, False])
def test_the_interval_of_the_ratio_covers_the_true_ratio(processes, same_session):
    """If processes differ as in the prior, at any number of them."""
    generator, spread = rng(processes), PROCESS if same_session else SESSION
    hits = []
    for _ in range(300):
        slow, fast = several(generator, processes, 6, spread, 1.3), several(generator, processes, 6, spread)
        ratio = paired_ratio(slow, fast, generator, same_session=same_session)
        assert ratio.paired is same_session
        hits.append(ratio.low <= 1.3 <= ratio.high)
    assert 0.92 <= np.mean(hits) <= 1


def test_processes_that_differ_more_than_was_known_widen_the_interval():
    """If processes differ by four times the prior, one per side calls every second pair different."""
    generator, wrong = rng(1), {1: 0, 8: 0}
    for processes in (1, 8):
        for _ in range(200):
            a, b = (several(generator, processes, 30, 4 * PROCESS) for _ in range(2))
            ratio = paired_ratio(a, b, generator)
            wrong[processes] += not ratio.low <= 1 <= ratio.high
    assert wrong[8] <= 32 < 80 < wrong[1]


def test_more_processes_give_a_narrower_interval_and_more_rounds_of_one_do_not():
    def width(processes: int, rounds: int) -> float:
        ratio = paired_ratio(several(rng(1), processes, rounds, 0), several(rng(2), processes, rounds, 0), rng())
        return math.log(ratio.high / ratio.low)

    assert width(4, 6) < width(1, 6) / 2
    least = 2 * students_t(FREEDOM) * math.sqrt(2) * PROCESS
    assert width(1, 2000) == pytest.approx(least, rel=0.05)


def test_the_moderated_variance_is_smyths():
    prior, sides = 0.02, [[(0.1, 0.0), (0.2, 0.0)], [(0.0, 0.0)]]
    estimate = moderated(sides, prior)
    variance = (FREEDOM * prior**2 + 0.005) / (FREEDOM + 1)
    assert estimate == pytest.approx((0.15, math.sqrt(variance * 1.5), FREEDOM + 1))


def test_what_the_rounds_show_is_known_better_than_what_processes_differ_by():
    """One weighs as the normal does, the other as Student's t; together they never weigh less than one of them."""

    def half(prior: float, noise: float) -> float:
        estimate = moderated([[(0.0, noise**2)], [(0.0, 0.0)]], prior)
        return students_t(estimate.freedom) * estimate.error

    assert half(0.01, 0.0) == pytest.approx(students_t(FREEDOM) * math.sqrt(2) * 0.01)
    assert half(0.0, 0.01) == pytest.approx(1.96 * 0.01, rel=1e-3)
    assert half(0.01, 0.01) == pytest.approx(math.hypot(half(0.01, 0.0), half(0.0, 0.01)))


def test_the_median_of_one_process_is_its_own_and_of_several_holds_how_they_differ():
    alone = median_over_processes(several(rng(1), 1, 100, 0), rng())
    assert alone.high / alone.low < math.exp(4 * PROCESS), "one process cannot show what others do"
    apart = median_over_processes(several(rng(2), 4, 8, 0.1), rng())
    assert apart.low < apart.median < apart.high and apart.high / apart.low > 1.1
    again = median_over_processes(several(rng(2), 4, 8, 0.1), rng())
    assert again == apart


def test_a_drift_of_20_per_cent_that_both_see_leaves_the_ratio_alone():
    generator = rng(8)
    drift = np.linspace(1, 1.2, 40)
    slow = [1.5 * factor * generator.lognormal(0, 0.01, 10) for factor in drift]
    fast = [factor * generator.lognormal(0, 0.01, 10) for factor in drift]
    ratio = paired_ratio(numbered(slow), numbered(fast), generator)
    assert ratio.paired and abs(ratio.value / 1.5 - 1) < 0.01
    assert ratio.low < 1.5 < ratio.high
    apart = paired_ratio(numbered(slow), numbered(fast), generator, same_session=False)
    assert apart.high / apart.low > ratio.high / ratio.low


def test_rounds_that_only_one_has_are_left_out_of_the_paired_ratio():
    a = [{"round": number, "samples": [2.0]} for number in (1, 3, 5, 7)]
    b = [{"round": number, "samples": [1.0]} for number in (1, 3, 5)] + [{"round": 2, "samples": [100.0] * 9}]
    ratio = paired_ratio(a, b, rng())
    assert ratio.value == pytest.approx(2.0) and ratio.paired
    assert math.log(ratio.high / 2) == pytest.approx(students_t(FREEDOM) * math.sqrt(2) * PROCESS)


def test_too_few_rounds_are_not_paired_and_too_few_blocks_have_no_interval():
    a, b = numbered([[2.0], [2.2]]), numbered([[1.0], [1.1]])
    assert paired_ratio(a, b, rng()) == pytest.approx((2.0, None, None, False))
