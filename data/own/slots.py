"""The inputs of a graph as samples fill them, and samples that were read together."""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xbench.data import BadData
from xbench.data.own.opening import shown

BATCH = "batch"
LABELS = ("labels", "label", "y", "targets")  # names of labels, unless an input has the name
NAMED = 4  # names in a message


@dataclass(frozen=True)
class Slot:
    """An input of a graph. `shape` is that of one sample; of a `shared` input, which has no axis of samples though
    another input has one, that of the input. `graph` is the shape in the graph. An integer is in [low, high) if `why`
    says that it is an index of a table."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    graph: tuple[int | str, ...]
    shared: bool
    low: float
    high: float
    why: str


@dataclass(frozen=True)
class Piece:
    """`count` samples that were read together. `arrays` has one for each input, not yet in its type: the first axis is
    the samples, except of a shared input. `labels` is one for each sample, or None.

    `where` says in words what they are from, and `first` is the number of the first sample there; None if `where` is
    one sample. `total` is the number of samples of the whole data, if it is known. Samples of a piece that is `apart`
    are in no batch with others.
    """

    arrays: Sequence[np.ndarray]
    count: int
    labels: Sequence[Any] | np.ndarray | None
    where: str
    first: int | None = None
    total: int | None = None
    apart: bool = False

    def name(self, index: int) -> str:
        return self.where if self.first is None else f"{self.where}[{self.first + index}]"


@dataclass(frozen=True)
class Asked:
    """What is asked of a reader: samples for `slots`, at most `rows` at once, with the data's own labels if `labels`
    says so, and with the names of subfolders as labels if `folders` does (None: if all images are in some). `options`
    are those of images."""

    slots: Sequence[Slot]
    rows: int
    labels: bool = True
    folders: bool | None = None
    options: str = ""


def fixed_batch(info: Mapping[str, Any]) -> int | None:
    """The batch that a graph fixes: no input has a "batch" axis, the first axis of every input has the same size, and
    that of an output may have it. None if it fixes none. `rows_apart` of the facts, if it is there, says whether each
    row of such inputs decides its own row of the outputs alone: otherwise they are a sequence."""
    shapes = [each["shape"] for each in info["inputs"]]
    if not shapes or not all(shapes) or any(BATCH in shape for shape in shapes):
        return None
    first, *others = (shape[0] for shape in shapes)
    given = info.get("output_shapes") or [None]
    is_batch = all(each == first for each in others) and any(s is None or s[:1] in ([None], [first]) for s in given)
    return int(first) if is_batch and first and (first == 1 or info.get("rows_apart", True)) else None


def takes_one(info: Mapping[str, Any]) -> bool:
    """Whether a graph takes one sample at once. A first axis of one is then the samples, and arrays may lack it."""
    return not any(BATCH in each["shape"] for each in info["inputs"]) and fixed_batch(info) in (None, 1)


def slots_of(info: Mapping[str, Any]) -> list[Slot]:
    """The inputs of a graph (`model.json`'s facts), in its order.

    Raises:
        BadData: it takes nothing, texts, or samples along another axis than the first.
    """
    if not info["inputs"]:
        raise BadData(f"{info.get('name', 'the network')} takes no inputs")
    batched = any(BATCH in each["shape"] for each in info["inputs"])
    first = 1 if takes_one(info) else fixed_batch(info) or BATCH
    return [_slot(each, first, batched) for each in info["inputs"]]


def _slot(each: Mapping[str, Any], first: int | str, batched: bool) -> Slot:
    """An input; a `first` axis of this size is the samples. If the graph is `batched`, others are shared."""
    name, graph = str(each["name"]), tuple(each["shape"])
    if BATCH in graph[1:]:
        raise BadData(f"{shown(name)} takes {in_words(graph)}: samples must be along the first axis of an input")
    own = graph[:1] == (first,)
    shape = tuple(int(size) for size in (graph[1:] if own else graph))
    low, high = float(each.get("low", -math.inf)), float(each.get("high", math.inf))
    why = str(each.get("why", ""))
    return Slot(name, dtype_of(each["dtype"], name), shape, graph, batched and not own, low, high, why)


def dtype_of(word: str, name: str) -> np.dtype[Any]:
    """NumPy's type of a name, as `bfloat16`.

    Raises:
        BadData: there is none for numbers.
    """
    import ml_dtypes

    try:
        dtype = np.dtype(getattr(ml_dtypes, word, word))
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biufcV" or (dtype.kind == "V" and not hasattr(ml_dtypes, word)):
        raise BadData(f"{shown(name)} of the network is {word}: only numbers and yes or no can be given")
    return dtype


def in_words(shape: Sequence[int | str]) -> str:
    """A shape as in Python: (batch, 3, 224, 224)."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def is_one(slot: Slot, shape: Sequence[int]) -> bool:
    """Whether an array of this shape is one sample, without an axis of samples, or a shared input."""
    return len(shape) == len(slot.shape)


def laid(slot: Slot, array: np.ndarray, where: str) -> np.ndarray:
    """An array as a file or function gives it, with its samples along the first axis.

    Raises:
        BadData: its shape is none that the network takes.
    """
    counted(slot, array.shape, where)
    if slot.shared:
        return array
    return array.reshape(-1, *slot.shape) if array.ndim != len(slot.shape) else array[None]


def counted(slot: Slot, shape: Sequence[int], where: str) -> int:
    """The number of samples of an array. To a graph for one sample at a time, (1, 3, 224, 224), an array may have one
    more axis in front.

    Raises:
        BadData: its shape is none that the network takes.
    """
    shape = tuple(shape)
    if shape == slot.shape:
        return 1
    if not slot.shared and shape[1:] == slot.shape:
        return shape[0]
    if slot.graph == (1, *slot.shape) and shape[1:] == slot.graph:
        return shape[0]
    raise BadData(f"{where}: {shown(slot.name)} is {in_words(shape)}, and the network takes {in_words(slot.graph)}")


def agreed(slots: Sequence[Slot], shapes: Sequence[Sequence[int]], where: str) -> int:
    """The number of samples of arrays, one for each input.

    Raises:
        BadData: inputs have different numbers of them, or a shape that the network does not take.
    """
    pairs = [(slot, counted(slot, shape, where)) for slot, shape in zip(slots, shapes, strict=True)]
    own = [(slot, count) for slot, count in pairs if not slot.shared]
    (first, count), other = own[0], next((pair for pair in own if pair[1] != own[0][1]), None)
    if other is not None:
        second, number = other
        raise BadData(f"{where}: {shown(first.name)} has {count} samples, and {shown(second.name)} has {number}")
    return count


def whole_piece(slots: Sequence[Slot], arrays: Sequence[np.ndarray], labels: Any, where: str, first: int) -> Piece:
    """Arrays that are all in memory, one for each input.

    Raises:
        BadData: as `agreed`; another number of labels.
    """
    count = agreed(slots, [array.shape for array in arrays], where)
    own = [laid(slot, array, where) for slot, array in zip(slots, arrays, strict=True)]
    return Piece(own, count, labelled(labels, count, where), where, first)


def labelled(labels: Any, count: int, where: str) -> Any:
    """Labels, one for each of `count` samples; one number is that of one sample.

    Raises:
        BadData: there is another number of them.
    """
    if labels is None:
        return None
    labels = plain(labels)
    if len(labels) != count:
        raise BadData(f"{where} has {count} samples and {len(labels)} labels")
    return labels


def plain(labels: Any) -> np.ndarray | list[Any]:
    """Labels as an array of numbers, or a list of anything else."""
    if not isinstance(labels, np.ndarray):
        labels = labels if isinstance(labels, list | tuple) else [labels]
        if not labels or isinstance(labels[0], str) or any(isinstance(each, dict) for each in labels):
            return [*labels]
        try:
            labels = np.array(labels)
        except (ValueError, OverflowError):  # lists of several lengths, as boxes in images
            return [*labels]
    array: np.ndarray = labels.reshape(1) if labels.ndim == 0 else labels
    if array.dtype.kind == "S":
        return [bytes(each).decode(errors="replace") for each in array.tolist()]
    return [*array.tolist()] if array.dtype.kind in "UO" else array


def matched(keys: Sequence[str], slots: Sequence[Slot], where: str) -> tuple[list[str], list[str]]:
    """Which named array is each input, and which ones are labels: by the names of the inputs; by the places, as
    `numpy.savez` names what has no name; or the only array beside the labels.

    Raises:
        BadData: an input has none.
    """
    names = [slot.name for slot in slots]
    marked = [key for key in LABELS if key in keys and key not in names]
    rest = [key for key in keys if key not in marked]
    places = [f"arr_{place}" for place in range(len(slots))]
    if {*names} <= {*keys}:
        return names, marked
    if {*rest} == {*places}:
        return places, marked
    if len(slots) == len(rest) == 1:
        return rest, marked
    missing = next(name for name in names if name not in keys)
    near = difflib.get_close_matches(missing, rest, n=1)
    hint = f"; is it {shown(near[0])}?" if near else ""
    raise BadData(f"{where} has {some(keys)}, and no {shown(missing)}, which the network takes{hint}")


def label_of(marked: Sequence[str], where: str) -> str | None:
    """The one name of labels, None if there is none.

    Raises:
        BadData: there are several.
    """
    if len(marked) > 1:
        raise BadData(f"{where} has {' and '.join(marked)}: which are the labels? Name them with --labels")
    return marked[0] if marked else None


def usual_label(keys: Sequence[str], path: Path) -> str:
    """The one of several names that labels usually have.

    Raises:
        BadData: there is none, or there are several.
    """
    label = label_of([key for key in LABELS if key in keys], shown(path))
    if label is None:
        example = f", --labels {shown(path)}:{shown(keys[0])}" if keys else ""
        raise BadData(f"{shown(path)} has {some(keys)}: say which are the labels{example}")
    return label


def some(names: Iterable[str]) -> str:
    """The first names, in words."""
    every = [shown(name)[:60] for name in names]
    return ", ".join(every[:NAMED]) + (", ..." if len(every) > NAMED else "") if every else "nothing"
