"""Says what a wrong result looks like: the oracle is computed again under each mistake people make (`mistakes/`), and
those are named that give what the runtime gave, within the noise floor.

A mistake that the forward pass shows is looked for at the operator that makes the first wrong tensor: there each is one
call. What it explains is then computed over the whole network, with the mistake in every such operator and in this one
alone. Mistakes of training are computed as whole training steps.
"""

import math
from dataclasses import dataclass

import numpy as np

from xbench.parity.verdict import compared, floors_off, size_of

Tensors = dict[str, np.ndarray]
CLEAR = 4.0  # floors within which explanations are equally good: then the more particular goes first


@dataclass(frozen=True)
class Finding:
    """A mistake that explains a result: `scope` says where it is made, `ratio` is what is left, in noise floors."""

    mistake: str
    says: str
    ratio: float
    operator: str | None = None
    tensor: str | None = None
    scope: str | None = None


def enlarged(floor: np.ndarray, expected: np.ndarray, instead: np.ndarray) -> list[float]:
    """The noise floor of a tensor that takes the place of another: rounding grows with its size."""
    sizes = zip(floor, size_of(expected), size_of(instead), strict=True)
    return [f * max(1.0, new / old) if old else f for f, old, new in sizes]


def errors(candidate: Tensors, expected: Tensors, reference: Tensors) -> dict[str, float]:
    """How far a result is from an oracle under a mistake, by tensor, in the noise floors of the reference."""
    names = [name for name in compared(reference, candidate) if name in expected]
    return {name: _off(candidate, expected, reference, name) for name in names}


def _off(candidate: Tensors, expected: Tensors, reference: Tensors, name: str) -> float:
    if name not in candidate:
        return math.inf
    floor = enlarged(reference[f"floor/{name}"], reference[name], expected[name])
    return floors_off(candidate[name], expected[name], floor)
