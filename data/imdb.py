"""The Large Movie Review Dataset (Maas et al. 2011): the folder aclImdb, one file a review, in `train` and `test` by
`pos` and `neg` (https://ai.stanford.edu/~amaas/data/sentiment).

Words are counted in lower case; the network sees the last ones of a review, padded in front, as in Keras.
"""

import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xbench.data import BadData, DataSet, _fit
from xbench.data._files import text

PADDING, UNKNOWN, FIRST = 0, 1, 2  # numbers of words
BREAK = re.compile(r"<br\s*/?>")
WORD = re.compile(r"\w+(?:['-]\w+)*|[^\w\s]")
VOCABULARY = "imdb.vocab"


def read(info: Mapping[str, Any], folder: Path | None) -> DataSet:
    """Every review's last words by number: the more frequent, the smaller."""
    assert folder is not None
    length, size = _fit.length("imdb", info, "one"), int(info["inputs"][0]["high"])
    counts = Counter[str]()
    train, labels = _part(folder / "train", length, counts)
    numbers = _vocabulary(folder, counts, size)
    test, answers = _part(folder / "test", length, Counter())
    return _fit.words(_numbered(train, numbers, length), labels, _numbered(test, numbers, length), answers)


def _part(folder: Path, length: int, counts: Counter[str]) -> tuple[list[list[str]], np.ndarray]:
    """The last words of each review, and 1 for a good one, 0 for a bad one; counts all words."""
    reviews: list[list[str]] = []
    labels: list[int] = []
    for label, kind in enumerate(("neg", "pos")):
        files = sorted((folder / kind).glob("*.txt"))
        if not files:
            raise BadData(f"no reviews in {folder / kind}: --data imdb wants the folder aclImdb")
        for file in files:
            words = [sys.intern(word) for word in WORD.findall(BREAK.sub(" ", text(file)).lower())]
            counts.update(words)
            reviews.append(words[-length:])
        labels += [label] * len(files)
    return reviews, np.array(labels, np.int64)


def _vocabulary(folder: Path, counts: Counter[str], size: int) -> dict[str, int]:
    """The numbers of the most frequent words, up to the network's vocabulary; by the set's own list if it is there."""
    if (folder / VOCABULARY).exists():
        words = text(folder / VOCABULARY).split()
    else:
        words = sorted(counts, key=lambda word: (-counts[word], word))
    if not words:
        raise BadData(f"no words in {folder}")
    return {word: number for number, word in enumerate(words[: size - FIRST], FIRST)}


def _numbered(reviews: list[list[str]], numbers: Mapping[str, int], length: int) -> np.ndarray:
    numbered = np.full((len(reviews), length), PADDING, np.int32)
    for row, review in zip(numbered, reviews, strict=True):
        row[length - len(review) :] = [numbers.get(word, UNKNOWN) for word in review]
    return numbered
