"""Checks tensors and types of an untrusted ONNX file: sizes match the data, data is where it may be."""

import math
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import onnx
import onnx_ir as ir

MAX_RANK = 32
MAX_TYPES = 16  # sequences of sequences of ...
MAX_INPUT = 2**28  # elements of an input, which is generated: 1 GiB of float32
MAX_ELEMENTS = 2**36  # elements of any other tensor: no machine holds that many

_ELEMENTS = onnx.TensorProto.DataType
_FIELDS: dict[str, tuple[str, ...]] = {  # the field of an element type's data if that is not in raw_data
    "float_data": ("FLOAT", "COMPLEX64"),
    "double_data": ("DOUBLE", "COMPLEX128"),
    "int64_data": ("INT64",),
    "uint64_data": ("UINT32", "UINT64"),
    "string_data": ("STRING",),
    "int32_data": (),  # all the others
}
_FIELD = {name: field for field, names in _FIELDS.items() for name in names}


class InvalidModel(ValueError):
    """A file that is not an ONNX model, or must not be opened: one line, safe to print."""

    what = "is not a valid ONNX file"

    def __init__(self, reason: object) -> None:
        super().__init__(plain(reason))


class NoOracle(InvalidModel):
    """A valid file that cannot be checked, because nothing computes it in float64."""

    what = "is valid, but has no oracle"


def plain(text: object, limit: int = 200) -> str:
    """The first nonempty line, without terminal control characters, cut to a length."""
    lines = ("".join(c for c in line if c.isprintable()).strip() for line in str(text)[:10_000].splitlines())
    return next((line for line in lines if line), type(text).__name__)[:limit]


def check_name(word: str | bytes) -> None:
    """Checks a name, which goes into messages, tables and generated text.

    Raises:
        InvalidModel: control characters, or not UTF-8, which protobuf returns as bytes.
    """
    if isinstance(word, bytes):
        raise InvalidModel(f"the name {plain(word, 60)} is no UTF-8")
    if not word.isprintable() and any(ord(c) < 32 or 127 <= ord(c) < 160 for c in word):
        raise InvalidModel(f"the name {plain(word, 60)!r} has control characters")


def check_dimensions(name: str, sizes: Iterable[int], rank: int, limit: int = MAX_ELEMENTS) -> None:
    """Raises InvalidModel if a shape is negative or huge."""
    sizes = list(sizes)
    if rank > MAX_RANK:
        raise InvalidModel(f"{name} has {rank} dimensions; {MAX_RANK} at most")
    if any(size < 0 for size in sizes):
        raise InvalidModel(f"{name} has the negative dimension {min(sizes)}")
    if (elements := math.prod(size or 1 for size in sizes)) > limit:
        raise InvalidModel(f"{name} has {elements} elements; {limit} at most")


def check_shapes(graph: onnx.GraphProto) -> None:
    """Checks every declared or inferred type of a graph, not of its subgraphs.

    Raises:
        InvalidModel: an unknown element type, a negative dimension, or a tensor no machine can hold.
    """
    stored = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        _check_type(value.type, value.name, MAX_ELEMENTS if value.name in stored else MAX_INPUT, 0)
    for value in (*graph.output, *graph.value_info):
        _check_type(value.type, value.name, MAX_ELEMENTS, 0)


def _check_type(kind: onnx.TypeProto, name: str, limit: int, depth: int) -> None:
    if depth == MAX_TYPES:
        raise InvalidModel(f"the type of {name!r} is nested more than {MAX_TYPES} deep")
    word = kind.WhichOneof("value")
    if word in ("sequence_type", "optional_type"):
        _check_type(getattr(kind, word).elem_type, name, limit, depth + 1)
    elif word == "map_type":  # ZipMap's result for a matrix
        raise NoOracle(f"{name!r} holds maps, not tensors")
    elif word in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(kind, word)
        if tensor.elem_type not in _ELEMENTS.values():
            raise InvalidModel(f"{name!r} has the unknown element type {tensor.elem_type}")
        axes = tensor.shape.dim
        check_dimensions(repr(name), (a.dim_value for a in axes if a.HasField("dim_value")), len(axes), limit)


def data_size(tensor: onnx.TensorProto) -> int:
    """The bytes that a tensor's shape and type need; 0 for strings, whose bytes are not known."""
    bits = 0 if tensor.data_type == onnx.TensorProto.STRING else ir.DataType(tensor.data_type).bitwidth
    return (math.prod(tensor.dims) * bits + 7) // 8


def is_external(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def check_tensor(tensor: onnx.TensorProto, where: str) -> None:
    """Accepts a shape only if there is as much data as it needs.

    Raises:
        InvalidModel: an unknown type, a shape that is negative, huge or not that of the data, or data in two places.
    """
    check_name(tensor.name)
    if tensor.data_type not in _ELEMENTS.values() or not tensor.data_type:
        raise InvalidModel(f"{where} has the unknown element type {tensor.data_type}")
    check_dimensions(where, tensor.dims, len(tensor.dims))
    if tensor.HasField("segment"):
        raise InvalidModel(f"{where} is stored in segments, which nobody reads")
    counts = {field: count for field in _FIELDS if (count := len(getattr(tensor, field)))}
    raw = len(tensor.raw_data)
    if is_external(tensor):
        if counts or raw or tensor.data_type == onnx.TensorProto.STRING:
            raise InvalidModel(f"{where} has data in the file and outside")
        return
    field, count = _needed(tensor)
    if raw and not counts and field != "string_data":
        if raw != data_size(tensor):
            raise InvalidModel(f"{where} has {raw} bytes of data and the shape {list(tensor.dims)}")
    elif raw or counts != ({field: count} if count else {}):
        raise InvalidModel(f"{where} has the shape {list(tensor.dims)} and other data: {counts or 'none'}")


def _needed(tensor: onnx.TensorProto) -> tuple[str, int]:
    """The field of typed data and its required number of entries."""
    name, size = _ELEMENTS.Name(tensor.data_type), math.prod(tensor.dims)
    if name.startswith("COMPLEX"):
        size *= 2
    elif name != "STRING" and ir.DataType(tensor.data_type).bitwidth < 8:
        size = data_size(tensor)  # packed: an entry is a byte
    return _FIELD.get(name, "int32_data"), size


def check_external(tensor: onnx.TensorProto, folder: Path) -> None:
    """Rejects a location by its text first, and opens nothing: it only reads the path's own entry.

    Raises:
        InvalidModel: not in the model's folder, reached through a link, not a regular file, or shorter than the tensor.
    """
    facts: Mapping[str, str] = {entry.key: entry.value for entry in tensor.external_data}
    location, named = facts.get("location", ""), f"the external data of {tensor.name!r}"
    parts = PurePosixPath(location).parts
    check_name(location)
    if not parts or location.startswith("/") or ".." in parts or "\\" in location or ":" in parts[0]:
        raise InvalidModel(f"{named} lies outside the model's folder: {plain(location, 80)!r}")
    offset, length = (_integer(facts.get(key), named) for key in ("offset", "length"))
    path = folder
    for part in parts:
        path = path / part
        try:
            about = os.lstat(path)
        except (OSError, ValueError) as error:
            raise InvalidModel(f"{named} is missing: {plain(location, 80)!r}") from error
        if stat.S_ISLNK(about.st_mode):
            raise InvalidModel(f"{named} is reached through a link: {plain(location, 80)!r}")
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        raise InvalidModel(f"{named} is no file of its own (a folder, a device, a hard link): {plain(location, 80)!r}")
    size = data_size(tensor)
    if length not in (None, size):
        raise InvalidModel(f"{named} has {length} bytes; its shape {list(tensor.dims)} needs {size}")
    if (offset or 0) + size > about.st_size:
        raise InvalidModel(f"{named} ends behind the end of {plain(location, 80)!r}")


def _integer(text: str | None, named: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise InvalidModel(f"{named} has an offset or a length that is no number: {plain(text, 40)!r}")
    return int(text)
