"""Gradients of the losses that are operators of ONNX."""

import numpy as np
import onnx_ir as ir

from xbench.converters.autodiff.gradient.ops import dims


def SoftmaxCrossEntropyLoss(op, node, dy, dlogs=None):
    """Of (N, classes, ...) scores with (N, ...) labels; through the second result, the log-probabilities, as well."""
    scores = node.inputs[0]
    logs = op.LogSoftmax(scores, axis=1)
    logs.shape, logs.dtype = scores.shape, scores.dtype
    total, *rest = (None,) if dy is None else _likelihood(op, node, logs, dy)
    if dlogs is not None:
        total = dlogs if total is None else op.Add(total, dlogs)
    return [op.Sub(total, op.Mul(op.Exp(logs), op.ReduceSum(total, [1]))), *rest]


def NegativeLogLikelihoodLoss(op, node, dy):
    return _likelihood(op, node, node.inputs[0], dy)


def _numbers(op, logs, classes, places):
    """The numbers of the classes along axis 1. They may be the samples of a batch, as in contrastive losses."""
    if classes is not None:
        return np.arange(classes, dtype=np.int64).reshape(places)
    return op.Reshape(op.Range(np.array(0), op.Squeeze(op.length(logs, 1), [0]), np.array(1)), places)


def _likelihood(op, node, logs, dy):
    """The gradients by the log-probabilities, the labels and the weights of the classes; a label that is ignored has
    none."""
    classes, others = dims(logs)[1], [axis for axis in range(len(dims(logs))) if axis != 1]
    places = [1, -1 if classes is None else classes, *[1] * (len(dims(logs)) - 2)]
    numbers = _numbers(op, logs, classes, places)
    labels = op.Cast(op.Unsqueeze(node.inputs[1], [1]), to=ir.DataType.INT64)
    chosen = op.Cast(op.Equal(labels, numbers), to=op.floating)
    if (ignored := node.attributes.get_int("ignore_index", None)) is not None and ignored >= 0:
        chosen = op.Mul(chosen, op.Cast(op.Not(op.Equal(numbers, np.array(ignored))), to=op.floating))
    weights = node.inputs[2] if len(node.inputs) > 2 else None
    weighted = chosen if weights is None else op.Mul(chosen, op.reshape(weights, places))
    reduction = node.attributes.get_string("reduction", "mean")
    share = op.Unsqueeze(dy, [1]) if reduction == "none" else dy
    share = op.Div(dy, op.ReduceSum(weighted, keepdims=0)) if reduction == "mean" else share
    by_logs = op.Neg(op.Mul(weighted, share))
    if weights is None:
        return [by_logs]
    lost = logs if reduction != "mean" else op.Add(logs, node.outputs[0])  # the mean divides by the weights, too
    return [by_logs, None, op.Neg(op.ReduceSum(op.Mul(op.Mul(chosen, lost), share), others, keepdims=0))]
