"""Reverse-mode differentiation of ONNX graphs: the gradient of a graph is more of the same graph.

A rule gives an operator's gradient in ONNX's operators: a function of the builder `op`, the node and the gradients
of its outputs, that returns those of its inputs (None if there is none). Operators without a rule that
ONNX defines by a body are differentiated through the body (`xbench.converters.frontends.functions`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FunctionType

import onnx_ir as ir

from xbench.converters.autodiff.gradient import (
    convolution,
    elementwise,
    entropy,
    matrix,
    normalize,
    pool,
    recurrent,
    reduce,
    resize,
    sample,
    scatter,
    shape,
    signal,
)
from xbench.converters.autodiff.gradient.ops import Ops
from xbench.converters.ops.info import OPERATORS, info

FAMILIES = (elementwise, shape, scatter, reduce, matrix, convolution, pool, normalize)
FAMILIES += (recurrent, resize, sample, entropy, signal)
CONSTANT = {name for name, each in OPERATORS.items() if not each.differentiable}  # no gradient passes through these
RULES: dict[str, Callable[..., Sequence[ir.Value | None]]] = {
    name: rule
    for family in FAMILIES
    for name, rule in vars(family).items()
    if name[0].isupper() and isinstance(rule, FunctionType) and rule.__module__ == family.__name__
}


class NoGradient(Exception):
    """Operators between the loss and a parameter that have no rule; all of them are named."""

    def __init__(self, operators: Mapping[str, int]) -> None:
        self.operators = dict(sorted(operators.items()))
        super().__init__("no gradient of " + ", ".join(f"{name} ({n})" for name, n in self.operators.items()))


def differentiate(
    op: Ops, nodes: Sequence[ir.Node], seeds: Mapping[ir.Value, ir.Value], wrt: Collection[ir.Value]
) -> dict[ir.Value, ir.Value]:
    """Appends the gradient of `nodes`: from that of some results (`seeds`) to that of the values `wrt`.

    A value that no result depends on is left out of what is returned. Shapes must have been inferred; every
    gradient is named `gradient.` and the name of its tensor.

    Raises:
        NoGradient: operators in between without a rule.
        NotImplementedError: a form of an operator that has no gradient here; the message names it.
        ValueError: a shape is not known.
    """
    active = differentiable(nodes, wrt)
    parts: dict[ir.Value, list[ir.Value]] = {value: [seed] for value, seed in seeds.items()}
    way = [node for node in reversed(nodes) if any(output in active for output in node.outputs)]
    gradients: dict[ir.Value, ir.Value] = {}
    for node in way:
        dys = [_total(op, output, parts.get(output, [])) for output in node.outputs]
        if all(dy is None for dy in dys):
            continue
        dxs = RULES[node.op_type](op, node, *dys)
        for x, dx in zip(node.inputs, dxs, strict=False):
            if x in active and dx is not None:
                dx.shape, dx.dtype = x.shape, x.dtype
                parts.setdefault(x, []).append(dx)
    for value in wrt:
        total = _total(op, value, parts.get(value, []))
        if total is not None:
            gradients[value] = total
    return gradients


def differentiable(nodes: Sequence[ir.Node], wrt: Collection[ir.Value]) -> set[ir.Value]:
    """The values that depend on `wrt` in a way that has a gradient.

    Raises:
        NoGradient: operators among them without a rule.
    """
    active, missing = set(wrt), dict[str, int]()
    for node in nodes:
        if not info(node.op_type).differentiable or not any(value in active for value in _read(node)):
            continue
        if node.op_type not in RULES or node.domain:
            missing[node.op_type] = missing.get(node.op_type, 0) + 1
        active.update(node.outputs)
    if missing:
        raise NoGradient(missing)
    return active


def _read(node: ir.Node) -> Iterator[ir.Value | None]:
    """The values a node reads, also inside its subgraphs."""
    yield from node.inputs
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield from (value for inner in attribute.as_graph().all_nodes() for value in inner.inputs)


def _total(op: Ops, value: ir.Value, parts: Sequence[ir.Value]) -> ir.Value | None:
    """The sum of the contributions of a tensor's readers to its gradient."""
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = op.Add(total, part)
        total.shape, total.dtype = value.shape, value.dtype
    return total
