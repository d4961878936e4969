"""Reads the answers to a question: arrays that another program wrote, in any of four forms. They may be hostile."""

import contextlib
import io
import math
import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from xbench.converters import files
from xbench.converters.printable import one_line, visible
from xbench.errors import XBenchError
from xbench.proof.question import EVERY, TENSORS, Question, Tensor, in_words, set_name

MOST = 4  # times as many bytes as expected: another type, a little more
BESIDE = 1 << 16  # bytes of a file that are no values
FORMS = (".npy", ".pb", ".bin")
OWN = re.compile(r"output_\d+\.(npy|pb|bin)", re.ASCII)
NAMED = 3  # names in a message


def outputs(question: Question, folder: Path, number: int) -> dict[str, np.ndarray]:
    """The answers to a set, as references name them; fewer if files are missing.

    Raises:
        XBenchError: there are none, or a file cannot be read.
    """
    place, tensors = folder / set_name(number), question.facts["outputs"]
    if not os.path.isdir(folder):
        raise XBenchError(f"there is no folder of answers at {folder}")
    archive, own = place / "outputs.npz", _own_files(place)
    if archive.exists() and own:
        raise XBenchError(f"{place} has outputs.npz and {own[0]}: which are the answers?")
    if extra := next(
        (name for name in own if Path(name).stem not in {f"output_{n}" for n in range(len(tensors))}), None
    ):
        raise XBenchError(f"{place} has {extra}, but there are {len(tensors)} outputs, from output_0 on")
    given = dict(_named(archive, tensors, number)) if archive.exists() else dict(_single(place, tensors, number))
    if not given:
        raise XBenchError(
            f"no answers in {place}: write outputs.npz, or output_0.npy, output_0.pb or output_0.bin"
            + (f", and so on to output_{len(tensors) - 1}" if len(tensors) > 1 else "")
        )
    return given


def every_tensor(question: Question, folder: Path, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """The values of tensors inside the model that the answers have, by name; `sizes` are the bytes of each in float64.

    Raises:
        XBenchError: the file cannot be read, or names no tensor of the model.
    """
    if not (path := tensors_file(folder)).exists():
        return {}
    if unknown := next((key for key in _keys(path) if key not in sizes), None):
        raise XBenchError(f"{path} has {visible(unknown)[:60]}, which is no tensor of {EVERY}")
    return {f"output/{key}": array for key, array in _arrays(path, sizes.get)}


def tensors_file(folder: Path) -> Path:
    """The file with values of tensors inside the model."""
    return folder / set_name(0) / f"{TENSORS}.npz"


def _own_files(place: Path) -> list[str]:
    """The files of single outputs in a folder."""
    if not place.is_dir():
        return []
    return sorted(
        path.name for path in place.iterdir() if re.fullmatch(r"output_\d+\.(npy|pb|bin)", path.name, re.ASCII)
    )


def _named(path: Path, tensors: Sequence[Tensor], number: int) -> Iterator[tuple[str, np.ndarray]]:
    """The outputs in an archive: by their names, by the names of their files, or, as `numpy.savez` names what has no
    name, by their places."""
    known = {word: place for place in range(len(tensors)) for word in (f"arr_{place}", f"output_{place}")}
    known |= {each["key"]: place for place, each in enumerate(tensors)}
    known |= {each["name"]: place for place, each in enumerate(tensors)}  # its own name is what a word means first

    def size(key: str) -> int | None:
        return _bytes(tensors[known[key]], number) if key in known else None

    names = _keys(path)
    if len(names) == len(tensors) == 1:
        known = {names[0]: 0}
    if unknown := [name for name in names if name not in known]:
        listed = ", ".join(visible(name)[:60] for name in unknown[:NAMED]) + (", ..." if len(unknown) > NAMED else "")
        wanted = ", ".join(visible(each["key"])[:60] for each in tensors[:NAMED])
        raise XBenchError(f"{path} has {listed}, which is no output: they are {wanted}")
    if len({known[name] for name in names}) < len(names):
        raise XBenchError(
            f"{path} has an output twice, among {', '.join(visible(name)[:60] for name in names[:NAMED])}"
        )
    for key, array in _arrays(path, size):
        yield f"output/{tensors[known[key]]['name']}", array


def _single(place: Path, tensors: Sequence[Tensor], number: int) -> Iterator[tuple[str, np.ndarray]]:
    """The outputs in files of their own."""
    for index, tensor in enumerate(tensors):
        found = [path for form in FORMS if (path := place / f"output_{index}{form}").exists()]
        if len(found) > 1:
            raise XBenchError(f"{place} has output_{index} twice: {' and '.join(path.name for path in found)}")
        for path in found:
            yield f"output/{tensor['name']}", _array(path, tensor, number)


def _array(path: Path, tensor: Tensor, number: int) -> np.ndarray:
    try:
        with files.opened(path) as file:
            data = file.read(_limit(_bytes(tensor, number)) + 1)
        if len(data) > _limit(_bytes(tensor, number)):
            raise ValueError(f"it is longer than {MOST} times what the graph gives")
        if path.suffix == ".npy":
            return _npy(io.BytesIO(data), len(data))
        return _proto(data) if path.suffix == ".pb" else _raw(data, tensor, number)
    except XBenchError:
        raise
    except Exception as error:  # whatever the reader of a damaged file raises
        raise XBenchError(f"{path} cannot be read: {one_line(error)}") from error


def _raw(data: bytes, tensor: Tensor, number: int) -> np.ndarray:
    shape, dtype = tensor["shapes"][number], _dtype(tensor["dtype"])
    if len(data) != (size := math.prod(shape) * dtype.itemsize):
        hint = {2 * len(data): "; is it of 16 bits?", len(data) / 2: "; is it float64?"}.get(size, "")
        raise ValueError(f"it has {len(data)} bytes, where {dtype.name} of shape {in_words(shape)} is {size}{hint}")
    if dtype.kind == "b" and max(data, default=0) > 1:
        raise ValueError("a bool is 0 or 1")
    return np.frombuffer(data, dtype).reshape(shape)


def _proto(data: bytes) -> np.ndarray:
    import onnx

    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(data)
    except Exception as error:  # of protobuf, which has no types
        raise ValueError("it is no TensorProto of ONNX") from error
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ValueError("its values are in another file")
    if min(tensor.dims, default=0) < 0:
        raise ValueError("a size is negative")
    return np.asarray(onnx.numpy_helper.to_array(tensor))


def _npy(file: IO[bytes], size: int) -> np.ndarray:
    """An array of NumPy's format. Its header must not claim more values than there are."""
    with file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError("it is of no version of NumPy's format")
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = header(file)
        if dtype.hasobject:
            raise ValueError("it has Python objects")
        if min(shape, default=0) < 0:
            raise ValueError("a size is negative")
        count = math.prod(shape) * dtype.itemsize
        if count > size:
            raise ValueError("it is cut short")
        array = np.frombuffer(file.read(count), dtype)
        if file.read(1):
            raise ValueError("it is longer than its header says")
    array = array.reshape(shape[::-1]).T if fortran else array.reshape(shape)
    if array.dtype.kind == "V" and array.dtype.itemsize == 2 and not array.dtype.names:  # as NumPy writes bfloat16
        array = array.view(_dtype("bfloat16"))
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _keys(path: Path) -> list[str]:
    try:
        with files.opened(path) as file, zipfile.ZipFile(file) as archive:
            return [each.filename.removesuffix(".npy") for each in archive.infolist()]
    except Exception as error:
        raise XBenchError(f"{path} cannot be read: {one_line(error)}") from error


def _arrays(path: Path, size: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of an archive. `size` gives the bytes that one should have by its name, None for one to leave out."""
    try:
        with files.opened(path) as file, zipfile.ZipFile(file) as archive:
            for each in archive.infolist():
                key = each.filename.removesuffix(".npy")
                if (expected := size(key)) is None:
                    continue
                if each.file_size > _limit(expected):
                    raise ValueError(f"{key} is longer than {MOST} times what the graph gives")
                yield key, _npy(archive.open(each), each.file_size)
    except XBenchError:
        raise
    except Exception as error:
        raise XBenchError(f"{path} cannot be read: {one_line(error)}") from error


def _bytes(tensor: Tensor, number: int) -> int:
    return math.prod(tensor["shapes"][number]) * _dtype(tensor["dtype"]).itemsize


def _limit(expected: int) -> int:
    return MOST * expected + BESIDE


def _dtype(name: str) -> np.dtype[Any]:
    """
    Raises:
        XBenchError: there is no such type.
    """
    import ml_dtypes

    with contextlib.suppress(TypeError, ValueError):
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        if dtype.name == name and not dtype.hasobject:
            return dtype
    raise XBenchError(f"the question is damaged: there is no type {one_line(name, 60)}")
