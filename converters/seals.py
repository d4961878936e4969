"""Seals: digests next to the files of the cache. A damaged file is detected before a runtime is blamed for it.

A seal is a JSON file next to its files, with the size, the time and the digest of each, the name of what they are,
and a digest of itself. A small file is read at every check. A large one is trusted while its size and its time are the
sealed ones, or read too if the check is `thorough`.

A seal protects from accidents. Anyone who can write the folder can write a seal, so nothing is taken from a folder or
file that belongs to another user (except root), or that others may write.
"""

import functools
import hashlib
import json
import os
import stat
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xbench.converters import files, temporary

SUFFIX = ".seal"
SMALL = 1 << 20  # bytes of a file that is read at every check
MOST = 1 << 24  # bytes of a seal, or of a value kept as JSON
Facts = tuple[int, ...]  # of a file, from the file system
OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Damaged(UserWarning):
    """An entry of the cache was damaged, and is made again."""


class Broken(Exception):
    """A file has changed since it was made; one line."""


def seal(place: Path, of: str, names: Iterable[str]) -> None:
    """Writes the seal `place` of the files of these names in its folder or below; `of` says what they are.

    Raises:
        OSError: a file cannot be read, or the seal cannot be written.
    """
    files = {}
    for name in sorted(names):
        path = place.parent / name
        about = os.lstat(path)
        files[name] = {"size": about.st_size, "time": about.st_mtime_ns, "sha256": digest(path)}
    keep(place, of, files)


def broken(place: Path, of: str, thorough: bool = False) -> str | None:
    """What is wrong with the files of a seal, in a few words; None if they are as sealed, and of the kind `of`.
    `thorough` checks read all of every file."""
    if reason := _untrusted(place.parent, folder=True):
        return reason
    files = _kept(place, of)
    if not isinstance(files, dict) or not all(isinstance(about, dict) for about in files.values()):
        return f"{place.name} is missing or damaged"
    for name, about in files.items():
        if reason := _changed(place.parent / name, about, thorough):
            return reason
    return None


def keep(place: Path, of: str, value: Any) -> None:
    """Writes a value as JSON with its digest, atomically; `of` says what it is.

    Raises:
        OSError: it cannot be written.
    """
    with temporary.file(place) as new:
        new.write_text(json.dumps({"of": of, "value": value, "digest": _of_value(of, value)}))


def kept(place: Path, of: str) -> Any:
    """The value that was kept as `of`; None if there is none, or if it is damaged, which is warned of."""
    value = _kept(place, of)
    if value is None and os.path.lexists(place):
        warnings.warn(Damaged(f"{place} was damaged: it is made again"), stacklevel=2)
    return value


def _kept(place: Path, of: str) -> Any:
    if _untrusted(place):
        return None
    try:
        with files.opened(place, links=False) as file:
            record = json.loads(file.read(MOST))
    except (OSError, ValueError, RecursionError):
        return None
    known = isinstance(record, dict) and record.get("of") == of and "value" in record
    return record["value"] if known and record.get("digest") == _of_value(of, record["value"]) else None


def _of_value(of: str, value: Any) -> str:
    return hashlib.sha256(json.dumps([of, value], sort_keys=True).encode()).hexdigest()


def _changed(path: Path, sealed: Mapping[str, Any], thorough: bool) -> str | None:
    if reason := _untrusted(path):
        return reason
    try:
        about = os.lstat(path)
        if about.st_size != sealed.get("size"):
            return f"{path.name} has another size"
        if not thorough and about.st_size > SMALL and about.st_mtime_ns == sealed.get("time"):
            return None
        return None if digest(path) == sealed.get("sha256") else f"{path.name} has another content"
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"


def _untrusted(path: Path, folder: bool = False) -> str | None:
    """Why nothing is taken from a path, before anything in it is looked at."""
    try:
        about = os.lstat(path)
    except OSError as error:
        return f"{path.name} is missing" if isinstance(error, FileNotFoundError) else f"{path.name}: {error.strerror}"
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(about.st_mode):
        return f"{path.name} is no {'folder' if folder else 'file'}"
    if about.st_uid not in (os.geteuid(), 0):
        return f"{path.name} belongs to another user"
    return f"others may write {path.name}" if folder and about.st_mode & OTHERS else None


def digest(path: Path) -> str:
    """The digest of a file, which is read once unless it changes.

    Raises:
        OSError: it is not a file, or cannot be read.
    """
    return _digest(path, facts(path))


def facts(path: Path) -> Facts:
    """Facts that differ when a file changes or is replaced; none if it is missing."""
    try:
        about = os.lstat(path)
    except OSError:
        return ()
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


@functools.lru_cache(maxsize=4096)
def _digest(path: Path, facts: Facts) -> str:
    with files.opened(path, links=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
