"""Reads files that may be missing, truncated, swapped or malicious: a bounded number of bytes, or a one-line error."""

import gzip
import zlib
from pathlib import Path

from xbench.data import BadData

LARGEST = 2**30  # bytes; the files of all sets here are under a quarter of it


def content(path: Path) -> bytes:
    """All bytes of a file, unpacked if its name ends in .gz.

    Raises:
        BadData: it cannot be read, or has more than `LARGEST` bytes.
    """
    if not path.is_file():  # a folder, or a pipe, which may never end
        raise BadData(f"{path} is no regular file" if path.exists() else f"no file {path}; nothing is downloaded")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except gzip.BadGzipFile as error:
        raise BadData(f"{path} is no gzip file") from error
    except (EOFError, zlib.error) as error:
        raise BadData(f"{path} is cut short or damaged: {error}") from error
    except OSError as error:
        raise BadData(f"cannot read {path}: {error.strerror}") from error
    if len(data) > LARGEST:
        raise BadData(f"{path} holds more than {LARGEST >> 20} MiB: it is no file of this set")
    return data


def text(path: Path) -> str:
    """A file of UTF-8.

    Raises:
        BadData: as `content`, or other bytes.
    """
    try:
        return content(path).decode()
    except UnicodeDecodeError as error:
        raise BadData(f"{path} is no UTF-8 text: byte {error.start} cannot be read") from error
