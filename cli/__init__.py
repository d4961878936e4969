"""The command line: one file a command, `_app.py` their table, `terminal/` what they print with. `main` turns every
error a user can cause into one line and an exit code.

Exit codes: 0 all well; 1 a cell failed (FAIL, UNVERIFIED, OOM, TIMEOUT, CRASH) or two runtimes differ; 2 a wrong
command or wrong input, or nothing can be written to stdout; 130 interrupted, 143 ended by SIGTERM, 129 by the end of
its terminal, 141 by that of whoever read its output.
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
    from xbench.converters.printable import visible  # no command needs it that has nothing to complain of

    print(f"xbench: {visible(words)}", file=sys.stderr)


def _warned(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """What a user can mend, or must know, is a line of its own."""
    if category.__name__ in OWN:
        _complain(f"warning: {message}")
    else:
        PLAIN(message, category, *where, **more)


def main() -> None:
    """The console script. Commands are imported when they can be interrupted in one line."""
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
    """`app`, for whoever runs commands in a process of their own."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from xbench.cli._app import app

    return app
