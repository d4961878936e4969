"""Values in the type that a graph takes: what may be converted, and which values are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np

from xbench.data import BadData
from xbench.data.own.opening import shown
from xbench.data.own.slots import Slot

TABLE = "indexes the table "  # begins the reason for the range of an input that does
Name = Callable[[int], str]


def kind(dtype: np.dtype[Any]) -> str:
    """What a type is in words: float, integer, bool, or other. NumPy itself has no kind for bfloat16 and int4."""
    for words, each in ((("float", "bfloat"), "float"), (("int", "uint"), "integer"), (("bool",), "bool")):
        if dtype.name.startswith(words):
            return each
    return "other"


def named(dtype: np.dtype[Any]) -> str:
    """A type's name, for texts and Python objects in words."""
    return {"U": "texts", "S": "texts", "O": "objects", "M": "dates", "V": "records"}.get(
        dtype.kind if kind(dtype) == "other" else "", dtype.name
    )


def native(array: np.ndarray) -> np.ndarray:
    """An array in the machine's order of bytes. Unnamed 16 bits are what NumPy writes of bfloat16."""
    dtype = array.dtype
    if dtype.kind == "V" and dtype.itemsize == 2 and dtype.names is None and kind(dtype) == "other":
        import ml_dtypes

        return array.view(ml_dtypes.bfloat16)
    return array.astype(dtype.newbyteorder("="), copy=False)


def converted(slot: Slot, values: np.ndarray, name: Name) -> np.ndarray:
    """A new array in the type of an input. `name` gives the name of a sample by its index; the first axis of `values`
    is the samples unless the input is shared.

    Raises:
        BadData: a value does not fit the type, is NaN, or is no row of the table that the input indexes.
    """
    values = native(values)
    if kind(slot.dtype) in ("integer", "bool"):
        _check_range(slot, values, name)
    with np.errstate(all="ignore"):
        new = np.array(values, slot.dtype, order="C")
    if kind(slot.dtype) == "float":
        _check(slot, np.isnan(new), values, name, "")
        if values.dtype.itemsize >= slot.dtype.itemsize and values.dtype != slot.dtype:
            _check(slot, np.isinf(new) & ~np.isinf(values), values, name, f", which is too large for {slot.dtype.name}")
    return new


def check_type(slot: Slot, array: np.ndarray, where: str) -> None:
    """
    Raises:
        BadData: the array is of a type that is not the network's, and that does not become it without a guess.
    """
    given = native(array[:0] if array.ndim else array).dtype
    pair = kind(given), kind(slot.dtype)
    if given == slot.dtype or (pair[0] != "other" and pair[0] == pair[1]) or {*pair} == {"integer", "bool"}:
        return
    remedy = ""
    if "other" not in pair:
        remedy = ": scale it first" if given == np.uint8 else ": convert it first"
    raise BadData(f"{where}: {shown(slot.name)} is {named(given)}, and the network takes {slot.dtype.name}{remedy}")


def _check_range(slot: Slot, values: np.ndarray, name: Name) -> None:
    """Integers must fit the type. An index may count from the end of its table, as ONNX defines it."""
    if values.dtype.kind == "b":
        return
    if not np.can_cast(values.dtype, slot.dtype, "safe"):
        low, high = _limits(slot.dtype)
        _check(slot, (values < low) | (values > high), values, name, f", and {slot.dtype.name} is {low} to {high}")
    if slot.why.startswith(TABLE):
        low, high = int(slot.low), int(slot.high)
        after = f", and {shown(slot.name)} {shown(slot.why)}: {low} to {high - 1}"
        _check(slot, (values >= high) | (values < min(-high, low)), values, name, after)


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind in "iu":
        info: Any = np.iinfo(dtype)
    else:
        import ml_dtypes

        info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def _check(slot: Slot, wrong: np.ndarray, values: np.ndarray, name: Name, after: str) -> None:
    """
    Raises:
        BadData: a value is wrong: the first one, with its sample and its place there.
    """
    if not wrong.any():
        return
    place = [int(each) for each in np.unravel_index(int(np.argmax(wrong)), wrong.shape)]
    value = values[tuple(place)]
    sample, inside = (0, place) if slot.shared else (place[0], place[1:])
    where = f"{shown(slot.name)}{inside}" if inside else shown(slot.name)
    word = "NaN" if not after else f"{float(value):g}" if kind(values.dtype) == "float" else str(int(value))
    raise BadData(f"{name(sample)}: {where} is {word}{after}")
