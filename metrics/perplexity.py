"""The exponential of the mean cross entropy, in nats, of the tokens that have a label; -100 is no label. Without labels
a network of one input of tokens is asked for the next token of each."""

import numpy as np
from scipy.special import log_softmax

from xbench.metrics import Answered, Kept, Misfit
from xbench.metrics._classes import IGNORED, answers, scores_and_labels


def keep(given: Answered) -> dict[str, np.ndarray]:
    """
    Raises:
        Misfit: the labels do not fit, or there are none and the inputs are not one array of tokens.
    """
    if given.labels is None:
        given = _next_tokens(given)
    scores, labels = scores_and_labels(given)
    logs = log_softmax(scores.astype(np.float64), axis=-1)
    counted = labels != IGNORED
    own = np.take_along_axis(logs, np.maximum(labels, 0)[..., None], axis=-1)[..., 0]
    places = tuple(range(1, labels.ndim))
    if not (some := counted.any(axis=places)).all():
        raise Misfit("no token of the sample has a label", int(np.argmin(some)))
    loss = -np.where(counted, own, 0.0).sum(axis=places)
    return {"answer": answers(scores), "loss": loss, "tokens": counted.sum(axis=places)}


def _next_tokens(given: Answered) -> Answered:
    """The samples with the next token of each as its label, and none for the last."""
    tokens = [each for each in given.inputs if each.dtype.kind in "iu" and each.ndim == 2]
    if len(given.inputs) != 1 or not tokens or np.shape(given.outputs)[:2] != tokens[0].shape:
        raise Misfit("give --labels: only of one input of tokens, and scores for each, are the next ones the labels")
    last = np.full((len(tokens[0]), 1), IGNORED)
    return Answered(given.outputs, np.concatenate([tokens[0][:, 1:].astype(np.int64), last], axis=1))


def score(kept: Kept) -> float:
    return float(np.exp(kept["loss"].sum() / kept["tokens"].sum()))
