"""The command line: one file per command, `_app.py` registers them, `terminal/` prints. `main` turns every error a
user can cause into one line and an exit code.

Exit codes: 0 success; 1 a cell failed (FAIL, UNVERIFIED, OOM, TIMEOUT, CRASH) or two runtimes differ; 2 a wrong
command or wrong input, or stdout cannot be written; 130 interrupted, 143 ended by SIGTERM, 129 its terminal was
closed, 141 the reader of its output ended.
"""

import sys
import warnings
from typing import Any

from xbench.cli.terminal import output
from xbench.cli.terminal.ending import INTERRUPTED, Ending
from xbench.errors import XBenchError

PLAIN = warnings.showwarning
OWN = ("LeftOut", "Damaged")  # of runtimes/_plugins.py and converters/seals.py, by name so that neither is imported


def _complain(words: object) -> None:
    from xbench.converters.printable import visible  # needed only if there is something to complain about

    print(f"xbench: {visible(words)}", file=sys.stderr)


def _warned(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Print a warning that a user can fix, or must know, as one line."""
    if category.__name__ in OWN:
        _complain(f"warning: {message}")
    else:
        PLAIN(message, category, *where, **more)


def main() -> None:
    """The console script. Commands are imported only once an interrupt prints one line."""
    ending = Ending()
    warnings.showwarning = _warned
    try:
        output.prepare()
        from xbench.cli._app import app

        try:
            app()
        finally:
            output.check()
    except XBenchError as error:
        if not isinstance(error, output.Unread):
            _complain(error)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, SystemExit) as end:  # typer turns the first into the second, with code 130
        if isinstance(end, SystemExit) and not ending.received and end.code != INTERRUPTED:
            raise
        print(f"xbench: {ending.word}; what was measured is kept", file=sys.stderr)
        sys.exit(ending.code)
    finally:
        ending.over()


def __getattr__(name: str) -> Any:
    """`app`, for callers that run commands in their own process."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from xbench.cli._app import app

    return app
