"""Opens files and lists folders that a user names: only regular files, without waiting, and every fault is one line."""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from xbench.data import BadData

LARGEST = 2**30  # bytes of what is held in memory as a whole
LENGTH = 300  # characters of a foreign message
UNREADABLE = {errno.ENXIO: "it is no regular file"}


def shown(name: object) -> str:
    """A name as part of a line: what a terminal does not print is written as in Python."""
    text = str(name)
    return text if text.isprintable() else repr(text)[1:-1]


def one_line(error: BaseException) -> str:
    """The first line of an exception's text that is not empty, or the exception's type."""
    try:
        text = str(error)[: 10 * LENGTH]
    except BaseException:  # the text of an exception comes from foreign code
        text = ""
    lines = ("".join(c for c in line if c.isprintable()).strip() for line in text.splitlines())
    return next((line for line in lines if line), type(error).__name__)[:LENGTH]


@contextlib.contextmanager
def readable(name: object) -> Iterator[None]:
    """Turns whatever the reader of a damaged file raises into a fault that names the file.

    Raises:
        BadData: the block raises.
    """
    try:
        yield
    except BadData:
        raise
    except MemoryError as error:
        raise BadData(f"{shown(name)} does not fit into the memory") from error
    except Exception as error:
        raise BadData(f"{shown(name)} cannot be read: {one_line(error)}") from error


def opened(path: Path) -> BufferedReader:
    """The file, opened for reading: a pipe would wait for its writer, and a device never ends.

    Raises:
        BadData: it is not there, is no regular file, or cannot be opened.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise BadData(f"no file {shown(path)}") from error
    except (OSError, ValueError) as error:
        reason = UNREADABLE.get(getattr(error, "errno", 0)) or getattr(error, "strerror", "") or one_line(error)
        raise BadData(f"cannot read {shown(path)}: {reason}") from error
    if stat.S_ISREG(os.fstat(file).st_mode):
        return os.fdopen(file, "rb")
    os.close(file)
    raise BadData(f"cannot read {shown(path)}: it is no regular file")


def content(path: Path) -> bytes:
    """All bytes of a file.

    Raises:
        BadData: as `opened`, or it has more than `LARGEST` bytes.
    """
    with opened(path) as file, readable(path):
        data = file.read(min(os.fstat(file.fileno()).st_size, LARGEST) + 1)
    if len(data) > LARGEST:
        raise BadData(f"{shown(path)} has more than {LARGEST >> 20} MiB")
    return data


def text(path: Path) -> str:
    """A file of UTF-8, with or without the mark at its beginning.

    Raises:
        BadData: as `content`, or other bytes.
    """
    try:
        return content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadData(f"{shown(path)} is no UTF-8 text: byte {error.start} cannot be read") from error


def listed(folder: Path) -> list[str]:
    """The names in a folder, except hidden ones, in natural order.

    Raises:
        BadData: it cannot be read.
    """
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise BadData(f"cannot read the folder {shown(folder)}: {error.strerror}") from error
    return sorted((name for name in names if not name.startswith(".")), key=natural)


def natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """A key that puts 9 before 10. Names that are the same but for leading zeros are in the order of their letters."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part), "") if place % 2 else (-1, part) for place, part in enumerate(parts)], name
