"""Differences of two classifiers on the same samples: intervals, p values and verdicts."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import binomtest

from xbench.stats.paired import Difference, judged, mcnemar, of_hits, of_means, resampled, samples_needed

Z = NormalDist().inv_cdf(0.975)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def answers(gained: int, lost: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Hits of a candidate and a reference, in a random order."""
    candidate, reference = np.ones(count, dtype=bool), np.ones(count, dtype=bool)
    reference[:gained], candidate[count - lost :] = False, False
    order = rng().permutation(count)
    return candidate[order], reference[order]


def tango(shift: float, gained: int, lost: int, count: int) -> float:
    """The score statistic; the likeliest share of losses is found by a search here, not in closed form."""
    low, high, agreed = max(0.0, -shift), (1 - shift) / 2, count - gained - lost

    def slope(losing: float) -> float:
        """Of the logarithm of the likelihood."""
        return (
            (lost / losing if lost else 0.0)
            + (gained / (losing + shift) if gained else 0.0)
            - (2 * agreed / (1 - 2 * losing - shift) if agreed else 0.0)
        )

    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return (gained - lost - count * shift) / math.sqrt(count * (2 * low + shift - shift**2))


@pytest.mark.parametrize(
    "gained, lost, count, confidence, low, high",
    [
        (1, 7, 21, 0.95, -0.517, -0.026),  # Fagerland, Lydersen and Laake (2014, doi 10.1002/sim.6148), airways
        (6, 16, 161, 0.95, -0.1240, -0.0054),  # contingencytables in R, the data of Cavo et al. (2012)
        (28, 25, 618, 0.90, -0.0148, 0.0247),  # PropCIs::scoreci.mp in R
    ],
)
def test_published_intervals_of_tango(gained, lost, count, confidence, low, high):
    difference = of_hits(*answers(gained, lost, count), confidence)
    digits = 3 if count == 21 else 4
    assert difference.value == (gained - lost) / count
    assert (round(difference.low, digits), round(difference.high, digits)) == (low, high)


@pytest.mark.parametrize(
    "gained, lost, count",
    [(3, 5, 50), (5, 3, 50), (0, 4, 360), (4, 0, 360), (0, 0, 40), (7, 7, 14), (9, 1, 10), (120, 80, 50_000)],
)
def test_the_ends_of_hits_are_where_the_score_is_z(gained, lost, count):
    difference = of_hits(*answers(gained, lost, count))
    assert tango(difference.low, gained, lost, count) == pytest.approx(Z, rel=1e-6)
    assert tango(difference.high, gained, lost, count) == pytest.approx(-Z, rel=1e-6)


def test_every_small_table_has_an_interval_around_its_difference():
    for count in range(1, 13):
        for gained, lost in itertools.product(range(count + 1), repeat=2):
            if gained + lost <= count:
                value, low, high = of_hits(*answers(gained, lost, count))
                assert -1 <= low <= value <= high <= 1
                assert (low == value) == (lost == count) and (high == value) == (gained == count)


@pytest.mark.parametrize("count", [1, 360, 50_000])
def test_hits_that_never_differ_still_have_a_width(count):
    value, low, high = of_hits(*answers(0, 0, count))
    assert value == 0
    assert -low == high == pytest.approx(Z**2 / (count + Z**2))


def test_swapping_the_classifiers_swaps_the_interval():
    candidate, reference = answers(4, 9, 300)
    value, low, high = of_hits(candidate, reference)
    assert of_hits(reference, candidate) == (-value, -high, -low)


def test_more_confidence_is_a_wider_interval():
    hits = answers(4, 9, 300)
    scores = [each.astype(float) for each in hits]

    def statistic(indices):
        return float(np.mean(scores[0][indices] - scores[1][indices]))

    for interval in (
        lambda confidence: of_hits(*hits, confidence),
        lambda confidence: of_means(*scores, confidence),
        lambda confidence: resampled(300, statistic, rng(), confidence, 500),
    ):
        several = [interval(confidence) for confidence in (0.5, 0.8, 0.95, 0.99)]
        for narrow, wide in itertools.pairwise(several):
            assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


@pytest.mark.parametrize("interval", [of_hits, of_means])
def test_samples_that_cannot_be_paired_are_one_line(interval):
    with pytest.raises(ValueError, match=r"^2 samples of the candidate, 3 of the reference$"):
        interval(np.ones(2, dtype=bool), np.ones(3, dtype=bool))
    with pytest.raises(ValueError, match=r"^no samples$"):
        interval(np.ones(0, dtype=bool), np.ones(0, dtype=bool))


@pytest.mark.parametrize(
    "gained, lost", [(0, 0), (1, 0), (0, 1), (5, 5), (5, 6), (6, 16), (3, 40), (1200, 1300), (0, 900), (25_000, 25_600)]
)
def test_mcnemar_is_the_binomial_test(gained, lost):
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert mcnemar(gained, lost) == pytest.approx(expected, rel=1e-8)


def test_mcnemar_of_counts_beyond_the_range_of_a_double():
    assert mcnemar(6, 16) == pytest.approx(0.052479, abs=5e-7)  # contingencytables in R
    assert mcnemar(0, 2000) == 0.0
    assert 0 < mcnemar(500_000, 502_000) < 0.05 < mcnemar(500_000, 501_900)


def test_means_of_many_samples_have_the_normal_interval():
    candidate, reference = rng(1).normal(0.02, 1, 50_000), rng(2).exponential(2, 50_000)
    change = candidate - reference
    half = Z * change.std() / math.sqrt(50_000)
    difference = of_means(candidate, reference)
    assert difference.value == pytest.approx(change.mean())
    assert tuple(difference[1:]) == pytest.approx((change.mean() - half, change.mean() + half), abs=1e-3 * half)


def test_means_of_hits_have_nearly_the_interval_of_hits():
    candidate, reference = answers(20, 34, 1000)
    means, hits = of_means(candidate.astype(np.float32), reference.astype(np.float32)), of_hits(candidate, reference)
    assert means.value == hits.value
    assert tuple(means) == pytest.approx(tuple(hits), abs=0.03 * (hits.high - hits.low))


def test_means_of_one_difference_do_not_look_certain():
    reference = np.zeros(1000)
    single = np.where(np.arange(1000) == 7, -0.5, 0.0)
    value, low, high = of_means(single, reference)
    assert (value, high > 0) == (-0.0005, True)
    assert low < -0.0015
    assert of_means(reference, reference) == (0, 0, 0)
    assert of_means(np.array([-0.5]), np.zeros(1)).low < -0.9


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_score_that_is_not_finite_is_one_line(wrong):
    with pytest.raises(ValueError, match=r"^a score is not finite$"):
        of_means(np.array([0.5, wrong]), np.zeros(2))


def test_the_bootstrap_agrees_with_the_means():
    candidate, reference = rng(3).normal(0, 1, 800), rng(4).normal(0.1, 2, 800)
    drawn = resampled(800, lambda indices: float((candidate - reference)[indices].mean()), rng(5))
    means = of_means(candidate, reference)
    assert drawn.value == pytest.approx(means.value)
    assert tuple(drawn) == pytest.approx(tuple(means), abs=0.05 * (means.high - means.low))


def test_the_bootstrap_covers_the_difference_of_a_ratio():
    """Recall, whose denominator differs from resample to resample: 0.8 for the candidate, 0.85 for the reference."""
    generator, covered = rng(6), 0
    for _ in range(200):
        label, luck = generator.random(400) < 0.3, generator.random(400)
        right = np.stack([label & (luck < 0.8), label & (luck < 0.85)])

        def statistic(indices, label=label, right=right):
            candidate, reference = right[:, indices].sum(axis=1) / label[indices].sum()
            return float(candidate - reference)

        difference = resampled(400, statistic, generator, resamples=300)
        covered += difference.low <= -0.05 <= difference.high
    assert 0.9 * 200 <= covered < 200


def test_the_interval_of_the_bootstrap_contains_the_value():
    """Even of a statistic that is above its own on every resample: those repeat samples."""
    difference = resampled(50, lambda indices: float(len(np.unique(indices))), rng(), resamples=100)
    assert difference.low < difference.high == difference.value == 50
    difference = resampled(50, lambda indices: -float(len(np.unique(indices))), rng(), resamples=100)
    assert difference.high > difference.low == difference.value == -50


def test_resamples_without_a_value_are_left_out_up_to_a_tenth():
    def recall(positives):
        return lambda indices: (
            math.nan if (indices >= positives).all() else float(np.mean(indices[indices < positives]))
        )

    assert all(map(math.isfinite, resampled(100, recall(3), rng(), resamples=400)))  # 5 % are NaN
    with pytest.raises(ValueError, match=r"^the metric is NaN in \d+ of 400 resamples: a class has too few samples$"):
        resampled(100, recall(1), rng(), resamples=400)
    with pytest.raises(ValueError, match=r"^the metric of all samples is NaN$"):
        resampled(100, lambda _: math.nan, rng())
    with pytest.raises(ValueError, match=r"^no samples$"):
        resampled(0, lambda _: 0.0, rng())


def test_the_bootstrap_repeats_itself_with_the_same_seed():
    statistic = lambda indices: float(np.mean(indices))  # noqa: E731
    assert resampled(30, statistic, rng(7), resamples=50) == resampled(30, statistic, rng(7), resamples=50)


@pytest.mark.parametrize(
    "low, high, max_drop, verdict",
    [
        (-0.004, 0.002, 0.005, "no worse"),
        (-0.005, 0.002, 0.005, "no worse"),
        (-0.004, -0.002, 0.005, "no worse"),
        (0.001, 0.002, 0.0, "no worse"),
        (-0.006, 0.002, 0.005, "unclear"),
        (-0.006, 0.0, 0.005, "unclear"),
        (-0.006, -0.001, 0.005, "worse"),
        (-0.006, -0.001, 0.0, "worse"),
    ],
)
def test_verdicts(low, high, max_drop, verdict):
    assert judged(Difference((low + high) / 2, low, high), max_drop) == verdict


@pytest.mark.parametrize("gained, lost", [(1, 1), (3, 5), (5, 3), (0, 2), (10, 13)])
@pytest.mark.parametrize("interval", [of_hits, of_means])
def test_with_the_samples_needed_the_same_shares_are_no_worse(interval, gained, lost):
    count, max_drop = 1000, 0.004
    difference = interval(*answers(gained, lost, count))
    needed = samples_needed(difference, count, max_drop)
    assert (needed <= count) == (judged(difference, max_drop) == "no worse")
    times = -(-needed // count)
    assert judged(interval(*(np.tile(each, times) for each in answers(gained, lost, count))), max_drop) == "no worse"
    if fewer := needed // 3 // count:
        assert (
            judged(interval(*(np.tile(each, fewer) for each in answers(gained, lost, count))), max_drop) != "no worse"
        )


@pytest.mark.parametrize("count", [1, 50, 360, 5000])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_samples_needed_of_hits_that_never_differ_are_exact(count, confidence):
    needed = samples_needed(of_hits(*answers(0, 0, count), confidence), count, 0.01, confidence)
    assert judged(of_hits(*answers(0, 0, needed), confidence), 0.01) == "no worse"
    assert judged(of_hits(*answers(0, 0, needed - 1), confidence), 0.01) == "unclear"


def test_no_number_of_samples_shows_that_too_large_a_drop_is_none():
    assert samples_needed(Difference(-0.02, -0.03, -0.01), 100, 0.02) is None
    assert samples_needed(Difference(-0.02, -0.03, -0.01), 100, 0.01) is None
    assert samples_needed(Difference(0.0, -0.01, 0.01), 100, 0.0) is None
    assert samples_needed(Difference(-0.02, -0.03, -0.01), 100, 0.025) == 400
    assert samples_needed(Difference(0.0, 0.0, 0.0), 100, 0.01) == 1


def test_equals_are_seldom_called_worse_and_a_loss_is_found():
    generator = rng(8)
    verdicts = {
        loss: [
            judged(of_hits(*answers(gained, lost, 2000)), 0.01)
            for gained, lost, _ in generator.multinomial(2000, [0.01, 0.01 + loss, 0.98 - loss], size=200)
        ]
        for loss in (0.0, 0.02)
    }
    assert verdicts[0.0].count("worse") <= 10
    assert verdicts[0.02].count("worse") >= 190
