"""The turn of a working command: its temporary folder, exclusive use of its store, and its visibility to others.

Two commands that measure into one folder would each measure everything, and disturb the other's times. So the folder of
a store is locked; the kernel releases the lock with the process, on `kill -9` as well. Reading needs no turn. Commands
at work elsewhere on the machine are named and left alone: whether their work matters is up to the user.
"""

import contextlib
import fcntl
import json
import os
import re
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from xbench.converters import cache, files, temporary
from xbench.converters.printable import one_line, shell
from xbench.errors import XBenchError
from xbench.store.results import StoreError

HELD = ".xbench-in-use"  # in the folder of a store, while it is locked
NAME = "xbench-at-work"
SOCKETS = Path("/proc/net/unix")
SHARED = "XBENCH_SHARED"  # set: the machine is shared on purpose, and no notice is given
LONGEST = 2000  # bytes of another process's description of itself


class Occupied(XBenchError):
    """Another process measures into the folder; one line that names it."""


@contextlib.contextmanager
def taken(out: Path | None, tell: Callable[[str], object]) -> Iterator[Path]:
    """A temporary folder for the duration of the turn, in which this process has the store in `out` to itself.

    Raises:
        Occupied: another process has the store.
        StoreError: the folder of the store cannot be written.
    """
    with contextlib.ExitStack() as stack:
        if out is not None:
            stack.enter_context(held(out))
        if words := others():
            tell(words)
        stack.enter_context(_announced())
        for place in cache.places():
            temporary.sweep(place)
        yield stack.enter_context(temporary.folder())


@contextlib.contextmanager
def held(out: Path) -> Iterator[None]:
    """Lock the store in the folder `out` for this process, until the block ends or the process dies.

    Raises:
        Occupied: another process has it.
        StoreError: the folder cannot be written.
    """
    path = out / HELD
    try:
        file = _locked(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error} (choose another --out)") from error
    try:
        about = {"pid": os.getpid(), "command": _command(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        with contextlib.suppress(OSError):  # a full disk: then the holder is not named
            os.pwrite(file, json.dumps(about).encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(file)  # and with it the lock


def _locked(path: Path) -> int:
    """The descriptor that holds the lock. Its holder removes the file on leaving: a lock on a file without a name does
    not count."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = files.descriptor(path, os.O_RDWR | os.O_CREAT, links=False)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.stat(path), os.fstat(file)):
                os.ftruncate(file, 0)
                return file
        except BlockingIOError:
            words = f"{path.parent} is in use by {_who(os.pread(file, LONGEST, 0))}"
            os.close(file)
            raise Occupied(f"{words}: wait until it has ended, or choose another --out") from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _who(data: bytes) -> str:
    """The holder of a store by its own description, which may be malformed."""
    try:
        description = json.loads(data)
        words = f"`{description['command']}` (pid {int(description['pid'])}, since {description['since']})"
    except (ValueError, KeyError, TypeError):
        return "another xbench"
    return one_line(words)


def _command() -> str:
    """The command line of this process as a user would write it."""
    return shell(Path(sys.argv[0]).name or "python", *sys.argv[1:]) if sys.argv else "python"


def others() -> str | None:
    """One line about other processes of xbench that are at work on this machine, as far as visible; None if there
    are none, or the user shares the machine on purpose."""
    if os.environ.get(SHARED):
        return None
    try:
        listing = SOCKETS.read_text(errors="replace")
    except OSError:
        return None
    processes = {int(pid) for pid in re.findall(rf" @{NAME}-(\d{{1,10}})-\w+$", listing, re.MULTILINE)} - {os.getpid()}
    if not processes:
        return None
    pids = ", ".join(map(str, sorted(processes)[:5]))
    return f"another xbench is at work on this machine (pid {pids}): each disturbs the times of the other"


@contextlib.contextmanager
def _announced() -> Iterator[None]:
    """Shows others that this process is at work, by the name of a socket in Linux's abstract namespace: it is in no
    folder, and gone with the process. On other systems nothing is shown."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sign:
        with contextlib.suppress(OSError):
            if sys.platform == "linux":
                sign.bind(f"\0{NAME}-{os.getpid()}-{uuid.uuid4().hex[:8]}")
        yield
