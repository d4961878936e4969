"""The results store: `results.jsonl`, one record a line, appended and never rewritten (format: docs/results.md).

Requirements: `kill -9`, a full disk or a power cut at any moment may lose the line being written and nothing else;
lines stay intact if others append too, though only one command measures into a folder (`turn.py`); lines are strict
JSON, so that any other program can read them.
"""

import contextlib
import errno
import fcntl
import itertools
import json
import math
import numbers
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbench.errors import XBenchError
from xbench.host.memory import uncollected
from xbench.store import schema
from xbench.store.record import Record
from xbench.store.schema import VERSION

FOLDER = Path("xbench-results")
FILE = "results.jsonl"
LONGEST = 1 << 28  # bytes of a line


class StoreError(XBenchError):
    """The store cannot be written or read; the message is one line that names the file and what to do."""


class NewerStore(StoreError):
    """A newer xbench has written the store."""


@dataclass(frozen=True)
class Store:
    """A results file that could be opened for writing when the store was opened."""

    path: Path

    def append(self, *records: Record) -> None:
        """Write records and wait until the disk has them; on failure the file is as it was before."""
        lines = b"".join(encode({"schema": VERSION, **record}) for record in records)
        with _locked(self.path) as file:
            end, separator = _cut_torn_line(file)
            _write(file, separator + lines, end)

    def read(self) -> list[Record]:
        """Return all complete records, oldest first."""
        return read(self.path)


def open_store(folder: Path = FOLDER, file: str = FILE) -> Store:
    """Make the folder and its results file; raise at once if nothing could be written later."""
    path = folder / file
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _failure("cannot make the output folder", folder, error) from error
    with _locked(path):
        pass
    _flush_folder(folder)
    return Store(path)


def read(path: Path) -> list[Record]:
    """Return all complete records of a results file, oldest first, those of older formats in the current one; a last
    line that was cut short is left out.

    Raises:
        StoreError: there is no such file, or a line that is no record.
    """
    with uncollected():
        return [_decode(line, path, number) for number, line in _lines(path)]


def salvage(path: Path) -> tuple[list[Record], list[str]]:
    """Return the records of a results file that can be read, and a sentence about each line that cannot, for showing
    what there is.

    Raises:
        StoreError: there is no such file, or a newer xbench has written into it: it would be misread, not damaged.
    """
    records: list[Record] = []
    problems: list[str] = []
    with uncollected():
        for number, line in _lines(path):
            try:
                records.append(_decode(line, path, number))
            except NewerStore:
                raise
            except StoreError as error:
                problems.append(str(error))
    return records, problems


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a results file with their numbers."""
    from xbench.converters import files  # its package imports NumPy, which a command's help does not need

    try:
        with files.opened(path, links=False) as file:
            for number in itertools.count(1):
                line = file.readline(LONGEST)
                if len(line) == LONGEST:
                    raise StoreError(f"{path}, line {number}: longer than {LONGEST >> 20} MiB, which no record is")
                if line.strip() and (line.endswith(b"\n") or _is_complete(line)):
                    yield number, line
                if not line:
                    return
    except (FileNotFoundError, NotADirectoryError) as error:
        from xbench.converters.printable import shell  # imports NumPy, which a command's help does not need

        first = shell("xbench", "time", "--out", path.parent)
        raise StoreError(f"no results in {path.parent}: run `{first}` first") from error
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error


def latest(records: Iterable[Record]) -> dict[str, Record]:
    """Return the last record of each key."""
    return {record["key"]: record for record in records}


def encode(record: Record) -> bytes:
    """Return the line of a record: strict JSON, ASCII, one newline at its end."""
    problem = schema.problem(record)
    if problem:
        raise ValueError(f"not a record: {problem}")
    return json.dumps(_plain(record), allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def _plain(value: Any) -> Any:
    """Return the value in JSON's own types: NaN and infinities as null, NumPy's scalars as numbers."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    return value  # json refuses it with a TypeError that names the type


def _decode(line: bytes, path: Path, number: int) -> Record:
    """Return the record of a line, in the current format; if it is none, raise with the file and the line number."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}, line {number}: not JSON; remove that line or choose another --out") from error
    if problem := schema.unreadable(record):
        raise (NewerStore if schema.is_newer(record) else StoreError)(f"{path}, line {number}: {problem}")
    return schema.migrated(record)


def _is_complete(tail: bytes) -> bool:
    """Whether the text after the last newline is a complete object: no proper prefix of an object parses."""
    try:
        return isinstance(json.loads(tail), dict)
    except (ValueError, RecursionError):
        return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open the file for appending and hold its lock; every OSError inside becomes a StoreError."""
    from xbench.converters import files

    try:
        file = files.descriptor(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, links=False)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)  # and with it the lock
    except OSError as error:
        raise _failure("cannot write", path, error) from error


def _cut_torn_line(file: int) -> tuple[int, bytes]:
    """Cut off a last line that was cut short. Return the length in bytes and what must precede the next line."""
    end = os.fstat(file).st_size
    start, tail = end, b""
    while start and b"\n" not in tail:
        step = min(start, 1 << 16)
        start -= step
        tail = os.pread(file, step, start) + tail
    tail = tail.rpartition(b"\n")[2]
    if _is_complete(tail):
        return end, b"\n"  # only its newline is missing, as some editors leave it
    if tail:
        os.ftruncate(file, end - len(tail))
    return end - len(tail), b""


def _write(file: int, line: bytes, end: int) -> None:
    """Write the line at the end of the file and flush it; on failure cut the file back to its `end`, in bytes."""
    try:
        written = os.write(file, line)
        while written < len(line):  # a nearly full disk takes a part; the next call raises the reason
            written += os.write(file, line[written:])
        os.fsync(file)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(file, end)
        raise


def _flush_folder(folder: Path) -> None:
    """Flush the folder's entry of a new file, which a power cut could lose; not every file system can do it."""
    with contextlib.suppress(OSError):
        entry = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)


def _failure(what: str, path: Path, error: OSError) -> StoreError:
    """Return the one line for an error of the operating system."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    advice = "free some space" if full else "choose another --out"
    return StoreError(f"{what} {path}: {error.strerror or error} ({advice}, then run the same command again)")
