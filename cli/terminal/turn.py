"""The turn of a command: `store/turn.py`, what it says of others on stderr."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from xbench.cli.terminal.lines import say


@contextlib.contextmanager
def turn(out: Path | None = None) -> Iterator[Path]:
    """A temporary folder for the logs of the workers and all else; the store in the folder `out`, where one is given,
    is this command's alone.

    Raises:
        XBenchError: another command has it, or it cannot be written.
    """
    from xbench.store import turn as turns

    with turns.taken(out, lambda words: say(f"xbench: {words}", err=True)) as folder:
        yield folder
