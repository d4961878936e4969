"""Reads .npy, .npz and .safetensors, of which nothing is trusted: no Python objects, and no header that claims more
values than there are bytes. A large file is read part by part."""

import contextlib
import functools
import math
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np

from xbench.data import BadData
from xbench.data.own.opening import LARGEST, opened, readable, shown
from xbench.data.own.slots import Asked, Piece, agreed, is_one, label_of, labelled, laid, matched, some, usual_label

PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as NumPy writes; others unpack without a limit
RATIO = 200  # of a bomb's bytes, unpacked, to those in the file; samples have some content
SUFFIXES = (".npy", ".npz", ".safetensors")


@dataclass(frozen=True)
class Stored:
    """An array in a file. `rows` reads those from a start to a stop, each once, in order; `whole` reads all, for which
    `size` bytes of memory are needed."""

    shape: tuple[int, ...]
    size: int
    rows: Callable[[int, int], np.ndarray]
    whole: Callable[[], np.ndarray]


Arrays = dict[str, Callable[[], Stored]]  # the header of an array is read when it is asked for


@contextlib.contextmanager
def stored(path: Path) -> Iterator[Arrays]:
    """The arrays of a file by their names; that of .npy has the name "".

    Raises:
        BadData: it cannot be read.
    """
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(opened(path))
        with readable(path):
            if path.suffix.lower() == ".npy":
                arrays: Arrays = {"": functools.partial(_mapped, file)}
            elif path.suffix.lower() == ".npz":
                arrays = _members(stack.enter_context(zipfile.ZipFile(file)), _size(file))
            else:
                arrays = _tensors(path, stack)
        yield arrays


def pieces(path: Path, where: str, asked: Asked) -> Iterator[Piece]:
    """The samples of a file; `where` is its name in theirs.

    Raises:
        BadData: it cannot be read, or has no array for an input.
    """
    slots = asked.slots
    with stored(path) as arrays:
        if [*arrays] == [""] and len(slots) > 1:
            raise BadData(f"{where} has one array, and the network takes {some(slot.name for slot in slots)}")
        keys, marked = matched([*arrays], slots, where)
        with readable(path):
            chosen = [arrays[key]() for key in keys]
        count = agreed(slots, [each.shape for each in chosen], where)
        label = label_of(marked, where) if asked.labels else None
        labels = None if label is None else labelled(_named(arrays, path, label), count, where)
        first = None if all(slot.shared or is_one(slot, each.shape) for slot, each in zip(slots, chosen)) else 0
        yield from _parts(path, where, asked, chosen, Piece([], count, labels, where, first, count))


def _parts(path: Path, where: str, asked: Asked, chosen: Sequence[Stored], every: Piece) -> Iterator[Piece]:
    """Parts of the samples `every`, which has no arrays; what has no axis of samples is read once."""
    pairs = list(zip(asked.slots, chosen))
    singles = {n: _read(each, path, slot.name) for n, (slot, each) in enumerate(pairs) if is_one(slot, each.shape)}
    for start in range(0, every.count, asked.rows):
        stop = min(start + asked.rows, every.count)
        with readable(path):
            arrays = [singles[n] if n in singles else each.rows(start, stop) for n, (_, each) in enumerate(pairs)]
        arrays = [laid(slot, array, where) for slot, array in zip(asked.slots, arrays)]
        labels = None if every.labels is None else every.labels[start:stop]
        yield Piece(arrays, stop - start, labels, where, None if every.first is None else start, every.count)


def label_array(path: Path, key: str) -> np.ndarray:
    """The labels in a file, by their name in an archive: "" for the only array, or the one that has a usual name.

    Raises:
        BadData: it cannot be read, or has no such array.
    """
    with stored(path) as arrays:
        if key and key not in arrays:
            raise BadData(f"{shown(path)} has no {shown(key)}: it has {some(arrays)}")
        if not key:
            key = next(iter(arrays)) if len(arrays) == 1 else usual_label([*arrays], path)
        return _named(arrays, path, key)


def _named(arrays: Arrays, path: Path, name: str) -> np.ndarray:
    with readable(path):
        array = arrays[name]()
    return _read(array, path, name)


def _read(array: Stored, path: Path, name: str) -> np.ndarray:
    if array.size > LARGEST:
        raise BadData(f"{shown(path)}: {shown(name)} has more than {LARGEST >> 20} MiB")
    with readable(path):
        return array.whole()


def _size(file: BufferedReader) -> int:
    return os.fstat(file.fileno()).st_size


def _mapped(file: BufferedReader) -> Stored:
    shape, fortran, dtype = _header(file, _size(file))
    if not math.prod(shape):
        array = np.empty(shape, dtype)
    else:
        order = "F" if fortran else "C"
        array = np.memmap(file, dtype, "r", file.tell(), shape, order)  # type: ignore[call-overload]
    return Stored(shape, 0, lambda start, stop: array[start:stop], lambda: array)


def _members(archive: zipfile.ZipFile, size: int) -> Arrays:
    arrays: Arrays = {}
    for each in archive.infolist():
        if not each.filename.endswith(".npy"):
            continue
        key = each.filename.removesuffix(".npy")
        if key in arrays:
            raise ValueError(f"it has {shown(key)} twice")
        arrays[key] = functools.partial(_member, archive, each, size)
    return arrays


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> Stored:
    """An array of an archive of `size` bytes. It is unpacked as it is read."""
    if member.compress_type not in PACKED:
        raise ValueError(f"{shown(member.filename)} is packed in a way that NumPy does not write")
    if member.compress_size > size:
        raise ValueError("it is cut short")
    if member.file_size > LARGEST and member.file_size > RATIO * member.compress_size:
        packed, full = member.compress_size >> 20, member.file_size >> 20
        raise ValueError(f"{shown(member.filename)} unpacks to {full} MiB from {packed} MiB: write it with numpy.savez")
    file = archive.open(member)
    shape, fortran, dtype = _header(file, member.file_size)
    size = math.prod(shape) * dtype.itemsize
    if not fortran or len(shape) < 2:
        return Stored(
            shape,
            size,
            lambda start, stop: _taken(file, (stop - start, *shape[1:]), dtype),
            lambda: _taken(file, shape, dtype),
        )

    @functools.cache
    def whole() -> np.ndarray:
        if size > LARGEST:
            raise ValueError("its order is Fortran's, in which it cannot be read part by part: write it in that of C")
        return _taken(file, shape[::-1], dtype).T

    return Stored(shape, size, lambda start, stop: whole()[start:stop], whole)


def _header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array of NumPy's format; the rest of the `size` bytes are its values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = np.lib.format.read_magic(file)  # type: ignore[arg-type]
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError("it is of no version of NumPy's format")
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = header(file)  # type: ignore[arg-type]
    if dtype.hasobject:
        raise ValueError("it has Python objects, which are not read: they can run any code")
    if min(shape, default=0) < 0 or not dtype.itemsize:
        raise ValueError("a size is negative, or its type has none")
    claimed, there = math.prod(shape) * dtype.itemsize, size - file.tell()
    if claimed > there:
        raise ValueError(f"it is cut short: its header claims {claimed} bytes of values, and {there} are there")
    if claimed < there:
        raise ValueError("it is longer than its header says")
    return shape, fortran, dtype


def _taken(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    count = math.prod(shape) * dtype.itemsize
    data = file.read(count)
    if len(data) < count:
        raise ValueError("it is cut short")
    return np.frombuffer(data, dtype).reshape(shape)


def _tensors(path: Path, stack: contextlib.ExitStack) -> Arrays:
    import ml_dtypes  # noqa: F401  which tells NumPy of bfloat16
    from safetensors import safe_open

    file = stack.enter_context(safe_open(path, "np"))
    return {key: functools.partial(_tensor, file, key) for key in file.keys()}  # noqa: SIM118  it is no dictionary


def _tensor(file: Any, key: str) -> Stored:
    part = file.get_slice(key)
    shape = tuple(part.get_shape())
    return Stored(shape, math.prod(shape), lambda start, stop: part[start:stop], lambda: file.get_tensor(key))
