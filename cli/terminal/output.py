"""Output of a command, and its failures: one line and an exit code, no traceback.

A closed pipe, as with `| head`, ends a command silently, as SIGPIPE would. A full disk or a closed stdout is reported,
with exit code 2. Failures to write to stderr are ignored, as a command can do without that text.
"""

import io
import os
import sys
from typing import Any, TextIO

from xbench.errors import XBenchError

PIPE = 141  # 128 plus the number of SIGPIPE, as in a shell


class Unread(XBenchError):
    """The output has no reader any more."""

    exit_code = PIPE


class Unwritten(XBenchError):
    """The output cannot be written; reported in one line."""


class _File(io.FileIO):
    """A file that fails once, with our error; afterwards it accepts everything, so that Python exits cleanly."""

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
    """Flush stdout.

    Raises:
        Unread, Unwritten: it cannot be written.
    """
    sys.stdout.flush()


def prepare() -> None:
    """Replace stdout and stderr by files that fail as described above. A closed one first gets its number back, which
    the next opened file would otherwise take. If they were already replaced, as in tests, that stays."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number; writing to it fails
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is getattr(sys, f"__{name}__"):
            setattr(sys, name, _opened(number, getattr(sys, name)))


def _opened(number: int, before: TextIO | None) -> TextIO:
    """A terminal without ± shows a question mark."""
    encoding, lines = before.encoding if before else "utf-8", os.isatty(number) or number == 2
    buffer = io.BufferedWriter(_File(number, strict=number == 1))
    return io.TextIOWrapper(buffer, encoding, errors="replace", line_buffering=lines)
