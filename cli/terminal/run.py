"""How a command runs an experiment: its store and lock, the progress bar, the lab."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xbench.case import Case
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.experiments import choose

if TYPE_CHECKING:
    from xbench.experiments.experiment import Experiment, Outcome
    from xbench.experiments.request import Request


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


def requested(request: "Request", options: Mapping[str, Any], out: Path) -> "Outcome":
    """Run the requested experiment, as `measured`. A model that cannot be exported does not stop the others.

    Raises:
        XBenchError: as `measured`; an invalid word.
    """
    if words := choose.too_many_threads(request.cell.get("threads", 1)):
        say(f"xbench: warning: {words}", err=True)
    cases = request.cases(request.names(options))
    return measured(request.experiment, cases, out, options["timeout"], request.again, request.strict, keep_going=True)


def _counted(number: int, experiment: "Experiment") -> str:
    word = "cell" if experiment.records == 1 else "record"
    return f"1 {word} was" if number == 1 else f"{number} {word}s were"
