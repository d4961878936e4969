"""`xbench widen`: which layers must stay in float32?"""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xbench.cli.quality import evaluate as shared
from xbench.cli.terminal.declared import as_in, of_network
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.experiments import choose
from xbench.store.record import Record

if TYPE_CHECKING:
    from xbench.experiments.widen.run import Question

Precision = Annotated[str, typer.Option(help="The lower precision: int8, int4 or fp16.")]
Batch = Annotated[int | None, typer.Option(help="Batch size of the times. Default: the model's, else 1.", min=1)]
Evaluations = Annotated[int, typer.Option(help="At most so many sets of nodes are evaluated.")]
Budget = Annotated[float, typer.Option(help="Seconds of sampling for each point that is timed; 0: no times.")]


@as_in(of_network, without=("optimizer", "loss"))
def widen(
    arguments: dict[str, Any],
    samples: shared.Samples,
    labels: shared.Labels = None,
    metric: shared.Metric = "top1",
    max_drop: shared.MaxDrop = "1%",
    precision: Precision = "int8",
    post: shared.Post = None,
    output: shared.Output = None,
    limit: shared.Limit = None,
    calibrate: shared.Calibrate = None,
    confidence: shared.Confidence = 0.95,
    less_is_better: shared.Less = False,
    evaluations: Evaluations = 30,
    budget: Budget = 1.0,
    batch: Batch = None,
) -> None:
    """Find the smallest set of nodes to leave in float32 so that the answers are good enough.

    xbench widen model.onnx --runtime onnxruntime --inputs samples.npz --max-drop 0.5%

    First each node alone is computed in the lower precision, which says how much of the error is its own. Then sets of
    nodes are evaluated as by `xbench evaluate`, those with the largest errors first, until the smallest set is found
    that is shown to lose no more than --max-drop. Float32, the lower precision, and the best sets between are timed
    side by side. The set is printed as the word of a runtime, for every other command: `onnxruntime:wide=conv1+fc`.
    What is stored is not evaluated again. Exit code 1 if no set is good enough.
    """
    from xbench.experiments.widen import request
    from xbench.reports.quality import widening
    from xbench.reports.tables import show
    from xbench.store.results import encode

    ask, cells, again = request.question(arguments)
    records = _records(ask, cells, again, arguments)
    if arguments["as_json"]:
        say(json.dumps([json.loads(encode(record)) for record in records], indent=1))
    else:
        from xbench.cli.terminal.console import console

        show([table for record in records for table in widening.tables([record])], console(160))
    say(f"saved in {arguments['out'] / widening.FILE}", err=True)
    raise typer.Exit(int(any(record["status"] != "PASS" for record in records)))


def _records(ask: "Question", cells: list[Any], again: str, arguments: dict[str, Any]) -> list[Record]:
    from xbench.cli.terminal.progress import Bar, Steps
    from xbench.experiments.experiment import Lab
    from xbench.experiments.widen.run import Search

    choose.need_torch()
    out = arguments["out"]
    with (
        turn(out) as logs,
        Bar(len(cells) * (1 + ask.trials), "widen") as bar,
        Lab(logs, Steps(bar), ask.timeout) as lab,
    ):
        return [Search(ask, case, lab, out, again, bar.finish).record() for case in cells]
