"""The contract of a data set and the table of all of them. Every other file is one set, named by the word after
`--data`; it reads the files of its publisher, in their place: nothing is downloaded.

A set is plain arrays in compact types; `DataSet.batch` makes a network's inputs. Files are not
trusted: the sizes they claim are compared with the file's before memory is allocated.
"""

import difflib
import functools
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


class BadData(Exception):
    """A data set that is missing, damaged, or of another shape than the network's; one line."""


@dataclass(frozen=True)
class DataSet:
    """A data set cut to a network: samples along the first axis, inputs in the network's shape.

    Images are uint8 and become `(x - mean) / std` in float32, `mean` and `std` in units of the pixels; words are int32
    and become int64. Labels are int64.
    """

    train_inputs: np.ndarray
    train_labels: np.ndarray
    test_inputs: np.ndarray
    test_labels: np.ndarray
    mean: np.ndarray
    std: np.ndarray

    def batch(self, part: str, chosen: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """The chosen samples of `train` or `test` as a network takes them, and their labels."""
        arrays = vars(self)
        inputs, labels = arrays[f"{part}_inputs"][chosen], arrays[f"{part}_labels"][chosen]
        if inputs.dtype == np.uint8:
            return [(inputs.astype(np.float32) - self.mean) / self.std], labels
        return [inputs.astype(np.int64)], labels

    def training_batch(self, size: int, seed: int, step: int) -> tuple[list[np.ndarray], np.ndarray]:
        """The batch of a training step, counted from 0: every epoch takes the samples in a new order, which depends on
        `seed` alone, and drops an incomplete last batch."""
        epoch, place = divmod(step, len(self.train_labels) // size)
        order = shuffled(len(self.train_labels), seed, epoch)
        return self.batch("train", order[place * size : (place + 1) * size])

    def looked_at(self, part: str) -> np.ndarray:
        """The samples for accuracy: the test part, and the same number of the training part, spread evenly."""
        count, most = len(vars(self)[f"{part}_labels"]), len(self.test_labels)
        return np.arange(count) if count <= most else np.arange(most) * count // most


@functools.lru_cache(maxsize=1)
def shuffled(count: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(count)


@dataclass(frozen=True)
class Row:
    """One set of the table: what it is, the epochs of a training, and whether its files are in a folder of the user's.

    The set's module has `read(info, folder)`, which cuts it to a network (`model.json`'s facts) and raises `BadData`.
    """

    about: str
    epochs: int
    in_folder: bool = True


SETS = {
    "digits": Row("1,797 handwritten digits of scikit-learn, enlarged to 28 x 28", 20, in_folder=False),
    "mnist": Row("70,000 handwritten digits of 28 x 28, IDX files", 10),
    "cifar10": Row("60,000 photographs of 32 x 32 in ten classes, the binary version", 30),
    "imdb": Row("50,000 film reviews, good or bad: the folder aclImdb", 3),
    "ptb": Row("the Penn Treebank, the next word of each: ptb.train.txt, ptb.test.txt", 13),
}
FOLDER = "XBENCH_DATA"


def parse(word: str, option: str = "--data ") -> tuple[str, Path | None]:
    """Splits `mnist:folder` into the set and the folder of its files, `$XBENCH_DATA/mnist` if none is named. Messages
    have `option` before the word.

    Raises:
        BadData: an unknown set, or one without a folder.
    """
    name, colon, place = word.partition(":")
    if name not in SETS:
        near = difflib.get_close_matches(name, SETS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the data sets are {', '.join(SETS)}"
        raise BadData(f"unknown data set {name!r}: {hint}")
    if not SETS[name].in_folder:
        if colon:
            raise BadData(f"{option}{word}: {name} comes with its package and has no folder")
        return name, None
    root = os.environ.get(FOLDER)
    if not place and not root:
        raise BadData(f"say where the files of {name} lie: {option}{name}:folder, or {FOLDER}; nothing is downloaded")
    folder = Path(place) if place else Path(str(root), name)
    if not folder.is_dir():
        raise BadData(f"no folder {folder} with the files of {name}; nothing is downloaded")
    return name, folder


def load(word: str, info: Mapping[str, Any], option: str = "--data ") -> DataSet:
    """Reads a set for a network. `option` is as in `parse`.

    Raises:
        BadData: as `parse`; files that are missing or damaged; a network that takes or gives something else.
    """
    name, folder = parse(word, option)
    data: DataSet = importlib.import_module(f"xbench.data.{name}").read(info, folder)
    train, test = len(data.train_labels), len(data.test_labels)
    if not train or not test:
        raise BadData(f"{word} has {train} samples to train with and {test} to test with")
    return data


def draw(word: str, info: Mapping[str, Any], batch: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """One batch of the training part, of any size: a smaller set is repeated."""
    data = load(word, info)
    order = np.random.default_rng(seed).permutation(len(data.train_labels))
    return data.batch("train", np.resize(order, batch))
