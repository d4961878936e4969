"""Finds outputs that do not depend on an input: redraws each input alone and compares the oracle's outputs."""

import numpy as np

from xbench import models
from xbench.converters.artifact import Artifact
from xbench.parity import candidate, oracle

SEEDS = range(100, 108)  # for other values, tried until some differ


def unread(artifact: Artifact, batch: int) -> dict[str, list[str]]:
    """The outputs that stay identical bit by bit, by the input that was changed. An input with only one possible value
    is left out."""
    inputs, labels = candidate.sample(artifact, batch, 0)
    before = oracle.outputs(artifact, inputs, labels)
    unchanged = {}
    for index, each in enumerate(models.Input(**spec) for spec in artifact.info["inputs"]):
        draws = (models.draw(each, batch, seed) for seed in SEEDS)
        other = next((drawn for drawn in draws if not np.array_equal(drawn, inputs[index])), None)
        if other is not None:
            after = oracle.outputs(artifact, [*inputs[:index], other, *inputs[index + 1 :]], labels)
            same = [name for name in before if _equal(before[name], after[name])]
            unchanged[each.name] = [name.removeprefix("output/") for name in same]
    return unchanged


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def rows_apart(artifact: Artifact, batch: int) -> bool:
    """Whether each row of the inputs decides its own row of the outputs alone, wherever it is: the first and the last
    row are drawn again, which changes no other row of an output with as many rows, and the rows are reversed, which
    reverses those of the outputs."""
    (inputs, labels), (others, _) = (candidate.sample(artifact, batch, seed) for seed in (0, SEEDS[0]))
    places = np.arange(len(inputs[0]))

    def outputs(given: list[np.ndarray]) -> list[np.ndarray]:
        made = oracle.outputs(artifact, given, labels).values()
        return [each for each in made if each.shape[:1] == places.shape]

    before = outputs(inputs)
    for drawn in (places == 0, places == places[-1]):
        mixed = [np.where(drawn.reshape(-1, *[1] * (a.ndim - 1)), b, a) for a, b in zip(inputs, others, strict=True)]
        if not all(_near(a[~drawn], b[~drawn]) for a, b in zip(before, outputs(mixed), strict=True)):
            return False
    turned = outputs([each[::-1].copy() for each in inputs])
    return all(_near(a, b[::-1]) for a, b in zip(before, turned, strict=True))


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether they are the same but for the order of sums."""
    size = np.abs(a[np.isfinite(a)]).max(initial=0.0)
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * size, equal_nan=True))
