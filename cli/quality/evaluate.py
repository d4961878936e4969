"""`xbench evaluate`: is it still the same model on your data?"""

from typing import Annotated, Any

import typer

import xbench
from xbench.cli.terminal import options
from xbench.cli.terminal.declared import as_in
from xbench.cli.terminal.run import give_records
from xbench.store.record import Record
from xbench.store.results import FOLDER

Samples = Annotated[
    str,
    typer.Option(
        "--inputs",
        help=".npz, .npy, .safetensors, .parquet, a folder of these, of images or of test_data_set_*, module:function, "
        "or a data set of `xbench list data`. Images: photos:resize=256,crop=224,mean=0.485/0.456/0.406,std=...",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        help=".npy, .npz:key, .csv:column, .parquet:column, .txt, .json; folders: the names of the images' subfolders. "
        "Default: those of the inputs."
    ),
]
Metric = Annotated[
    str,
    typer.Option(help="top1, top5, f1, mean-iou, map, word-error, perplexity, or module:function(outputs, labels)."),
]
MaxDrop = Annotated[
    str,
    typer.Option(
        help="Largest acceptable loss, 0.5% or 0.005. Of perplexity and your own metric a percentage is of the "
        "reference's value."
    ),
]
Precisions = Annotated[
    list[str] | None,
    typer.Option("--precision", help="fp32, tf32, bf16, fp16, int8 or int4; may be repeated. Default: fp32."),
]
Post = Annotated[
    str | None,
    typer.Option(
        metavar="FUNCTION",
        help="Your post-processing, module:function: it gets the outputs of some samples, and returns an answer for "
        "each.",
    ),
]
Output = Annotated[str | None, typer.Option(metavar="NAME", help="The output that counts. Default: the first.")]
Limit = Annotated[int | None, typer.Option(help="At most so many samples, the first ones. Default: all.", min=1)]
Calibrate = Annotated[
    str | None,
    typer.Option(
        metavar="INPUTS",
        help="Other inputs, to find the ranges of int8 with. Default: every eighth of --inputs, at most 128, which are "
        "not evaluated then.",
    ),
]
Confidence = Annotated[float, typer.Option(help="How often the interval is to contain the true difference.")]
Like = Annotated[
    str | None,
    typer.Option(
        metavar="ORIGINAL",
        help="The network that this file was made of, as by a quantiser: its answers in float64 are the reference, "
        "instead of the file's own.",
    ),
]
Less = Annotated[bool, typer.Option("--less-is-better", help="Your metric is better if it is smaller.")]


DECLARED = {
    "model": options.Model,
    "samples": Samples,
    "labels": Labels,
    "metric": Metric,
    "max_drop": MaxDrop,
    "precisions": Precisions,
    "post": Post,
    "output": Output,
    "limit": Limit,
    "calibrate": Calibrate,
    "confidence": Confidence,
    "less_is_better": Less,
    "like": Like,
    "batch": options.Batch,
}


@as_in(xbench.evaluate, DECLARED)
def evaluate(arguments: dict[str, Any], out: options.Out = FOLDER, as_json: options.Json = False) -> None:
    """Compare a metric of every runtime and precision on your data with that of the network in float64.

    Every runtime answers the same samples, so the difference is known far better than the metric itself: its interval
    is paired (Tango's for shares of right answers, else a bootstrap over the samples). PASS: a loss of more than
    --max-drop is excluded. FAIL: it is worse, and such a loss is not excluded; or in float32 it computes something else
    than the network. UNVERIFIED: there are too few samples to know, and the message says how many are needed. Exit code
    1 unless all pass; a runtime that lacks a precision or an operator is UNSUPPORTED, which is no failure. With --like
    the metric is compared with that of the network that a quantised file was made of, so that the difference is what
    quantisation costs; whether the runtime computes the file is still compared with the file.
    """
    from xbench.experiments import of_network as requests

    give_records(requests.evaluate(arguments), arguments, _print)


def _print(records: list[Record]) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports.quality.evaluation import tables
    from xbench.reports.tables import show

    show(tables(records), console(160))
