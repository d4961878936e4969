"""The distribution of a cell's times, reduced to the numbers of a box plot, so that the samples need not be sent."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


class Distribution(NamedTuple):
    """Quantiles of the samples of a cell in seconds, at `LEVELS`, and how many samples there were."""

    low: float
    quarter: float
    median: float
    three_quarters: float
    high: float
    samples: int


def distribution(times: Mapping[str, Any] | None) -> Distribution | None:
    """Return the distribution of a record's `times`, every block with equal weight, as for the median
    (`stats/statistics.py`); None if there are no samples."""
    blocks = [np.asarray(block["samples"], np.float64) for block in (times or {}).get("blocks") or ()]
    blocks = [samples for samples in blocks if len(samples)]
    if not blocks:
        return None
    pooled = np.concatenate(blocks)
    weights = np.concatenate([np.full(len(samples), 1 / len(samples)) for samples in blocks])
    order = np.argsort(pooled)
    pooled, weights = pooled[order], weights[order]
    # A sample is placed at the middle of its share, as in numpy.quantile's method "hazen".
    places = (np.cumsum(weights) - weights / 2) / weights.sum()
    low, quarter, median, three_quarters, high = map(float, np.interp(LEVELS, places, pooled))
    return Distribution(low, quarter, median, three_quarters, high, len(pooled))
