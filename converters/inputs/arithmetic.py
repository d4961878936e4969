"""Rules for arithmetic: an input that decides where a large number is added, or that is a factor."""

from dataclasses import replace

import onnx_ir as ir

from xbench.converters.inputs.known import INFINITE, Fact
from xbench.converters.inputs.trace import Onward, State, Trace

BIG = 1000.0  # a number added to a score so that softmax drops it is at least this large


def other_operand(trace: Trace, node: ir.Node, index: int) -> Fact:
    return trace.known.of(node.inputs[1 - index])


def _is_float(value: ir.Value | None) -> bool:
    return value is None or value.dtype is None or value.dtype.is_floating_point()


def add(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    other = other_operand(trace, node, index)
    if not other.bounded:
        if not other.given or _is_float(node.outputs[0]):
            trace.limits.unsized |= not _is_float(node.outputs[0])
            _added_to_scores(trace, state)
            return ()
        other, state = Fact(0.0, 0.0), state.times(2.0)  # two unknown inputs share the range
    return [(node.outputs[0], state.plus(other))]


def subtract(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    other = other_operand(trace, node, index)
    if not other.bounded:
        trace.limits.unsized |= not other.given and not _is_float(node.outputs[0])
        _added_to_scores(trace, state if index == 0 else state.times(-1.0))
        return ()
    if index == 0:
        return [(node.outputs[0], state.plus(Fact(-other.high, -other.low)))]
    return [(node.outputs[0], state.times(-1.0).plus(other))]


def _added_to_scores(trace: Trace, state: State) -> None:
    """A number that is large where the input masks something can only be there for a softmax to drop."""
    if abs(state.scale) >= BIG and (state.scale < 0 or state.low != 0):
        trace.limits.is_mask(2, 1 if state.scale > 0 else -1)


def multiply(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    other = other_operand(trace, node, index)
    if other.bounded and other.low == other.high:
        return [(node.outputs[0], state.times(other.low))]
    if _is_float(node.outputs[0]):
        if other.given and not trace.floating:
            turned = state.scale < 0 and state.low != 0
            trace.limits.is_mask(2 if turned else 1, 0 if not state.exact else 1 if not turned else -1)
        return ()
    if other.given:
        trace.limits.is_mask(1)
    if other.low < 0 or other.high == INFINITE:
        return [(node.outputs[0], replace(state, loose=True, least=-INFINITE, most=INFINITE))]
    return [(node.outputs[0], replace(state.times(other.high), loose=state.loose or other.given))]


def divide(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    other = other_operand(trace, node, index)
    if index == 1:
        if not trace.floating:
            trace.limits.want(state, 1, INFINITE, "something is divided by it")
        return ()
    if other.low == other.high and 0 < abs(other.low) < INFINITE:
        return [(node.outputs[0], state.times(1.0 / other.low))]
    return ()


def modulo(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    if index == 1:
        return divide(trace, node, index, state)
    other = other_operand(trace, node, index)
    if not 0 < other.low < INFINITE:
        return ()
    return [(node.outputs[0], replace(state, least=0.0, most=other.high - 1))]


def clip(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    ends = [trace.known.of(value) if value is not None else None for value in [*node.inputs[1:], None, None][:2]]
    if index:
        return ()
    for end in (each.low for each in ends if each is not None and each.low == each.high):
        if state.exact and not trace.floating:
            trace.limits.edges.add((end - state.low) / state.scale)
        if ends[0] is not None and end == ends[0].low:
            state = replace(state, least=max(state.least, end))
        else:
            state = replace(state, most=min(state.most, end))
    return [(node.outputs[0], state)]


def sum_(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    count = trace.known.along(node)
    trace.limits.unsized |= count is None
    least, most = state.least * (count or 1), state.most * (count or 1)
    summed = replace(state, summed=True, least=min(least, state.least), most=max(most, state.most))
    return [(node.outputs[0], summed)]


def negate(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    return [(node.outputs[0], state.times(-1.0))]
