"""Rules for comparisons and choices by them: an input whose 0 and 1 they distinguish is a mask."""

import operator
from collections.abc import Callable
from dataclasses import replace

import onnx_ir as ir

from xbench.converters.inputs.arithmetic import BIG, other_operand
from xbench.converters.inputs.known import INFINITE, Fact
from xbench.converters.inputs.trace import Onward, State, Trace

COMPARED = {
    "Equal": operator.eq, "Greater": operator.gt, "GreaterOrEqual": operator.ge, "Less": operator.lt,
    "LessOrEqual": operator.le,
}  # fmt: skip


def cast(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    if node.outputs[0].dtype != ir.DataType.BOOL or trace.given.dtype == ir.DataType.BOOL:
        return [(node.outputs[0], state)]
    return _split(trace, node, state, operator.ne, 0.0, equal=True)


def not_(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    return [(node.outputs[0], state.times(-1.0).plus(Fact(1.0, 1.0)))]


def join(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    return [(node.outputs[0], state)]


def compare(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    kind, other = COMPARED[node.op_type], other_operand(trace, node, index)
    way = (lambda a, b: kind(b, a)) if index else kind
    if other.bounded and other.low == other.high:
        return _split(trace, node, state, way, other.low, node.op_type == "Equal")
    if other.given:
        trace.limits.alike = True
        return [(node.outputs[0], replace(state, loose=True))] if trace.given.dtype == ir.DataType.BOOL else ()
    if not other.bounded or trace.floating:
        trace.limits.unsized |= not trace.floating
        return ()
    more = not way(0, 0) and node.op_type != "Equal"  # a place is distinguished from an equal one
    below = more and way(1, 0)  # the input is the larger one
    low, high = other.low + (more and below), other.high + (more and below)
    why = f"is compared with the places {other.low:.0f} to {other.high:.0f}"
    trace.limits.want(replace(state, least=-INFINITE, most=INFINITE), low, high, why)
    return ()


def _split(
    trace: Trace, node: ir.Node, state: State, way: Callable[[float, float], bool], place: float, equal: bool
) -> Onward:
    """A comparison with one number: it distinguishes 0 from 1, or the number is special among other values."""
    if not state.exact:
        return ()
    zero, one = (bool(way(state.scale * x + state.low, place)) for x in (0.0, 1.0))
    turning = (place - state.low) / state.scale
    if equal and turning.is_integer():
        trace.limits.special.add(turning)
    elif not equal and not trace.floating:
        trace.limits.edges.add(turning)
    if zero == one:
        return ()
    if not trace.floating or (equal and turning in (0.0, 1.0)):
        trace.limits.is_mask(1)
    return [(node.outputs[0], state.truth(zero, one))]


def choose(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """Where: the very small side is masked out."""
    constants = [trace.known.of(value) for value in node.inputs[1:3]]
    dropped = [fact.high <= -BIG and not fact.given for fact in constants]
    keeps = 0
    if dropped[0] != dropped[1]:
        keeps = (1 if dropped[1] else -1) * (1 if state.scale > 0 else -1)
    trace.limits.is_mask(2 if keeps else 1, keeps)
    return ()


def whether(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    trace.limits.is_mask(1)
    return ()
