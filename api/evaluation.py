"""`xbench.evaluate`, apart from the package's other functions, whose file is long. It imports nothing at start-up."""

from __future__ import annotations

TYPE_CHECKING = False  # as in __init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from xbench.records import Records


def evaluate(
    model: str,
    *,
    samples: str | Path,
    labels: str | Path | None = None,
    metric: str = "top1",
    max_drop: str | float = "1%",
    precisions: Sequence[str] | None = None,
    post: str | None = None,
    output: str | None = None,
    limit: int | None = None,
    calibrate: str | Path | None = None,
    confidence: float = 0.95,
    less_is_better: bool = False,
    like: str | Path | None = None,
    runtimes: Sequence[str] | None = None,
    batch: int | None = None,
    threads: int | None = None,
    device: str = "cpu",
    shapes: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    ranges: Sequence[str] | None = None,
    weights: str | None = None,
    timeout: float = 600,
    out: str | Path | None = None,
    rerun: bool = False,
    retry: bool = False,
    progress: Callable[[str], object] | bool | None = None,
) -> Records:
    """Compare a metric of every runtime and precision on your samples with that of the network in float64: `xbench
    evaluate`.

    Every runtime answers the same samples, and the interval of the difference is paired. What was evaluated is stored,
    and the next call does not evaluate it again.

    Args:
        model: The name of one network.
        samples: The word of `--inputs`: a file of arrays, one array for each input of the network, whose first axis is
            the samples; a table; a folder, also of images; `module:function`, or the name of a data set.
        labels: A file of labels, one for each sample, or `folders`: the names of the images' subfolders. Default: those
            of the samples.
        metric: `top1`, `top5`, `f1`, `mean-iou`, `map`, `word-error`, `perplexity`, or `module:function`, which gets
            all outputs and labels, and returns one number, or one for each sample.
        max_drop: The largest acceptable loss, such as `"0.5%"` or `0.005`. Of perplexity and your own metric a
            percentage is of the reference's value.
        precisions: `fp32`, `tf32`, `bf16`, `fp16` or `int8`, several at once; default: fp32.
        post: Post-processing, `module:function`: it gets the outputs of some samples, and returns an answer for each.
        output: Name of the output that counts; default: the first.
        limit: At most so many samples, the first ones.
        calibrate: Other samples, to find the ranges of int8 with; default: every eighth of `samples`, at most 128,
            which are not evaluated then.
        confidence: How often the interval is to contain the true difference.
        less_is_better: Whether your own metric is better if it is smaller.
        like: The network that this file was made of, as by a quantiser: its answers in float64 are the reference.
        runtimes: As for `check`.
        batch: Samples of a batch; default: the model's own, or 32.
        threads: As for `check`.
        device: `cpu` or `cuda`.
        shapes: As for `check`, of one size each.
        inputs: The words of `--input`, for `module:factory`.
        ranges: As for `check`.
        weights: As for `check`.
        timeout: Seconds that one job of a worker may take, and the reading of the samples.
        out: Folder of the results, default `xbench-results`.
        rerun: Evaluate again what is stored.
        retry: Evaluate again what is stored as failed.
        progress: As for `check`.

    Returns:
        One record per runtime and precision (docs/results.md), with `case`, `status`, `message`, and in `evaluation`
        the metric (`value`), that of float64 (`reference`), their `difference` from `low` to `high`, the `verdict`,
        how many answers `changed`, and which (`worst`). `status` is PASS if the interval excludes a loss of more than
        `max_drop`, UNVERIFIED if there are too few samples to know.

    Raises:
        XBenchError: as `check`; samples, labels or functions that cannot be read or do not fit the network.
    """
    arguments = locals()
    from xbench import _cells, records

    return records.evaluated(_cells.evaluate(arguments))
