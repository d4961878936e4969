"""`xbench judge`: the verdict on answers that another program computed."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.form import GITHUB, JSON, TABLE, FormatWord, choose_format, summarise
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.store.results import FOLDER

Folder = Annotated[Path, typer.Argument(metavar="QUESTION", help="The folder that `xbench ask` wrote.")]
Answers = Annotated[
    Path, typer.Argument(help="The folder of the answers: test_data_set_0 and so on, with outputs.npz or output_0.npy.")
]
Name = Annotated[str | None, typer.Option("--runtime", help="What computed them. Default: what times.json says.")]


def judge(
    folder: Folder,
    answers: Answers,
    runtime: Name = None,
    out: options.Out = FOLDER,
    as_json: options.Json = False,
    format_: FormatWord = None,
) -> None:
    """Judge answers that were computed elsewhere, by the rule and in the words of `xbench check`.

    Each output may be in `outputs.npz` by its name, or in a file of its own: `output_0.npy`, `output_0.pb` (ONNX's
    TensorProto), `output_0.bin` (raw, little-endian). What is wrong is named where it is known: outputs in another
    order, another order of axes, the answers to other inputs. Times in `times.json` are shown, and ranked nowhere:
    xbench has not measured them. The verdict is recorded, for `show` and `report`. Exit code 1 when the answers are
    wrong, 2 when they cannot be read.
    """
    from xbench.experiments import judge as judging
    from xbench.proof.question import read_question
    from xbench.store.results import open_store
    from xbench.store.schema import FAILED

    form = choose_format(format_, {"json": as_json}, (TABLE, JSON, GITHUB))
    record = judging.judge(read_question(folder), answers, runtime)
    with turn(out):
        open_store(out, judging.FILE).append(record)
    _give(judging.row_of(record), form)
    say(f"saved in {out / judging.FILE}", err=True)
    raise typer.Exit(int(record["status"] in FAILED))


def _give(row: dict[str, Any], form: str) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports.checks import judged
    from xbench.reports.github import checks
    from xbench.reports.tables import show

    if form == JSON:
        say(json.dumps(row, indent=1))
    elif form == GITHUB:
        summarise(*checks([row], "xbench judge"))
    else:
        show([judged(row)], console())
