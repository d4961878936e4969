"""How a command runs an experiment: its store and lock, the progress bar, the lab."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from xbench.case import Case
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.experiments import choose

if TYPE_CHECKING:
    from xbench.experiments.experiment import Experiment, Outcome
    from xbench.experiments.request import Request
    from xbench.store.record import Record


def measured(
    experiment: "Experiment",
    cases: Sequence[Case],
    out: Path,
    timeout: float,
    again: str = "none",
    strict: bool = True,
    keep_going: bool = False,
) -> "Outcome":
    """Run an experiment into the folder `out` (`experiments/experiment.py`), and note on stderr what was stored.

    Raises:
        XBenchError: the store is in use or cannot be written; a model cannot be exported, unless `keep_going`.
    """
    from xbench.cli.terminal.progress import Bar
    from xbench.experiments.experiment import Lab, run
    from xbench.store.results import open_store

    choose.need_torch()
    store = open_store(out, experiment.file)
    with (
        turn(out) as logs,
        Bar(experiment.records * len(cases), experiment.name) as bar,
        Lab(logs, bar, timeout, keep_going) as lab,
    ):
        outcome = run(experiment, cases, lab, store, again, strict)
    if outcome.kept:
        say(f"{_counted(outcome.kept, experiment)} measured before; --rerun measures again", err=True)
    return outcome


def requested(request: "Request", options: Mapping[str, Any], out: Path | None = None) -> "Outcome":
    """Run the requested experiment, as `measured`, into `out` or the folder among the options.

    Raises:
        XBenchError: as `measured`; an invalid word.
    """
    if words := choose.too_many_threads(request.cell.get("threads", 1)):
        say(f"xbench: warning: {words}", err=True)
    cases = request.cases(request.names(options))
    again, strict, keep_going = request.again, request.strict, request.keep_going
    folder = options["out"] if out is None else out
    return measured(request.experiment, cases, folder, options["timeout"], again, strict, keep_going)


def give_records(request: "Request", options: Mapping[str, Any], show: Callable[[list["Record"]], object]) -> NoReturn:
    """Run the requested experiment, print its records as JSON or by `show`, and end the command."""
    from xbench.store.results import encode

    outcome = requested(request, options)
    if options["as_json"]:
        say(json.dumps([json.loads(encode(record)) for record in outcome.records], indent=1))
    else:
        show(outcome.records)
    say(f"saved in {options['out'] / request.experiment.file}", err=True)
    raise typer.Exit(outcome.exit_code)


def _counted(number: int, experiment: "Experiment") -> str:
    word = "cell" if experiment.records == 1 else "record"
    return f"1 {word} was" if number == 1 else f"{number} {word}s were"
