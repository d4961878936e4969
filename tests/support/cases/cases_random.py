"""Rows of the operators that draw random numbers. Data for test_random_operators.py."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cases import Row, row


@dataclass(frozen=True)
class Drawn:
    """A random operator: its row, and the mean and standard deviation of many draws."""

    row: Row
    mean: float
    deviation: float


def draws(op: str, inputs: Sequence[Any], mean: float, deviation: float, /, **attributes: Any) -> tuple[str, Drawn]:
    return op, Drawn(row(*inputs, seed=7.0, **attributes), mean, deviation)


MANY = np.full((40, 50), 0.25, np.float32)
CASES_RANDOM = [
    draws("Bernoulli", [MANY], 0.25, 0.25**0.5 * 0.75**0.5),
    draws("Bernoulli", [MANY], 0.25, 0.25**0.5 * 0.75**0.5, dtype=6),
    draws("Multinomial", [np.log([[0.25, 0.5, 0.25]]).astype(np.float32)], 1.0, 0.5**0.5, sample_size=2000),
    draws("RandomNormal", [], 3.0, 2.0, shape=[40, 50], mean=3.0, scale=2.0),
    draws("RandomNormalLike", [MANY], 0.0, 1.0),
    draws("RandomUniform", [], 1.0, 4 / 12**0.5, shape=[40, 50], low=-1.0, high=3.0),
    draws("RandomUniformLike", [MANY], 0.5, 1 / 12**0.5),
]
