"""Reads .parquet: a column for each input, of numbers, lists of them in lists, or images."""

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from xbench.data import BadData
from xbench.data.own import images
from xbench.data.own.opening import opened, readable, shown
from xbench.data.own.preprocessing import Look, look_of
from xbench.data.own.slots import Asked, Piece, Slot, in_words, label_of, matched, plain, some, usual_label

Name = Callable[[int], str]


def pieces(path: Path, where: str, asked: Asked) -> Iterator[Piece]:
    """The rows of a table; `where` is its name in theirs.

    Raises:
        BadData: it cannot be read, has no column for an input, or a row that does not fit.
    """
    slots = asked.slots
    with _table(path) as table:
        keys, marked = matched(table.schema_arrow.names, slots, where)
        if shared := next((slot for slot in slots if slot.shared), None):
            raise BadData(f"{where} has a row for each sample, and {shown(shared.name)} of the network is one for all")
        pictures = any(_is_image(table.schema_arrow.field(key).type) for key in keys)
        if asked.options and not pictures:
            raise BadData(f"{where} has no images, which {shown(asked.options)} is for")
        look = look_of(asked.options, slots, where) if pictures else None
        label, read = label_of(marked, where) if asked.labels else None, 0
        for batch in table.iter_batches(asked.rows, columns=[*keys, *filter(None, [label])]):
            name = Piece([], 0, None, where, read).name
            arrays = [_array(batch.column(key), slot, look, name) for slot, key in zip(slots, keys)]
            labels = None if label is None else _labels(batch.column(label), label, name)
            if batch.num_rows:
                yield Piece(arrays, batch.num_rows, labels, where, read, table.metadata.num_rows)
            read += batch.num_rows


def label_column(path: Path, key: str) -> np.ndarray | list[Any]:
    """A column of labels by its name: "" for the only one, or the one that has a usual name.

    Raises:
        BadData: it cannot be read, or has no such column.
    """
    with _table(path) as table:
        names, parts = table.schema_arrow.names, []
        if key and key not in names:
            raise BadData(f"{shown(path)} has no column {shown(key)}: it has {some(names)}")
        if not key:
            key = names[0] if len(names) == 1 else usual_label(names, path)
        read = 0
        for batch in table.iter_batches(columns=[key]):
            parts.append(_labels(batch.column(key), key, Piece([], 0, None, shown(path), read).name))
            read += batch.num_rows
    if parts and all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [label for part in parts for label in part]


@contextlib.contextmanager
def _table(path: Path) -> Iterator[Any]:
    """The open file, which is read row by row."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise BadData(f"{shown(path)} needs pyarrow: pip install pyarrow") from None
    with opened(path) as file, readable(path):
        table = parquet.ParquetFile(file)
        names = table.schema_arrow.names
        if len({*names}) < len(names):
            raise ValueError("two columns have the same name")
        yield table


def _is_image(kind: Any) -> bool:
    """Whether a column has the bytes of images, as datasets write them: alone, or beside their path."""
    import pyarrow

    if pyarrow.types.is_struct(kind):
        return bool(kind.get_field_index("bytes") >= 0)
    return bool(pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind))


def _array(column: Any, slot: Slot, look: Look | None, name: Name) -> np.ndarray:
    """The samples of some rows."""
    if look is None or not _is_image(column.type):
        return _dense(column, slot, name)
    samples = []
    for row, value in enumerate(column):
        data = value.as_py()
        data = data.get("bytes") if isinstance(data, dict) else data
        if not isinstance(data, bytes):
            raise BadData(f"{name(row)}: {shown(slot.name)} has no bytes of an image")
        samples.append(images.of_bytes(data, look, name(row)))
    return np.stack(samples)


def _dense(column: Any, slot: Slot, name: Name) -> np.ndarray:
    """Numbers, or lists of lists of numbers in the shape that the network takes."""
    import pyarrow
    from pyarrow import compute

    kinds, sizes = pyarrow.types, [len(column)]
    while True:
        each = max(1, math.prod(sizes[1:]))
        column = column.storage if isinstance(column.type, pyarrow.BaseExtensionType) else column
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))) // each
            raise BadData(f"{name(row)}: {shown(slot.name)} is null")
        kind, depth = column.type, len(sizes) - 1
        if not (kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)):
            break
        lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
        wanted = slot.shape[depth] if depth < len(slot.shape) else -1
        if len(wrong := np.flatnonzero(lengths != wanted)):
            deeper = ["..."] if kinds.is_nested(kind.value_type) else []
            shape = in_words([*sizes[1:], int(lengths[wrong[0]]), *deeper])
            raise BadData(_other(name(int(wrong[0]) // each), slot, shape))
        sizes.append(wanted)
        column = column.flatten()
    if sizes[1:] != [*slot.shape] and (len(sizes) > 1 or math.prod(slot.shape) != 1):
        raise BadData(_other(name(0), slot, in_words(sizes[1:])))
    return np.asarray(column.to_numpy(zero_copy_only=False)).reshape(-1, *slot.shape)


def _other(where: str, slot: Slot, shape: str) -> str:
    return f"{where}: {shown(slot.name)} is {shape}, and the network takes {in_words(slot.graph)}"


def _labels(column: Any, key: str, name: Name) -> np.ndarray | list[Any]:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise BadData(f"{name(row)}: {shown(key)} is null")
    return plain(column.to_pylist())
