"""The samples that a user brings: a file of arrays or a table, a folder, a function, or a data set's test part.

What a user names is read in a worker, and is not trusted: `opening.py` opens only regular files, and every reader
compares what a file claims with what is there. A reader gives pieces (`slots.Piece`) in the types of the file, which
are joined here to batches in the types of the graph (`values.py`).
"""

import difflib
import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xbench import data
from xbench.data import SETS, BadData
from xbench.data.own.opening import shown
from xbench.data.own.slots import Asked, Piece, Slot, fixed_batch, slots_of, takes_one
from xbench.data.own.values import check_type, converted

__all__ = ("Batch", "batches", "fixed_batch", "is_function", "takes_one")

BYTES = 2**28  # of a batch
READERS = {".npy": "arrays", ".npz": "arrays", ".safetensors": "arrays", ".parquet": "tables"}
NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"


@dataclass(frozen=True)
class Batch:
    """Samples of the same shapes.

    `inputs` has one array for each input of the graph, in its order and its types; the first axis is the samples except
    for inputs without a batch axis, which are as the graph takes them. `labels` are one for each sample, or None.
    `names` are one for each sample.
    """

    inputs: list[np.ndarray]
    labels: list[Any] | np.ndarray | None
    names: list[str]


def is_function(word: str) -> bool:
    """Whether a word is a user's function, `module:function` or `file.py:function`: it has such a form, and is no data
    set, and no file or folder with options, except a folder that is a package of Python."""
    place, colon, name = word.partition(":")
    if place in SETS or os.path.lexists(word) or not colon or not re.fullmatch(NAME, name):
        return False
    if place.endswith(".py"):
        return True
    if Path(place).suffix.lower() in READERS or not re.fullmatch(NAME, place):
        return False
    return not os.path.lexists(place) or os.path.isfile(os.path.join(place, "__init__.py"))


def batches(
    word: str,
    info: Mapping[str, Any],
    size: int,
    labels: str | None = None,
    function: Callable[..., Any] | None = None,
) -> Iterator[Batch]:
    """The samples of a word, at most `size` at once and about 256 MB, in the order of the data, for a network of
    `model.json`'s facts. `labels` names a file of them, or `folders`; they replace those of the data. `function` is the
    user's own, already imported, if the word is one.

    A batch is full unless it is the last, is a set of ONNX tensors, or is followed by another value of an input that is
    one for all samples. A network without an axis of samples gets one sample at once.

    Raises:
        BadData: as the batches are taken: there are no samples; one cannot be read, or does not fit the network.
    """
    from xbench.data.own import labels as files

    slots = slots_of(info)
    each = sum(int(np.prod(slot.shape, dtype=float)) * slot.dtype.itemsize for slot in slots if not slot.shared)
    most = max(1, min(size, max(fixed_batch(info) or 1, BYTES // max(each, 1))))
    most = 1 if takes_one(info) else most
    folders = labels == files.FOLDERS
    given = files.read(labels) if labels is not None and not folders else None
    label_file = None if given is None or labels is None else files.place(labels)[0]
    asked = Asked(slots, most, given is None, True if folders else None)
    pieces = _pieces(word, info, asked, label_file, function)
    if given is not None:
        pieces = _labelled(pieces, given, shown(labels), shown(word), function is None)
    yield from _joined(pieces, slots, most, shown(word))


def _pieces(
    word: str, info: Mapping[str, Any], asked: Asked, label_file: Path | None, function: Callable[..., Any] | None
) -> Iterator[Piece]:
    """The samples as their reader gives them."""
    from xbench.data.own import folders, returned

    place = Path(word) if function is not None or word.partition(":")[0] in SETS else _place(word)[0]
    in_folder = function is None and os.path.isdir(place) and word.partition(":")[0] not in SETS
    if asked.folders and not in_folder:
        raise BadData(f"--labels folders is for images in subfolders, and {shown(word)} is something else")
    if function is not None:
        return returned.pieces(word, function, asked)
    if word.partition(":")[0] in SETS:
        return _of_set(word, info, asked)
    asked = replace(asked, options=_place(word)[1])
    if in_folder:
        return folders.pieces(place, asked, label_file)
    if place.suffix.lower() not in READERS:
        raise BadData(f"{shown(place)} is no folder, and no file {', '.join(READERS)}")
    if asked.options and READERS[place.suffix.lower()] == "arrays":
        raise BadData(f"{shown(place)} has no images, which {shown(asked.options)} is for")
    reader = importlib.import_module(f"xbench.data.own.{READERS[place.suffix.lower()]}")
    pieces: Iterator[Piece] = reader.pieces(place, shown(place.name), asked)
    return pieces


def _place(word: str) -> tuple[Path, str]:
    """The file or folder of a word, and the options after it."""
    place, colon, options = word.rpartition(":")
    if os.path.lexists(word):
        return Path(word), ""
    if colon and os.path.lexists(place):
        return Path(place), options
    near = difflib.get_close_matches(word.partition(":")[0], SETS, n=1)
    hint = f"; did you mean the data set {near[0]}?" if near else ""
    raise BadData(f"no file or folder {shown(place if '=' in options else word)}{hint}")


def _of_set(word: str, info: Mapping[str, Any], asked: Asked) -> Iterator[Piece]:
    """The test part of a data set."""
    given, name = data.load(word, info, option=""), word.partition(":")[0]
    count = len(given.test_labels)
    for start in range(0, count, asked.rows):
        chosen = np.arange(start, min(start + asked.rows, count))
        inputs, labels = given.batch("test", chosen)
        yield Piece(inputs, len(chosen), labels if asked.labels else None, name, start, count)


def _labelled(
    pieces: Iterator[Piece], labels: Sequence[Any] | np.ndarray, file: str, word: str, ends: bool
) -> Iterator[Piece]:
    """The pieces with labels of a file. What does not say how many samples it has is counted, if it `ends`."""
    start, wrong = 0, f"{file} has {len(labels)} labels, and {word} has "
    for piece in pieces:
        stop, total = start + piece.count, piece.total
        if total is None and stop > len(labels):
            if not ends:
                raise BadData(f"{wrong}more samples")
            total = stop + sum(each.count for each in pieces)
        if total is not None and total != len(labels):
            raise BadData(f"{wrong}{total} samples")
        yield replace(piece, labels=labels[start:stop])
        start = stop
    if start and start != len(labels):
        raise BadData(f"{wrong}{start} samples")


@dataclass(frozen=True)
class _Part:
    """The samples of a piece from a place to another."""

    piece: Piece
    start: int
    stop: int

    def name(self, index: int) -> str:
        return self.piece.name(self.start + index)


def _joined(pieces: Iterator[Piece], slots: Sequence[Slot], most: int, word: str) -> Iterator[Batch]:
    """Batches of `most` samples; of fewer where pieces cannot be in one batch, and at the end."""
    held: list[_Part] = []
    first: Piece | None = None
    for piece in pieces:
        first = first or piece
        if (first.labels is None) != (piece.labels is None):
            with_, without = (piece, first) if first.labels is None else (first, piece)
            raise BadData(f"{with_.name(0)} has labels, and {without.name(0)} has none")
        for slot, array in zip(slots, piece.arrays):
            check_type(slot, array, piece.where)
        if held and not _fit(held[-1].piece, piece, slots):
            yield _batch(held, slots)
            held = []
        start = 0
        while start < piece.count:
            stop = min(piece.count, start + most - sum(each.stop - each.start for each in held))
            held.append(_Part(piece, start, stop))
            start = stop
            if sum(each.stop - each.start for each in held) == most:
                yield _batch(held, slots)
                held = []
    if held:
        yield _batch(held, slots)
    elif first is None or not first.count:
        raise BadData(f"{word} has no samples")


def _fit(first: Piece, second: Piece, slots: Sequence[Slot]) -> bool:
    """Whether samples of both may be in one batch."""
    pairs = [pair for slot, *pair in zip(slots, first.arrays, second.arrays) if slot.shared]
    return not (first.apart or second.apart) and all(one is other or np.array_equal(one, other) for one, other in pairs)


def _batch(parts: Sequence[_Part], slots: Sequence[Slot]) -> Batch:
    inputs = []
    for place, slot in enumerate(slots):
        if slot.shared:
            whole = replace(parts[0].piece, first=None)
            inputs.append(converted(slot, whole.arrays[place], whole.name))
            continue
        own = [converted(slot, each.piece.arrays[place][each.start : each.stop], each.name) for each in parts]
        joined = own[0] if len(own) == 1 else np.concatenate(own)
        inputs.append(joined.reshape(slot.shape) if slot.graph == slot.shape else joined)
    names = [each.name(index) for each in parts for index in range(each.stop - each.start)]
    return Batch(inputs, _labels(parts), names)


def _labels(parts: Sequence[_Part]) -> list[Any] | np.ndarray | None:
    given = [each.piece.labels[each.start : each.stop] for each in parts if each.piece.labels is not None]
    arrays = [each for each in given if isinstance(each, np.ndarray)]
    if given and len(arrays) == len(given) and len({each.shape[1:] for each in arrays}) == 1:
        return np.concatenate(arrays)
    return [label for each in given for label in each] if given else None
