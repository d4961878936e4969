"""Losses of training graphs."""

import numpy as np

from xbench.converters.ops.generic import normalize


def NegativeLogLikelihoodLoss(xp, x, target, weight=None, *, ignore_index=None, reduction="mean"):
    """Log-probabilities x (N, C, ...) at the classes target (N, ...), negated, weighted by class and reduced.

    A mean is over the weights of the classes that occur; ignored elements do not count.
    """
    ignored = None if ignore_index is None else xp.equal(target, ignore_index)
    target = target if ignored is None else xp.where(ignored, 0, target)
    loss = -xp.squeeze(xp.take_along_axis(x, xp.expand_dims(target, (1,)), 1), 1)
    if weight is None and ignored is None:
        return xp.mean(loss) if reduction == "mean" else xp.sum(loss) if reduction == "sum" else loss
    weights = xp.take(weight, target) if weight is not None else xp.asarray(np.ones(xp.shape(target), np.float32), loss)
    loss = loss * weights
    if ignored is not None:
        loss, weights = xp.where(ignored, 0, loss), xp.where(ignored, 0, weights)
    if reduction == "none":
        return loss
    return xp.sum(loss) / xp.sum(weights) if reduction == "mean" else xp.sum(loss)


def SoftmaxCrossEntropyLoss(xp, x, labels, weights=None, *, ignore_index=None, reduction="mean", outputs=1):
    """The negative log-likelihood of labels (N, ...) under the softmax of scores x (N, C, ...).

    Returns the loss, and if it is read the logarithm of the softmax.
    """
    log_prob = normalize.LogSoftmax(xp, x, axis=1)
    loss = NegativeLogLikelihoodLoss(xp, log_prob, labels, weights, ignore_index=ignore_index, reduction=reduction)
    return loss if outputs == 1 else (loss, log_prob)
