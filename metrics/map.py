"""The mean over the classes of their average precision (scikit-learn's `average_precision_score`, `average="macro"`).
Labels are 0 or 1 for each class, or one class for each sample."""

import numpy as np
from sklearn.metrics import average_precision_score

from xbench.metrics import Answered, Kept, Misfit
from xbench.metrics._classes import checked


def keep(given: Answered) -> dict[str, np.ndarray]:
    """
    Raises:
        Misfit: the labels do not fit.
    """
    scores, labels = np.asarray(given.outputs), given.labels
    if labels is None:
        raise Misfit("the metric compares answers with labels: give --labels")
    labels = np.asarray(labels)
    if scores.ndim != 2 or labels.dtype.kind not in "iub" or labels.shape not in (scores.shape, scores.shape[:1]):
        raise Misfit("map takes a score for each class, and 0 or 1 for each class as the label, or the class")
    if labels.ndim == 1:
        labels = np.eye(scores.shape[1], dtype=np.int8)[checked(labels.astype(np.int64), scores.shape[1], ())]
    elif (wrong := ~np.isin(labels, (0, 1)).all(axis=1)).any():
        raise Misfit("the label of a class is 0 or 1", int(np.argmax(wrong)))
    return {"answer": scores.argmax(axis=1).astype(np.int32), "scores": scores, "label": labels.astype(np.int8)}


def score(kept: Kept) -> float:
    """NaN if a class does not occur among the labels, as it has no precision, or a score is not a number."""
    if not kept["label"].any(axis=0).all() or not np.isfinite(kept["scores"]).all():
        return float("nan")
    return float(average_precision_score(kept["label"], kept["scores"], average="macro"))


def constant(kept: Kept) -> float:
    """The score of the same scores for every sample: the share of a class, on average."""
    return float(kept["label"].mean())
