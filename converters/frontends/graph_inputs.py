"""The names of an ONNX file's inputs, read from the file's bytes in microseconds: no library, no weights.

Only the three fields on the way to a name are read (https://protobuf.dev/programming-guides/encoding/, onnx.proto):
`ModelProto.graph`, `GraphProto.input`, `ValueInfoProto.name`. The file is not trusted: what cannot be read has no
names, and the export says what is wrong with it.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path

from xbench.converters.files import opened

GRAPH, INPUT, NAME = 7, 11, 1  # numbers of fields
VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5  # wire types
LONGEST = 10  # bytes of a varint
Span = tuple[int, int]


def input_names(path: Path) -> set[str]:
    """The names of the inputs of an ONNX file; of an old one its initializers, too. Empty if it cannot be read."""
    try:
        with opened(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return {
                str(content[slice(*name)], "utf-8")
                for graph in _fields(content, (0, len(content)), GRAPH)
                for value in _fields(content, graph, INPUT)
                for name in _fields(content, value, NAME)
            }
    except (OSError, ValueError, IndexError):
        return set()


def _fields(content: mmap.mmap, span: Span, wanted: int) -> Iterator[Span]:
    """The spans of all fields of a number in a message; only fields with a length are of interest."""
    at, end = span
    while at < end:
        key, at = _varint(content, at)
        kind = key & 7
        if kind == VARINT:
            _, at = _varint(content, at)
            continue
        size = {EIGHT_BYTES: 8, FOUR_BYTES: 4}.get(kind)
        if size is None:
            if kind != LENGTH:
                raise ValueError("a group, which ONNX has none of")
            size, at = _varint(content, at)
        if at + size > end:
            raise ValueError("a field is longer than its message")
        if kind == LENGTH and key >> 3 == wanted:
            yield at, at + size
        at += size


def _varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    """An integer, and the position after it."""
    value = 0
    for place in range(LONGEST):
        byte = content[at + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise ValueError("an integer without an end")
