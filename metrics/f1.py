"""The mean of the F1 scores of the classes that occur (scikit-learn's `f1_score`, `average="macro"`)."""

import numpy as np
from sklearn.metrics import f1_score

from xbench.metrics import Answered, Kept
from xbench.metrics._classes import IGNORED, answers, scores_and_labels


def keep(given: Answered) -> dict[str, np.ndarray]:
    """
    Raises:
        Misfit: the labels do not fit.
    """
    scores, labels = scores_and_labels(given)
    return {"answer": answers(scores), "label": labels}


def score(kept: Kept) -> float:
    counted = kept["label"] != IGNORED
    return float(f1_score(kept["label"][counted], kept["answer"][counted], average="macro", zero_division=0))


def constant(kept: Kept) -> float:
    """The score of always saying the most frequent label."""
    values, counts = np.unique(kept["label"][kept["label"] != IGNORED], return_counts=True)
    return score({**kept, "answer": np.full_like(kept["answer"], values[counts.argmax()])})
