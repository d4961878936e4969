"""The table of commands, one file each."""

import typer

from xbench.cli.bisect import bisect
from xbench.cli.check import check
from xbench.cli.compare import compare
from xbench.cli.convert import convert
from xbench.cli.doctor import doctor
from xbench.cli.elsewhere.ask import ask
from xbench.cli.elsewhere.judge import judge
from xbench.cli.env import app as env_app
from xbench.cli.import_ import import_
from xbench.cli.inspect import inspect
from xbench.cli.list import app as list_app
from xbench.cli.load import load
from xbench.cli.match import match
from xbench.cli.phases import phases
from xbench.cli.plugin import app as plugin_app
from xbench.cli.profile import profile
from xbench.cli.quality.evaluate import evaluate
from xbench.cli.quality.widen import widen
from xbench.cli.recommend import recommend
from xbench.cli.report import report
from xbench.cli.scale import scale
from xbench.cli.show import show
from xbench.cli.since import since
from xbench.cli.study import study
from xbench.cli.time import time
from xbench.cli.train import train

EPILOG = "Start with:  xbench doctor;  xbench convert && xbench time;  xbench show"

app = typer.Typer(
    no_args_is_help=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Is it the same network everywhere, and if it is, where does it run best? Networks are defined once in "
    "PyTorch (or brought as ONNX files), converted to every runtime, verified against a float64 reference, and only "
    "then timed.",
)
COMMANDS = (
    inspect,
    convert,
    check,
    match,
    time,
    phases,
    profile,
    load,
    evaluate,
    widen,
    train,
    scale,
    bisect,
    since,
    ask,
    judge,
    study,
    show,
    report,
    recommend,
    compare,
    doctor,
)
for command in COMMANDS:
    app.command(epilog=EPILOG if command is time else None)(command)
app.command("import")(import_)
app.add_typer(list_app, name="list")
app.add_typer(plugin_app, name="plugin")
app.add_typer(env_app, name="env")
