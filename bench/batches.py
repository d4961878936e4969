"""The batches of a timed block, as its worker and the oracle both make them: no two blocks are alike, so that nothing
which is remembered of one helps in another. Imports no framework.

A training block draws new labels for the inputs that a cell was verified on, and takes the batches in random order.
Labels that contradict each other are never learned, so the weights go on changing. A block of another mode gets one
input that was not there before.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xbench import models

BATCHES = 8  # of a training block
SEGMENT = 64  # training steps at most between two resets: as far as float32 agrees with float64 on most networks

Batch = tuple[int, np.ndarray]  # which of the inputs, and the labels


def training(info: Mapping[str, Any], labels: Sequence[np.ndarray], seed: int) -> list[Batch]:
    """The batches of a block. `info` is the artifact's, `labels` are those of the inputs. New ones are drawn as the
    artifact says; where it says nothing they are the old ones in another order."""
    return [
        (index % len(labels), _labels(info["labels"], labels[index % len(labels)], seed * BATCHES + index))
        for index in range(BATCHES)
    ]


def order(seed: int, segment: int, length: int) -> list[int]:
    """Which of the batches each step of a segment takes; the same ones first, however long it is."""
    return random.Random(f"{seed} {segment}").choices(range(BATCHES), k=length)


def _labels(spec: Mapping[str, Any] | None, known: np.ndarray, seed: int) -> np.ndarray:
    if spec is None:
        return np.random.default_rng(seed).permutation(known)
    return np.asarray(models.draw(models.Input(**spec), len(known), seed), known.dtype)


def unseen(arrays: Sequence[np.ndarray], seed: int) -> list[np.ndarray] | None:
    """Inputs with the values of others at other places, moved along the first axis and the last; None where that gives
    the same arrays."""
    draw = np.random.default_rng(seed)
    made = [_moved(array, draw) for array in arrays]
    return None if all(map(np.array_equal, made, arrays)) else made


def _moved(array: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    axes = sorted({0, array.ndim - 1}) if array.ndim else []
    for axis in axes:
        if array.shape[axis] > 1:
            array = np.roll(array, int(draw.integers(1, array.shape[axis])), axis)
    return array.copy()
