"""What a command prints, and what becomes of it where nobody can read it: one line and an exit code, no traceback.

A pipe that nobody reads any more, as behind `| head`, ends a command as SIGPIPE would, without a word. A full disk or a
closed stdout is said, with exit code 2. On stderr nothing but words goes that a command can do without.
"""

import io
import os
import sys
from typing import Any, TextIO

from xbench.errors import XBenchError

PIPE = 141  # 128 and the number of SIGPIPE, as a shell would say


class Unread(XBenchError):
    """Nobody reads what is printed."""

    exit_code = PIPE


class Unwritten(XBenchError):
    """What is printed cannot be written; one line."""


class _File(io.FileIO):
    """A file that fails once, by an error of ours; from then on it takes everything, so that Python ends in peace."""

    def __init__(self, number: int, strict: bool) -> None:
        super().__init__(number, "wb", closefd=False)
        self._strict, self._failed = strict, False

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        size = memoryview(data).nbytes
        if self._failed:
            return size
        try:
            return super().write(data)
        except OSError as error:
            self._failed = True
            if not self._strict:
                return size
            if isinstance(error, BrokenPipeError):
                raise Unread("nobody reads what is printed") from None
            raise Unwritten(f"cannot write to stdout: {error.strerror}") from None


def check() -> None:
    """Writes what is still to be written to stdout.

    Raises:
        Unread, Unwritten: it cannot be.
    """
    sys.stdout.flush()


def prepare() -> None:
    """Makes stdout and stderr files that fail as said above. One that is closed gets its number back first, as the next
    file that is opened would have it. Where somebody else has put something in their place, as tests do, that stays."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free; to write to it fails
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is getattr(sys, f"__{name}__"):
            setattr(sys, name, _opened(number, getattr(sys, name)))


def _opened(number: int, before: TextIO | None) -> TextIO:
    """A terminal without ± shows a question mark."""
    encoding, lines = before.encoding if before else "utf-8", os.isatty(number) or number == 2
    buffer = io.BufferedWriter(_File(number, strict=number == 1))
    return io.TextIOWrapper(buffer, encoding, errors="replace", line_buffering=lines)
