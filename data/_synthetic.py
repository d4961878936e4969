"""Samples of no meaning, as small as real ones are stored: bytes for images, whole numbers for words. They stand for a
data set where only the time of reading counts, as in the synthetic runs of the studies."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xbench.data import BadData, DataSet


def make(info: Mapping[str, Any], samples: int, seed: int = 0) -> DataSet:
    """So many samples for a network of one input and classes for labels (`model.json`'s facts); the test part is the
    first of them. What floats become is spread as the network's own input is.

    Raises:
        BadData: it takes or gives something else.
    """
    given, labels = info["inputs"], info["labels"]
    if len(given) != 1 or labels is None or labels["dtype"] != "int64":
        raise BadData(f"{info['name']} does not read one array a sample and give classes")
    rng, (own,) = np.random.default_rng(seed), given
    classes = rng.integers(labels["low"], labels["high"], (samples, *labels["shape"][1:]))
    if own["dtype"] == "int64":
        words = rng.integers(own["low"], own["high"], (samples, *own["shape"][1:]), np.int32)
        return _whole(words, classes, 0.0, 1.0)
    pixels = rng.integers(0, 256, (samples, *own["shape"][1:]), np.uint8)
    std = 255 / (own["high"] - own["low"])
    return _whole(pixels, classes, -own["low"] * std, std)


def _whole(inputs: np.ndarray, labels: np.ndarray, mean: float, std: float) -> DataSet:
    return DataSet(inputs, labels, inputs[:1], labels[:1], np.array(mean, np.float32), np.array(std, np.float32))
