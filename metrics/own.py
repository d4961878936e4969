"""A user's own metric: a function of all outputs and all labels. It gives one number, or one for each sample, of which
the mean is taken. More is better, unless `--less-is-better` says otherwise."""

from collections.abc import Callable
from typing import Any

import numpy as np

from xbench.converters.printable import one_line
from xbench.errors import XBenchError
from xbench.metrics import Answered, Kept, Misfit


def keep(given: Answered, function: Callable[..., Any]) -> dict[str, np.ndarray]:
    """
    Raises:
        Misfit: what post-processing made is no array.
    """
    outputs = np.asarray(given.outputs)
    if outputs.dtype == object:
        raise Misfit("what --post gives for each sample differs in shape, and cannot be put into one array")
    kept = {"output": outputs} | ({} if given.labels is None else {"label": np.asarray(given.labels)})
    if outputs.ndim == 2 and outputs.shape[1] > 1 and outputs.dtype.kind == "f":
        kept["answer"] = outputs.argmax(axis=1)
    elif outputs.dtype.kind in "iubU":
        kept["answer"] = outputs
    return kept


def score(kept: Kept, function: Callable[..., Any]) -> float:
    """
    Raises:
        XBenchError: the function raises, or gives something else.
    """
    return float(np.mean(called(kept, function)))


def called(kept: Kept, function: Callable[..., Any]) -> np.ndarray:
    """What the function gives: one number, or (samples,)."""
    name = getattr(function, "__name__", "the metric")
    try:
        label = kept.get("label")
        value = np.asarray(function(kept["output"].copy(), None if label is None else label.copy()))
    except (Exception, SystemExit) as error:  # whatever a user's function raises
        raise XBenchError(f"--metric: {name} raises {type(error).__name__}: {one_line(error)}") from error
    if value.dtype.kind not in "fiub" or value.shape not in ((), (1,), (len(kept["output"]),)):
        raise XBenchError(
            f"--metric: {name} gives {value.dtype} of shape {value.shape}, not a number or one per sample"
        )
    return value.astype(np.float64).reshape(-1)
