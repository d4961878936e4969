"""Samples that a user's function returns or yields, batch by batch."""

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xbench.data import BadData
from xbench.data.own.opening import one_line, shown
from xbench.data.own.slots import Asked, Piece, Slot, label_of, matched, whole_piece

END = object()


def pieces(word: str, function: Callable[..., Any], asked: Asked) -> Iterator[Piece]:
    """The batches of a function that is called without arguments. It returns one, or something that gives many: a
    dictionary of arrays by the names of the inputs, perhaps with labels; an array; a tuple of an array for each input,
    perhaps with the labels at its end; a pair of inputs, in a dictionary or a list, and labels.

    Raises:
        BadData: it raises, or gives something else.
    """
    read = 0
    with _raising(word, read):
        items = _iterated(word, function(), asked.slots)
    while True:
        with _raising(word, read):
            given = next(items, END)
        if given is END:
            return
        piece = _piece(given, asked, shown(word), read)
        yield piece
        read += piece.count


@contextlib.contextmanager
def _raising(word: str, read: int) -> Iterator[None]:
    try:
        yield
    except _Unsuitable as error:
        raise BadData(f"{shown(word)} returns {error}, and no arrays") from error
    except (Exception, SystemExit) as error:
        after = f"after {read} samples" if read else "before the first sample"
        raise BadData(f"{shown(word)} raises {type(error).__name__}: {one_line(error)} ({after})") from error


class _Unsuitable(Exception):
    """What a function returns gives no batches; its type."""


def _iterated(word: str, given: Any, slots: Sequence[Slot]) -> Iterator[Any]:
    if _is_batch(given, slots):
        return iter([given])
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise _Unsuitable(type(given).__name__)
    return iter(given)


def _is_batch(given: Any, slots: Sequence[Slot]) -> bool:
    """Whether it is one batch, not many. A list of arrays is one if it has one for each of several inputs."""
    if isinstance(given, Mapping) or _is_array(given):
        return True
    if isinstance(given, tuple):
        return not all(isinstance(each, Mapping | tuple) for each in given)
    return isinstance(given, list) and 1 < len(slots) == len(given) and all(map(_is_array, given))


def _piece(given: Any, asked: Asked, word: str, read: int) -> Piece:
    where = f"{word}[{read}]"
    try:
        inputs, labels = _parted(given, asked.slots, where)
        arrays = [_array(each) for each in inputs]
        labels = _array(labels) if _is_array(labels) else copy.deepcopy(labels)
        return whole_piece(asked.slots, arrays, labels if asked.labels else None, word, read)
    except BadData:
        raise
    except Exception as error:  # of a foreign array, or of lists of several lengths
        raise BadData(f"{where}: what it gives is no array: {one_line(error)}") from error


def _parted(given: Any, slots: Sequence[Slot], where: str) -> tuple[Sequence[Any], Any]:
    """The inputs of a batch, and its labels."""
    if isinstance(given, Mapping):
        return _named(given, slots, where)
    if _is_array(given):
        given = [given]
    if not isinstance(given, list | tuple):
        raise BadData(f"{where} is {type(given).__name__}, and no arrays")
    labels = None
    if len(given) == 2 and isinstance(given[0], Mapping | list | tuple):
        given, labels = given
        if isinstance(given, Mapping):
            return _named(given, slots, where)[0], labels
    elif len(given) == len(slots) + 1:
        given, labels = given[:-1], given[-1]
    if len(given) != len(slots):
        wanted = "one" if len(slots) == 1 else str(len(slots))
        raise BadData(f"{where} is {len(given)} arrays, and the network takes {wanted}, which labels may follow")
    return given, labels


def _named(given: Mapping[Any, Any], slots: Sequence[Slot], where: str) -> tuple[Sequence[Any], Any]:
    arrays = {str(key): value for key, value in given.items()}
    keys, marked = matched([*arrays], slots, where)
    label = label_of(marked, where)
    return [arrays[key] for key in keys], None if label is None else arrays[label]


def _is_array(given: Any) -> bool:
    return hasattr(given, "detach") or hasattr(given, "__array__")


def _array(given: Any) -> np.ndarray:
    """An array of NumPy's. A tensor of PyTorch may be on a device, and its bfloat16 is none of NumPy's types."""
    if hasattr(given, "detach"):
        given = given.detach().cpu()
        given = (given.float() if str(given.dtype) == "torch.bfloat16" else given).numpy()
    return np.array(given)  # a function may use its own again for the next batch
