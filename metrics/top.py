"""The share of samples whose label is among the `k` highest scores. Of equal scores the first class counts as higher.

Where a sample has several labels, as a text has one for each token, it scores the share of those that are right.
"""

import numpy as np

from xbench.metrics import Answered, Kept, Misfit, mean
from xbench.metrics._classes import IGNORED, answers, scores_and_labels


def keep(given: Answered, k: int) -> dict[str, np.ndarray]:
    """
    Raises:
        Misfit: the labels do not fit, or there are fewer classes than `k`.
    """
    scores, labels = scores_and_labels(given)
    if scores.shape[-1] <= k:
        raise Misfit(f"the network has {scores.shape[-1]} classes: every label is among the {k} highest")
    own = np.take_along_axis(scores, np.maximum(labels, 0)[..., None], axis=-1)
    before = np.arange(scores.shape[-1]) < labels[..., None]
    rank = np.sum((scores > own) | ((scores == own) & before), axis=-1)
    right = (rank < k) & ~np.isnan(scores).any(axis=-1)
    kept = {"answer": answers(scores), "label": labels}
    if labels.ndim == 1 and (labels != IGNORED).all():
        return kept | {"hit": right}
    counted = (labels != IGNORED).reshape(len(labels), -1)
    if not (some := counted.any(axis=1)).all():
        raise Misfit("no label of the sample counts", int(np.argmin(some)))
    return kept | {"score": (right.reshape(counted.shape) & counted).sum(axis=1) / counted.sum(axis=1)}


def score(kept: Kept, k: int) -> float:
    return mean(kept)


def constant(kept: Kept, k: int) -> float:
    """The share of the `k` most frequent labels."""
    labels = kept["label"][kept["label"] != IGNORED]
    return float(np.sort(np.unique(labels, return_counts=True)[1])[-k:].sum() / labels.size)
