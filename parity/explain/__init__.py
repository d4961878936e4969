"""Explains a wrong result: computes the oracle again under each common mistake (`mistakes/`), and names those that give
the runtime's result within the noise floor.

A mistake of the forward pass is searched for at the operator that makes the first wrong tensor, where each costs one
call. Those that explain it are then computed over the whole network, with the mistake in every such operator and in
this one alone. Mistakes of training are computed as whole training steps.
"""

import math
from dataclasses import dataclass

import numpy as np

from xbench.parity.verdict import compared, floors_off, size_of

Tensors = dict[str, np.ndarray]
CLEAR = 4.0  # floors within which explanations are equally good: then the more specific goes first


@dataclass(frozen=True)
class Finding:
    """A mistake that explains a result: `scope` is where it is made, `ratio` the remaining error in noise floors."""

    mistake: str
    says: str
    ratio: float
    operator: str | None = None
    tensor: str | None = None
    scope: str | None = None


def enlarged(floor: np.ndarray, expected: np.ndarray, instead: np.ndarray) -> list[float]:
    """The noise floor of a tensor that replaces another: rounding grows with its size."""
    sizes = zip(floor, size_of(expected), size_of(instead), strict=True)
    return [f * max(1.0, new / old) if old else f for f, old, new in sizes]


def errors(candidate: Tensors, expected: Tensors, reference: Tensors) -> dict[str, float]:
    """The error of a result against the oracle under a mistake, by tensor, in noise floors of the reference."""
    names = [name for name in compared(reference, candidate) if name in expected]
    return {name: _off(candidate, expected, reference, name) for name in names}


def _off(candidate: Tensors, expected: Tensors, reference: Tensors, name: str) -> float:
    if name not in candidate:
        return math.inf
    floor = enlarged(reference[f"floor/{name}"], reference[name], expected[name])
    return floors_off(candidate[name], expected[name], floor)
