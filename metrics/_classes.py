"""Scores of classes and their labels: which axis the classes are on, and whether the labels are among them."""

import numpy as np

from xbench.metrics import Answered, Misfit

IGNORED = -100  # a label that does not count, as in PyTorch


def scores_and_labels(given: Answered, ignored: tuple[int, ...] = (IGNORED,)) -> tuple[np.ndarray, np.ndarray]:
    """The scores with the classes along the last axis, and the labels, int64, in the shape of the others. The classes
    are on the last axis of the outputs, as of texts, or on the second, as of images, whichever fits the labels.

    Raises:
        Misfit: there are no labels, or they do not fit the outputs.
    """
    scores, labels = np.asarray(given.outputs), given.labels
    if labels is None:
        raise Misfit("the metric compares answers with labels: give --labels")
    if not np.issubdtype(scores.dtype, np.number):
        raise Misfit(f"the outputs are {scores.dtype}, and the metric takes a score for each class")
    labels = _whole(np.asarray(labels))
    while scores.ndim > labels.ndim + 1 and scores.shape[-1] == 1:  # pooled images keep their axes
        scores = scores[..., 0]
    if scores.ndim == labels.ndim + 1 and scores.ndim > 2:
        images = np.moveaxis(scores, 1, -1)
        fits = [each.shape[:-1] == labels.shape for each in (scores, images)]
        if all(fits) and labels.ndim == 2:
            raise Misfit(
                "the classes are on the second axis of the output or on the third: both fit. --post moves them"
            )
        scores = images if fits[1] else scores
    if scores.shape[:-1] != labels.shape:
        one, other = (" x ".join(map(str, shape[1:])) or "one number" for shape in (scores.shape, labels.shape))
        raise Misfit(f"the output of a sample is {one} and its label {other}: a class needs a score for each class")
    if scores.shape[-1] < 2:
        raise Misfit("the output has a single score: turn it into one for each class with --post")
    return scores, checked(labels, scores.shape[-1], ignored)


def _whole(labels: np.ndarray) -> np.ndarray:
    """Labels as int64; a column of single labels becomes a row.

    Raises:
        Misfit: they are no integers.
    """
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.floor(labels)).all():
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iub":
        if labels.dtype.kind != "f":
            raise Misfit(f"labels are numbers of classes, from 0 on, and these are {labels.dtype}")
        place = np.argwhere(~np.isfinite(labels) | (labels != np.floor(labels)))[0]
        raise Misfit(f"the label is {labels[tuple(place)]:g}, and labels are numbers of classes", int(place[0]))
    if labels.ndim > 1 and labels.shape[1:] == (1,):
        labels = labels[:, 0]
    if labels.dtype.kind == "u" and (large := labels > np.iinfo(np.int64).max).any():
        place = np.argwhere(large)[0]
        raise Misfit(f"the label is {labels[tuple(place)]}, and labels are numbers of classes", int(place[0]))
    return labels.astype(np.int64)


def checked(labels: np.ndarray, classes: int, ignored: tuple[int, ...]) -> np.ndarray:
    """The labels, with `IGNORED` for all that are ignored.

    Raises:
        Misfit: a label is none of the classes.
    """
    labels = np.where(np.isin(labels, ignored), IGNORED, labels)
    outside = ((labels < 0) | (labels >= classes)) & (labels != IGNORED)
    if outside.any():
        place = np.argwhere(outside)[0]
        value = labels[tuple(place)]
        raise Misfit(f"label {value} is none of the network's {classes} classes, 0 to {classes - 1}", int(place[0]))
    return labels


def answers(scores: np.ndarray) -> np.ndarray:
    """The class with the highest score, the first of several; -1 where a score is not a number."""
    return np.where(np.isnan(scores).any(axis=-1), -1, scores.argmax(axis=-1)).astype(np.int32)
