"""`xbench since`: from which release of a runtime on is a network slower, or wrong?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.store.results import FOLDER

if TYPE_CHECKING:
    from xbench.experiments.since.request import Ask

First = Annotated[str, typer.Option("--from", help="A release that is good: 1.20.1; 1.20 is the first one of 1.20.")]
Last = Annotated[
    str | None,
    typer.Option("--to", help="A later one that is not; 1.24 is the last one of 1.24. Default: the newest."),
]
Share = Annotated[
    str, typer.Option("--slower", help="By how much, in per cent, the last release has to be slower than the first.")
]
IsWrong = Annotated[
    bool, typer.Option("--wrong", help="Not slower: since which release are the results wrong, or does it crash?")
]
Versions = Annotated[
    str | None, typer.Option(help="The releases to search, such as 1.20.1,1.21.0. Default: all of the package index.")
]
Mode = Annotated[str, typer.Option(help="forward, gradient or step.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", help="New folder for a script that shows it without xbench. Default: in xbench-since/."),
]


def since(
    model: options.Model,
    runtime: options.Runtime,
    first: First,
    last: Last = None,
    slower: Share = "10%",
    wrong: IsWrong = False,
    versions: Versions = None,
    mode: Mode = "forward",
    batch: options.BatchSize = 1,
    threads: options.Threads = None,
    precision: options.Precision = "fp32",
    shapes: options.Shapes = None,
    inputs: options.Inputs = None,
    ranges: options.Ranges = None,
    weights: options.Weights = None,
    budget: options.Budget = 2.0,
    timeout: options.Timeout = 600,
    output: Output = None,
    out: options.Out = FOLDER,
    as_json: options.Json = False,
) -> None:
    """Find the release of a runtime since which a network is slower, or wrong.

    xbench since model.onnx onnxruntime --from 1.20 --slower 5%

    The releases between --from and --to are searched by halves: each that is tried gets an environment of its own, is
    verified, and is timed in interleaved blocks with the last good and the first bad release, for as long as the answer
    is not certain. Ends with the two releases, the ratio of their times, their layers side by side, and a script that
    shows it without xbench. A release that cannot be installed or run is left out, and so is one that cannot be told
    apart from both. The search goes on where an ended one was. Exit code 1: found; 0: the last release is as good as
    the first; 2: an error, or it cannot be said.
    """
    from xbench.experiments.since import request
    from xbench.proof.question import check_folder

    if output is not None:
        check_folder(output, "--output")
    of_model = {"shapes": shapes, "inputs": inputs, "ranges": ranges, "weights": weights}
    case = request.cell(model, runtime, mode, batch, options.choose_threads(threads), precision, of_model)
    ask = request.Ask(case, None if wrong else request.share(slower), budget, float(timeout))
    report = _report(ask, request.releases(runtime, first, last, versions), output, out)
    if as_json:
        say(json.dumps(report, indent=1))
    else:
        _print(report)
    raise typer.Exit(int(report["found"]))


def _report(ask: "Ask", releases: list[str], output: Path | None, out: Path) -> dict[str, Any]:
    from xbench.cli.terminal.progress import Bar, Steps
    from xbench.experiments.experiment import Lab
    from xbench.experiments.since import run, search, written

    with (
        turn(out) as logs,
        Bar(1 + search.most_steps(len(releases)), "since") as bar,
        Lab(logs, Steps(bar), ask.timeout) as lab,
    ):
        question = ask.question(lab, out)
        report = run.since(question, releases, bar.finish)
        if report["found"]:
            artifact = lab.artifact(ask.case.model)
            assert artifact is not None  # it was measured
            report = written.write(report, question.bench, artifact, output or _place(report))
    return report


def _place(report: dict[str, Any]) -> Path:
    """The default folder for what reproduces a result."""
    from xbench.converters.printable import file_name

    stem = Path(report["model"].partition("@")[0]).stem
    settings = [report["kind"], f"batch {report['batch']}", f"threads {report['threads']}"]
    words = (stem, report["runtime"], *settings, report["good"], report["bad"])
    return Path("xbench-since", "-".join(map(file_name, words)))


def _print(report: dict[str, Any]) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports import since as reports
    from xbench.reports.tables import show

    show(reports.tables(report), console(160))
    if script := next((each for each in report["files"] if Path(each).name == "reproduce.py"), None):
        say(f"without xbench: {script}", err=True)
    if report["note"]:
        say(f"xbench: {report['note']}", err=True)
    if command := reports.then(report):
        say(f"the first wrong tensor: {command}", err=True)
