"""Random samples in the types that real ones are stored in: bytes for images, integers for words. They replace a data
set where only the time of reading counts, as in the synthetic runs of the studies."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xbench.data import BadData, DataSet


def make(info: Mapping[str, Any], samples: int, seed: int = 0) -> DataSet:
    """`samples` samples for a network of one input and classes for labels (`model.json`'s facts); the test part is the
    first of them. Floats get the range of the network's own input.

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
        return _data_set(words, classes, 0.0, 1.0)
    pixels = rng.integers(0, 256, (samples, *own["shape"][1:]), np.uint8)
    std = 255 / (own["high"] - own["low"])
    return _data_set(pixels, classes, -own["low"] * std, std)


def _data_set(inputs: np.ndarray, labels: np.ndarray, mean: float, std: float) -> DataSet:
    return DataSet(inputs, labels, inputs[:1], labels[:1], np.array(mean, np.float32), np.array(std, np.float32))
