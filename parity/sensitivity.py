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
