"""The Penn Treebank as Mikolov et al. (2010) prepared it: ptb.train.txt and ptb.test.txt, a sentence a line, words
between spaces, rare ones as `<unk>`."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xbench.data import BadData, DataSet, _fit
from xbench.data._files import text

END, UNKNOWN = "<eos>", "<unk>"


def read(info: Mapping[str, Any], folder: Path | None) -> DataSet:
    """Consecutive windows of the network's number of words; the label of a word is the next one."""
    assert folder is not None
    length = _fit.length("ptb", info, "each")
    train, test = (_words(folder / f"ptb.{part}.txt", length) for part in ("train", "test"))
    counts = Counter(train)
    known = sorted(counts.keys() - {UNKNOWN}, key=lambda word: (-counts[word], word))[: _fit.classes_of(info) - 1]
    numbers = {word: number for number, word in enumerate([UNKNOWN, *known])}
    return _fit.words(*_windows(train, numbers, length), *_windows(test, numbers, length))


def _words(path: Path, length: int) -> list[str]:
    words = text(path).replace("\n", f" {END} ").split()
    if len(words) <= length:
        raise BadData(f"{path} has {len(words)} words, fewer than one window of {length} and the next")
    return words


def _windows(words: list[str], numbers: Mapping[str, int], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels (windows, length)."""
    indices = np.array([numbers.get(word, 0) for word in words], np.int32)
    count = (len(indices) - 1) // length
    inputs, labels = indices[: count * length], indices[1 : count * length + 1]
    return inputs.reshape(-1, length), labels.reshape(-1, length).astype(np.int64)
