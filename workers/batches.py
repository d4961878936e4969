"""The batches of a timed block, made alike by its worker and the oracle. No two blocks are alike, so that remembering
one does not help in another. Imports no framework.

A training block draws new labels for the inputs that a cell was verified on, and takes the batches in random order.
Labels that contradict each other are never learned, so the weights keep changing. A block of another mode gets one
unseen input.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xbench import models
from xbench.converters.artifact import Artifact
from xbench.parity import candidate

BATCHES = 8  # of a training block
SEGMENT = 64  # most training steps between two resets: float32 agrees with float64 so far on most networks
UNSEEN = 10_000  # the first seed of unseen inputs

Batch = tuple[int, np.ndarray]  # index of the input, and the labels


def training(info: Mapping[str, Any], labels: Sequence[np.ndarray], seed: int) -> list[Batch]:
    """The batches of a block. `info` is the artifact's, `labels` are those of the inputs. New labels are drawn as the
    artifact says; if it says nothing they are the old ones, permuted."""
    return [
        (index % len(labels), _labels(info["labels"], labels[index % len(labels)], seed * BATCHES + index))
        for index in range(BATCHES)
    ]


def order(seed: int, segment: int, length: int) -> list[int]:
    """The batch of each step of a segment; a longer segment begins with the same ones."""
    return random.Random(f"{seed} {segment}").choices(range(BATCHES), k=length)


def _labels(spec: Mapping[str, Any] | None, known: np.ndarray, seed: int) -> np.ndarray:
    if spec is None:
        return np.random.default_rng(seed).permutation(known)
    return np.asarray(models.draw(models.Input(**spec), len(known), seed), known.dtype)


def unseen(artifact: Artifact, arrays: Sequence[np.ndarray], labels: np.ndarray, seed: int) -> list[np.ndarray] | None:
    """Unseen inputs, drawn as the artifact says: an index stays within its table and a mask keeps something. None if
    that gives the same arrays."""
    made = candidate.redrawn(artifact, arrays, labels, UNSEEN + seed)
    return None if all(map(np.array_equal, made, arrays)) else made
