"""Losses (`converters/autodiff/loss.py`) in ONNX's operators, each with its gradient by the output."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from xbench.converters.autodiff.gradient.ops import Ops, dims


def in_graph(
    op: Ops, rule: Mapping[str, Any], outputs: Sequence[ir.Value], labels: ir.Value
) -> tuple[ir.Value, dict[ir.Value, ir.Value]]:
    """The loss, and its gradient by every output that it reads."""
    losses, grads = [], {}
    for index, weight in enumerate(rule["weights"]):
        loss, grad = GRAPHS[rule["name"]](op, outputs[index], labels)
        losses.append(loss if weight == 1 else op.Mul(loss, weight))
        grads[outputs[index]] = grad if weight == 1 else op.Mul(grad, weight)
    total = losses[0]
    for other in losses[1:]:
        total = op.Add(total, other)
    return total, grads


def _cross_entropy(op: Ops, logits: ir.Value, labels: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Of logits (..., classes) with labels (...)."""
    classes = dims(logits)[-1]
    flat = logits if len(dims(logits)) == 2 else op.reshape(logits, [None, classes])
    logs, picked = op.LogSoftmax(flat, axis=-1), op.reshape(labels, [None, 1])
    loss = op.Neg(op.ReduceMean(op.GatherElements(logs, picked, axis=1), keepdims=0))
    share = op.Reciprocal(op.Cast(op.Size(picked), to=op.floating))
    ones = op.Expand(op.Neg(share), op.Shape(picked))
    softmax = op.Mul(op.Exp(logs), share)
    grad = op.ScatterElements(softmax, picked, ones, axis=1, reduction="add")
    return loss, grad if flat is logits else op.reshape_like(grad, logits)


def _mean_squared_error(op: Ops, y: ir.Value, target: ir.Value) -> tuple[ir.Value, ir.Value]:
    rest = op.Sub(y, target)
    twice = op.Mul(op.Reciprocal(op.Cast(op.Size(rest), to=op.floating)), 2.0)
    return op.ReduceMean(op.Mul(rest, rest), keepdims=0), op.Mul(rest, twice)


def _binary_cross_entropy(op: Ops, logits: ir.Value, target: ir.Value) -> tuple[ir.Value, ir.Value]:
    """log(1 + exp(z)) - t z, the first as max(z, 0) + log(1 + exp(-|z|)), which does not overflow."""
    positive = op.Relu(logits)
    soft = op.Add(positive, op.Log(op.Add(op.Exp(op.Neg(op.Abs(logits))), 1.0)))
    share = op.Reciprocal(op.Cast(op.Size(logits), to=op.floating))
    loss = op.ReduceMean(op.Sub(soft, op.Mul(logits, target)), keepdims=0)
    return loss, op.Mul(op.Sub(op.Sigmoid(logits), target), share)


def _own_loss(op: Ops, y: ir.Value, target: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The output itself. The target takes no part, but a graph whose input nothing reads may lose it."""
    share = op.Reciprocal(op.Cast(op.Size(y), to=op.floating))
    nothing = op.Mul(op.ReduceMean(target, keepdims=0), 0.0)
    return op.Add(op.ReduceMean(y, keepdims=0), nothing), op.Expand(share, op.Shape(y))


GRAPHS: dict[str, Callable[[Ops, ir.Value, ir.Value], tuple[ir.Value, ir.Value]]] = {
    "cross_entropy": _cross_entropy,
    "mean_squared_error": _mean_squared_error,
    "binary_cross_entropy": _binary_cross_entropy,
    "own_loss": _own_loss,
}
