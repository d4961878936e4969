"""Makes our temporary folders, and removes those whose owner was killed.

`kill -9` leaves every temporary folder in place. So each is locked by the process that made it (flock on the folder
itself, which the kernel releases with the process), and has a name by which a later process knows it as ours; a
process that makes a folder removes unlocked ones in the same parent. What has another name or owner, is a link, or
cannot be locked is not touched. A lock covers only processes of this kernel; a folder made under another, by a machine
that shares the file system or before a reboot, has that in its name and must be a month old.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import platform
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "xbench-"
HIDDEN = f".{PREFIX}"  # where others look
LIVE = "network_"  # its content is imported under a Python name
OURS = re.compile(rf"(?:\.?{PREFIX}|{LIVE})([0-9a-f]{{8}})_[a-z0-9_]{{8}}")
BOOT = Path("/proc/sys/kernel/random/boot_id")
OLD = 30 * 24 * 3600.0  # seconds
ATTEMPTS = 100


def place(longest: int | None = None) -> Path:
    """The system's place for temporary files; `/tmp` if its path has more bytes than `longest`, as a socket's name
    cannot be long."""
    path = Path(tempfile.gettempdir())
    return path if longest is None or len(os.fsencode(path)) <= longest else Path("/tmp")


@contextlib.contextmanager
def folder(parent: Path | None = None, prefix: str = PREFIX) -> Iterator[Path]:
    """A new folder, by default in the system's place for them, removed on exit."""
    parent = parent or place()
    sweep(parent)
    made, descriptor = _made(parent, prefix)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(descriptor)  # which releases the lock


@contextlib.contextmanager
def file(path: Path) -> Iterator[Path]:
    """Where to write the future file `path`, which gets its name when complete. A reader sees a complete file or
    none."""
    with folder(path.parent, HIDDEN) as scratch:
        yield scratch / path.name
        os.replace(scratch / path.name, path)


def sweep(parent: Path) -> None:
    """Removes our folders in `parent` whose owner is dead; those that cannot be removed stay."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for name in [each.name for each in entries]:
            if match := OURS.fullmatch(name):
                with contextlib.suppress(OSError):
                    _remove_dead(parent / name, match[1])


def _made(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock. Before it is locked another process may remove it as dead:
    then another is made."""
    for _ in range(ATTEMPTS):
        made = Path(tempfile.mkdtemp(prefix=f"{prefix}{kernel()}_", dir=parent))
        try:
            descriptor = _opened(made)
        except FileNotFoundError:
            continue
        try:
            _lock(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            continue
        except OSError:  # a file system without locks: nobody can remove it as dead either
            return made, descriptor
        if _is(made, descriptor):
            return made, descriptor
        os.close(descriptor)
    raise OSError(f"{parent}: every temporary folder is removed at once by another process")


def _remove_dead(place: Path, made_under: str) -> None:
    """
    Raises:
        OSError: it is not a folder, its owner holds it, or it cannot be locked.
    """
    descriptor = _opened(place)
    try:
        about = os.fstat(descriptor)
        if about.st_uid != os.geteuid() or (made_under != kernel() and time.time() - about.st_mtime < OLD):
            return
        _lock(descriptor)
        if _is(place, descriptor):
            shutil.rmtree(place, ignore_errors=True)
    finally:
        os.close(descriptor)


def _opened(place: Path) -> int:
    return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _lock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is(place: Path, descriptor: int) -> bool:
    """Whether the folder of that name is the open one."""
    try:
        now = os.stat(place, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(now.st_mode) and os.path.samestat(now, os.fstat(descriptor))


@functools.cache
def kernel() -> str:
    """Eight characters that identify the running kernel: locks are known only within one."""
    try:
        word = BOOT.read_text().strip()
    except OSError:
        word = platform.node()
    return hashlib.sha256(word.encode()).hexdigest()[:8]
