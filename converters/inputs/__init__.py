"""Infers what the inputs of a graph are: an index of a table, a mask of 0 and 1, a length, a step, or any number.

An integer's type does not show this; its readers do. Every input is followed through all its readers (`trace.py`,
`operators.py`), with what is known of the other tensors (`known.py`), and drawn from the resulting range.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from xbench import models
from xbench.converters.inputs.known import INFINITE, Fact, Known
from xbench.converters.inputs.operators import rule_of
from xbench.converters.inputs.trace import STEPS, Limits, State, Trace, targets
from xbench.converters.passes import macs

FREE = 256  # number of values of an unrestricted integer: a byte
BATCHES = (2, 3, 1009)  # batches at which bounds that depend on the batch are compared
ALIKE = 4  # number of values of an input that is compared with another


def settled(model: ir.Model, inputs: Sequence[models.Input]) -> tuple[models.Input, ...]:
    """The inputs with the ranges that the graph needs: `inputs` are those of the graph by name, in any range."""
    values = {str(v.name): v for v in model.graph.inputs if v.name not in model.graph.initializers}
    limits = _limits(model.graph, values, None)
    ranged = [_settle(each, values.get(each.name), limits.get(each.name)) for each in inputs]
    if not any(each.unsized for each in limits.values()):
        return tuple(ranged)
    grown = [_limits(model.graph, values, macs.sizes(model, batch)) for batch in BATCHES]
    every = [[_settle(each, values.get(each.name), at.get(each.name)) for each in inputs] for at in grown]
    return tuple(_grown(*each) for each in zip(*every, strict=True))


def _limits(
    graph: ir.Graph, values: Mapping[str, ir.Value], sizes: Mapping[str, Sequence[int]] | None
) -> dict[str, Limits]:
    """The limits of every input; inferred twice, as those of one can depend on another."""
    out = targets(graph)
    given = {name: Fact(0.0 if _is_integer(value) else -INFINITE, given=True) for name, value in values.items()}
    limits: dict[str, Limits] = {}
    for _ in range(2 if len(values) > 1 else 1):
        known = Known(graph, sizes, given)
        limits = {name: _walked(known, value, out) for name, value in values.items()}
        given = {name: _fact(value, limits[name]) for name, value in values.items()}
    return limits


def _is_integer(value: ir.Value) -> bool:
    return value.dtype is not None and (value.dtype == ir.DataType.BOOL or value.dtype.is_integer())


def _fact(value: ir.Value, limits: Limits) -> Fact:
    if value.dtype == ir.DataType.BOOL or _is_mask(value, limits):
        return Fact(0.0, 1.0, given=True)
    return Fact(max(limits.low, 0.0) if _is_integer(value) else limits.low, limits.high, given=True)


def _walked(known: Known, given: ir.Value, out: Mapping[ir.Value, Sequence[ir.Value]]) -> Limits:
    trace = Trace(known, given)
    start = State(least=0.0, most=1.0) if given.dtype == ir.DataType.BOOL else State()
    todo: list[tuple[ir.Value, State]] = [(given, start)]
    seen = set(todo)
    while todo and len(seen) < STEPS:
        value, state = todo.pop()
        onward = [(each, state) for each in out.get(value, ())]
        for node, index in value.uses():
            if (rule := rule_of(node, index)) is not None:
                onward += rule(trace, node, index, state)
        todo += [each for each in dict.fromkeys(onward) if each not in seen]
        seen.update(onward)
    return trace.limits


def _is_mask(value: ir.Value, limits: Limits) -> bool:
    """Whether it is 0 or 1. An input that also becomes, element by element, an index of more values is that index,
    compared with the number for nothing."""
    several = value.shape is None or len(value.shape) > 1
    if limits.direct and limits.high != 1.0:
        return False
    return limits.mask == 2 or (
        limits.mask == 1 and (several or bool(limits.special | limits.edges)) and _binary(limits)
    )


def _binary(limits: Limits) -> bool:
    return all(0.0 <= each <= 1.0 for each in limits.special | limits.edges)


def _settle(each: models.Input, value: ir.Value | None, limits: Limits | None) -> models.Input:
    if value is None or limits is None:
        return each
    plain = models.Input(each.name, each.shape, each.dtype)
    if np.dtype(each.dtype) == bool:
        return dataclasses.replace(plain, low=0, high=2, mask=limits.keeps or 2, why="says yes or no")
    if _is_mask(value, limits):
        return dataclasses.replace(plain, low=0, high=2, mask=limits.keeps or 1, why="a mask")
    return _number(plain, limits) if _is_integer(value) else _float(plain, limits)


def _float(plain: models.Input, limits: Limits) -> models.Input:
    if limits.high == INFINITE or not limits.why:
        return plain
    return dataclasses.replace(plain, low=max(limits.low, 0.0), high=max(limits.high, 0.0), why=limits.why)


def _number(plain: models.Input, limits: Limits) -> models.Input:
    kind = np.iinfo(plain.dtype)
    compared = sorted(limits.special | limits.edges)
    if limits.high < INFINITE:
        low = max(limits.low, 0.0) if limits.high >= 0 else max(limits.low, limits.high - FREE)
        last, why = limits.high, limits.why
    elif compared:
        low, last = max(min(0.0, np.floor(compared[0]) - 1), limits.low), np.ceil(compared[-1]) + 3
        why = f"is compared with {', '.join(f'{each:g}' for each in compared[:4])}"
    elif limits.low > -INFINITE:
        low, last, why = max(limits.low, 0.0), max(limits.low, 0.0) + FREE - 1, limits.why
    elif limits.alike:
        low, last, why = 0.0, ALIKE - 1.0, "is compared with another input"
    else:
        low, last, why = float(max(-FREE // 2, kind.min) if kind.bits == 8 else 0), FREE - 1.0, "any number"
    low, last = max(low, float(kind.min)), min(last, float(kind.max), models.UNBOUNDED - 1.0)
    special = tuple(each for each in sorted(limits.special) if low <= each <= last and low < last)
    return dataclasses.replace(plain, low=int(low), high=int(max(last, low)) + 1, special=special[:4], why=why)


def _grown(*at: models.Input) -> models.Input:
    """Merges one input at several batches: its bound grows with the batch, or it does not."""
    first, second, far = at
    slope = int(second.high - first.high)
    if first.mask or not np.issubdtype(first.dtype, np.integer) or not slope:
        return far
    rest = int(first.high) - slope * BATCHES[0]
    bounded = far.high < slope * BATCHES[2] + rest
    high = far.high if bounded else models.UNBOUNDED
    return dataclasses.replace(first, high=high, within=(slope, rest))
