"""The command line: one file a command. `main` turns every error a user can cause into one line and an exit code.

Exit codes: 0 all well; 1 a cell failed (FAIL, UNVERIFIED, OOM, TIMEOUT, CRASH) or two runtimes differ; 2 a wrong
command or wrong input; 130 interrupted.
"""

import sys
import warnings
from typing import Any

import typer

from xbench.bench import XBenchError
from xbench.cli.bisect import bisect
from xbench.cli.check import check
from xbench.cli.compare import compare
from xbench.cli.convert import convert
from xbench.cli.doctor import doctor
from xbench.cli.env import app as env_app
from xbench.cli.import_ import import_
from xbench.cli.inspect import inspect
from xbench.cli.list import app as list_app
from xbench.cli.load import load
from xbench.cli.match import match
from xbench.cli.phases import phases
from xbench.cli.plugin import app as plugin_app
from xbench.cli.profile import profile
from xbench.cli.recommend import recommend
from xbench.cli.report import report
from xbench.cli.scale import scale
from xbench.cli.show import show
from xbench.cli.study import study
from xbench.cli.time import time
from xbench.cli.train import train
from xbench.runtimes._plugins import LeftOut

INTERRUPTED = 130
EPILOG = "Start with:  xbench doctor;  xbench convert && xbench time;  xbench show"

app = typer.Typer(
    no_args_is_help=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Is it the same network everywhere, and if it is, where does it run best? Networks are defined once in "
    "PyTorch (or brought as ONNX files), converted to every runtime, proved equal to a float64 oracle, and only then "
    "timed.",
)
COMMANDS = (
    *(inspect, convert, check, match, time, phases, profile, load, train, scale, bisect, study, show, report),
    *(recommend, compare, doctor),
)
for command in COMMANDS:
    app.command(epilog=EPILOG if command is time else None)(command)
app.command("import")(import_)
app.add_typer(list_app, name="list")
app.add_typer(plugin_app, name="plugin")
app.add_typer(env_app, name="env")


PLAIN = warnings.showwarning


def _warned(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A row that is left out is told as everything is that a user can mend: in a line of its own."""
    if issubclass(category, LeftOut):
        typer.echo(f"xbench: warning: {message}", err=True)
    else:
        PLAIN(message, category, *where, **more)


def main() -> None:
    """The console script."""
    warnings.showwarning = _warned
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without ± shows a question mark
    try:
        app()
    except XBenchError as error:
        typer.echo(f"xbench: {error}", err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, SystemExit) as end:  # typer turns the first into the second, with code 130
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        typer.echo("xbench: interrupted; what was measured is kept", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
