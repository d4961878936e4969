"""A command's turn at a store (`store/turn.py`), with messages about other commands on stderr."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from xbench.cli.terminal.lines import say


@contextlib.contextmanager
def turn(out: Path | None = None) -> Iterator[Path]:
    """A temporary folder for the workers' logs and other files; the store in the folder `out`, if given, is locked for
    this command.

    Raises:
        XBenchError: another command has it, or it cannot be written.
    """
    from xbench.store import turn as turns

    with turns.taken(out, lambda words: say(f"xbench: {words}", err=True)) as folder:
        yield folder
