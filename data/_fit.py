"""Checks that a network takes the images or words of a data set."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xbench.data import BadData, DataSet

CLASSES = 10  # of every set of images here
Part = tuple[np.ndarray, np.ndarray]  # inputs, labels


def images(
    name: str, info: Mapping[str, Any], train: Part, test: Part, mean: Sequence[float], std: Sequence[float]
) -> DataSet:
    """Images (samples, channels, height, width) in uint8, and mean and spread of each channel, for a network that takes
    them, or a single channel as a flat row.

    Raises:
        BadData: the network takes or gives something else.
    """
    shape = train[0].shape[1:]
    shapes = [["batch", *shape]] + ([["batch", math.prod(shape)]] if shape[0] == 1 else [])
    if classes_of(info) != CLASSES or [i["shape"] for i in info["inputs"]] not in [[each] for each in shapes]:
        needed = f"a network of {' x '.join(map(str, shape))} images and {CLASSES} classes"
        raise BadData(f"--data {name} needs {needed}; {takes(info)}")
    own = info["inputs"][0]["shape"][1:]
    column = (len(mean), *[1] * (len(own) - 1))
    scale = [np.array(each, np.float32).reshape(column) for each in (mean, std)]
    return DataSet(train[0].reshape(-1, *own), train[1], test[0].reshape(-1, *own), test[1], *scale)


def classes(labels: np.ndarray, path: Path) -> np.ndarray:
    """Labels of images as int64.

    Raises:
        BadData: one is no class.
    """
    if len(wrong := np.flatnonzero(labels >= CLASSES)):
        raise BadData(f"{path}: label {wrong[0]} is {labels[wrong[0]]}, which is none of the {CLASSES} classes")
    return labels.astype(np.int64)


def length(name: str, info: Mapping[str, Any], labels: str) -> int:
    """The number of words that a network takes at once; `labels` is `one` per text, or `each` per word.

    Raises:
        BadData: the network takes or gives something else.
    """
    given = info["inputs"]
    if len(given) == 1 and given[0]["dtype"] == "int64" and len(given[0]["shape"]) == 2:
        words = int(given[0]["shape"][1])
        count, shape = classes_of(info), (info["labels"] or {}).get("shape")
        if labels == "one" and shape == ["batch"] and count == 2:
            return words
        if labels == "each" and shape == ["batch", words] and count == given[0]["high"]:
            return words
    wanted = "one label of 2 classes" if labels == "one" else "the next word of each"
    raise BadData(f"--data {name} needs a network of texts, int64 (batch, words), with {wanted}; {takes(info)}")


def takes(info: Mapping[str, Any]) -> str:
    """What a network takes and gives, in words."""
    given = ", ".join(f"{i['dtype']} ({', '.join(map(str, i['shape']))})" for i in info["inputs"])
    return f"{info['name']} takes {given} and has {classes_of(info) or 'no'} classes"


def classes_of(info: Mapping[str, Any]) -> int:
    """The number of classes of a network's labels; 0 if they are no classes."""
    integers = info["labels"] is not None and info["labels"]["dtype"] == "int64"
    return int(info["labels"]["high"]) if integers else 0


def words(samples: np.ndarray, labels: np.ndarray, tests: np.ndarray, answers: np.ndarray) -> DataSet:
    """Texts as numbers of words, which are not scaled."""
    return DataSet(samples, labels, tests, answers, np.zeros((), np.float32), np.ones((), np.float32))
