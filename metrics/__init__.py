"""The contract of a metric and the table of all of them: how good the answers of a network are. Every other file is one
metric, or several of one kind; the words after `--metric` are in the table.

A metric takes two steps, so that the outputs of a large set are never in memory at once. `keep` reduces the outputs of
some samples to what the metric needs of each: arrays with the samples along the first axis. `score` makes one number of
what was kept of all samples, or of any selection of them, which is how intervals are resampled. Three names have a
meaning:

- `answer`: what the network says of a sample, as a user would see it; two runs are compared by it.
- `hit`: whether each sample is right; the score is their share.
- `score`: a number for each sample; the score is their mean.
"""

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from xbench.errors import XBenchError

Kept = Mapping[str, np.ndarray]


class Misfit(Exception):
    """Outputs or labels that a metric cannot use: `place` is the first such sample, None if all are."""

    def __init__(self, words: str, place: int | None = None) -> None:
        super().__init__(words)
        self.place = place


@dataclass(frozen=True)
class Answered:
    """Some samples and what a network gave for them: `outputs` are an array with the samples along the first axis, or
    whatever post-processing made, one for each sample; `inputs` are those of the graph."""

    outputs: Any
    labels: np.ndarray | None
    inputs: Sequence[np.ndarray] = ()


@dataclass(frozen=True)
class Row:
    """A metric of the table: its module, the keywords of its functions, what it is in words, and whether less is
    better. A `share` is between 0 and 1, and is shown in per cent."""

    module: str
    about: str
    less: bool = False
    share: bool = True
    keywords: Mapping[str, Any] = field(default_factory=dict)


METRICS = {
    "top1": Row("top", "share of samples whose label is the class with the highest score", keywords={"k": 1}),
    "top5": Row("top", "share of samples whose label is among the five highest scores", keywords={"k": 5}),
    "f1": Row("f1", "F1 score, the mean over the classes"),
    "mean-iou": Row("mean_iou", "intersection over union of the pixels of a class, the mean over the classes"),
    "map": Row("map", "average precision of the scores, the mean over the classes"),
    "word-error": Row("word_error", "wrong, missing and added words over the words of the labels", less=True),
    "perplexity": Row("perplexity", "exponential of the mean cross entropy of the tokens", less=True, share=False),
}
OWN = Row("own", "your own function of all outputs and labels", share=False)


@dataclass(frozen=True)
class Metric:
    """A metric that is ready: `keep` and `score` as above, and `constant`, if it has one: the score of the best answer
    that does not look at the input."""

    word: str
    row: Row
    keep: Callable[[Answered], dict[str, np.ndarray]]
    score: Callable[[Kept], float]
    constant: Callable[[Kept], float] | None = None


def row_of(word: str) -> Row:
    """The row of a metric's word.

    Raises:
        XBenchError: an unknown word, which is no `module:function` either.
    """
    if word in METRICS:
        return METRICS[word]
    if ":" in word:
        return OWN
    near = difflib.get_close_matches(word, METRICS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it is one of {', '.join(METRICS)}, or module:function"
    raise XBenchError(f"unknown metric {word!r}: {hint}")


def load(word: str, function: Callable[..., Any] | None = None) -> Metric:
    """The metric of a word; `function` is the imported one of `module:function`.

    Raises:
        XBenchError: as `row_of`; a package is missing.
    """
    row = row_of(word)
    keywords = {"function": function} if row is OWN else row.keywords
    try:
        module = importlib.import_module(f"xbench.metrics.{row.module}")
    except ImportError as error:
        raise XBenchError(f"--metric {word} needs {error.name}: pip install 'xbench[evaluate]'") from error
    keep, score = (partial(getattr(module, name), **keywords) for name in ("keep", "score"))
    constant = partial(module.constant, **keywords) if hasattr(module, "constant") else None
    return Metric(word, row, keep, score, constant)


def mean(kept: Kept) -> float:
    """The mean of `hit` or `score`."""
    return float(np.mean(kept["hit"] if "hit" in kept else kept["score"]))
