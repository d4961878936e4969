"""What the inputs of a graph are: an index within its table, a mask of 0 and 1, a length, a step, or any number.

An integer says nothing of itself; what it reaches does. Every input is followed along all that reads it (`trace.py`,
`operators.py`), with what is known of the other tensors (`known.py`), and drawn from what is wanted of it in the end.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from xbench import models
from xbench.converters.inputs.known import INFINITE, Fact, Known
from xbench.converters.inputs.operators import rule_of
from xbench.converters.inputs.trace import STEPS, Found, State, Trace, targets
from xbench.converters.passes import macs

FREE = 256  # values of an integer that may be anything: a byte
BATCHES = (2, 3, 1009)  # batches at which bounds that depend on the batch are looked at
ALIKE = 4  # values of what is compared with another input


def settled(model: ir.Model, inputs: Sequence[models.Input]) -> tuple[models.Input, ...]:
    """The same inputs with the ranges that the graph wants: `inputs` are those of the graph by name, in any range."""
    values = {str(v.name): v for v in model.graph.inputs if v.name not in model.graph.initializers}
    found = _found(model.graph, values, None)
    settled = [_settle(each, values.get(each.name), found.get(each.name)) for each in inputs]
    if not any(each.unsized for each in found.values()):
        return tuple(settled)
    grown = [_found(model.graph, values, macs.sizes(model, batch)) for batch in BATCHES]
    every = [[_settle(each, values.get(each.name), at.get(each.name)) for each in inputs] for at in grown]
    return tuple(_grown(*each) for each in zip(*every, strict=True))


def _found(
    graph: ir.Graph, values: Mapping[str, ir.Value], sizes: Mapping[str, Sequence[int]] | None
) -> dict[str, Found]:
    """What is found of every input; looked for twice, as what one of them may be can depend on what another is."""
    out = targets(graph)
    given = {name: Fact(0.0 if _is_whole(value) else -INFINITE, given=True) for name, value in values.items()}
    found: dict[str, Found] = {}
    for _ in range(2 if len(values) > 1 else 1):
        known = Known(graph, sizes, given)
        found = {name: _walked(known, value, out) for name, value in values.items()}
        given = {name: _fact(value, found[name]) for name, value in values.items()}
    return found


def _is_whole(value: ir.Value) -> bool:
    return value.dtype is not None and (value.dtype == ir.DataType.BOOL or value.dtype.is_integer())


def _fact(value: ir.Value, found: Found) -> Fact:
    if value.dtype == ir.DataType.BOOL or _is_mask(value, found):
        return Fact(0.0, 1.0, given=True)
    return Fact(max(found.low, 0.0) if _is_whole(value) else found.low, found.high, given=True)


def _walked(known: Known, given: ir.Value, out: Mapping[ir.Value, Sequence[ir.Value]]) -> Found:
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
    return trace.found


def _is_mask(value: ir.Value, found: Found) -> bool:
    """Whether it is 0 or 1. What also finds its way, element by element, to an index of more values is that index, and
    is compared with the number that stands for nothing."""
    several = value.shape is None or len(value.shape) > 1
    if found.direct and found.high != 1.0:
        return False
    return found.mask == 2 or (found.mask == 1 and (several or bool(found.special | found.edges)) and _binary(found))


def _binary(found: Found) -> bool:
    return all(0.0 <= each <= 1.0 for each in found.special | found.edges)


def _settle(each: models.Input, value: ir.Value | None, found: Found | None) -> models.Input:
    if value is None or found is None:
        return each
    plain = models.Input(each.name, each.shape, each.dtype)
    if np.dtype(each.dtype) == bool:
        return dataclasses.replace(plain, low=0, high=2, mask=found.keeps or 2, why="says yes or no")
    if _is_mask(value, found):
        return dataclasses.replace(plain, low=0, high=2, mask=found.keeps or 1, why="a mask")
    return _number(plain, found) if _is_whole(value) else _float(plain, found)


def _float(plain: models.Input, found: Found) -> models.Input:
    if found.high == INFINITE or not found.why:
        return plain
    return dataclasses.replace(plain, low=max(found.low, 0.0), high=max(found.high, 0.0), why=found.why)


def _number(plain: models.Input, found: Found) -> models.Input:
    kind = np.iinfo(plain.dtype)
    compared = sorted(found.special | found.edges)
    if found.high < INFINITE:
        low = max(found.low, 0.0) if found.high >= 0 else max(found.low, found.high - FREE)
        last, why = found.high, found.why
    elif compared:
        low, last = max(min(0.0, np.floor(compared[0]) - 1), found.low), np.ceil(compared[-1]) + 3
        why = f"is compared with {', '.join(f'{each:g}' for each in compared[:4])}"
    elif found.low > -INFINITE:
        low, last, why = max(found.low, 0.0), max(found.low, 0.0) + FREE - 1, found.why
    elif found.alike:
        low, last, why = 0.0, ALIKE - 1.0, "is compared with another input"
    else:
        low, last, why = float(max(-FREE // 2, kind.min) if kind.bits == 8 else 0), FREE - 1.0, "any number"
    low, last = max(low, float(kind.min)), min(last, float(kind.max), models.UNBOUNDED - 1.0)
    special = tuple(each for each in sorted(found.special) if low <= each <= last and low < last)
    return dataclasses.replace(plain, low=int(low), high=int(max(last, low)) + 1, special=special[:4], why=why)


def _grown(*at: models.Input) -> models.Input:
    """One input of those at several batches: the bound grows with the batch, or it does not."""
    first, second, far = at
    slope = int(second.high - first.high)
    if first.mask or not np.issubdtype(first.dtype, np.integer) or not slope:
        return far
    rest = int(first.high) - slope * BATCHES[0]
    bounded = far.high < slope * BATCHES[2] + rest
    high = far.high if bounded else models.UNBOUNDED
    return dataclasses.replace(first, high=high, within=(slope, rest))
