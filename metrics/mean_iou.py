"""Intersection over union of the pixels of each class over all samples, the mean over the classes that occur: the
`mean IU` of Long, Shelhamer and Darrell (2015, arXiv 1411.4038). Pixels of label 255 or -100 do not count."""

import numpy as np

from xbench.metrics import Answered, Kept, Misfit
from xbench.metrics._classes import IGNORED, answers, scores_and_labels

VOID = 255  # of the borders in Pascal VOC


def keep(given: Answered) -> dict[str, np.ndarray]:
    """
    Raises:
        Misfit: the labels do not fit.
    """
    if np.ndim(given.outputs) < 4:
        raise Misfit("the output has no pixels: mean-iou takes a score of each class for each pixel")
    scores, labels = scores_and_labels(given, (IGNORED, VOID))
    said, classes = answers(scores), scores.shape[-1]
    counted = labels != IGNORED
    pixels = {"said": np.where(counted, said, -1), "true": labels, "both": np.where(said == labels, labels, -1)}
    counts = {name: _counts(array, classes) for name, array in pixels.items()}
    return {"answer": said, "both": counts["both"], "either": counts["said"] + counts["true"] - counts["both"]}


def _counts(array: np.ndarray, classes: int) -> np.ndarray:
    """The pixels of each class, (samples, classes); negative ones do not count."""
    rows = array.reshape(len(array), -1)
    places = rows + np.arange(len(rows))[:, None] * classes
    return np.bincount(places[rows >= 0], minlength=len(rows) * classes).reshape(len(rows), classes)


def score(kept: Kept) -> float:
    both, either = (kept[name].sum(axis=0) for name in ("both", "either"))
    return float(np.mean(both[either > 0] / either[either > 0]))
