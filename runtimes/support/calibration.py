"""Batches of a user's samples on which ranges are found, for forms that are for inputs of one size."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xbench.runtimes import Unavailable


def batches(
    given: Sequence[Mapping[str, np.ndarray]], inputs: Sequence[np.ndarray], what: str
) -> list[list[np.ndarray]]:
    """The batches, by the names of inputs, in the shapes of these inputs: larger ones are cut into several, and what is
    too small is repeated. The inputs themselves if there are none. `what` is for the message.

    Raises:
        Unavailable: no sample is of these shapes.
    """
    wanted = [array.shape[1:] for array in inputs]
    known = [[*each.values()] for each in given] or [[*inputs]]
    made = [part for each in known if [a.shape[1:] for a in each] == wanted for part in _parts(each, inputs)]
    if not made:
        raise Unavailable(f"{what}: no sample for calibration has the shape of these inputs")
    return made


def _parts(batch: Sequence[np.ndarray], inputs: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """A batch in parts of the sizes of these inputs; an input that has that size is in every part."""
    pairs = [*zip(batch, inputs, strict=True)]
    count = max((math.ceil(len(a) / len(like)) for a, like in pairs if a.shape != like.shape), default=1)
    for place in range(count):
        parts = [a if a.shape == b.shape else a[place * len(b) : (place + 1) * len(b)] for a, b in pairs]
        yield [np.resize(part, like.shape) for part, like in zip(parts, inputs, strict=True)]
