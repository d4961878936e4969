"""What it means for an input that an operator reads it, or what was computed of it.

A rule is given the walk, the node, which of its inputs is meant and how that follows from the network's input. It
notes what is wanted, and returns the tensors to go on with. An operator without a rule is arithmetic on any numbers.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import replace

import onnx_ir as ir

from xbench.converters._tensors import plain
from xbench.converters.inputs.known import INFINITE, Fact, _bodies
from xbench.converters.inputs.trace import State, Trace

Onward = Iterable[tuple[ir.Value, State]]
Rule = Callable[[Trace, ir.Node, int, State], Onward]
BIG = 1000.0  # what is added to a score so that softmax drops it is at least so large
FEW = 4  # of what only counts things: rounds, repetitions, sizes of new arrays
COMPARED = {
    "Equal": operator.eq, "Greater": operator.gt, "GreaterOrEqual": operator.ge, "Less": operator.lt,
    "LessOrEqual": operator.le,
}  # fmt: skip
# The inputs of an operator that its result is made of, as they are.
MOVES = {
    "Compress": (0,), "Concat": range(10_000), "Dropout": (0,), "Expand": (0,), "Flatten": (0,), "Gather": (0,),
    "GatherElements": (0,), "GatherND": (0,), "Identity": (0,), "Max": range(10_000), "Min": range(10_000),
    "Pad": (0, 2), "ReduceMax": (0,), "ReduceMin": (0,), "Reshape": (0,), "ReverseSequence": (0,), "Round": (0,),
    "Ceil": (0,), "Floor": (0,), "ScatterElements": (0, 2), "ScatterND": (0, 2), "Slice": (0,), "Split": (0,),
    "Squeeze": (0,), "Tile": (0,), "TopK": (0,), "Transpose": (0,), "Trilu": (0,), "Unsqueeze": (0,), "Where": (1, 2),
}  # fmt: skip
KEEPS_PART = {"Cast", "Expand", "Identity"}
# Inputs that count something or choose a size: what they may be at least and at most.
COUNTS: dict[tuple[str, int], tuple[float, float]] = {
    ("ConstantOfShape", 0): (1, FEW),
    ("CumSum", 1): (0, 0),
    ("Expand", 1): (1, 1),
    ("Loop", 0): (1, FEW),
    ("OneHot", 1): (1, FEW),
    ("Pad", 1): (0, 2),
    ("Reshape", 1): (0, 0),
    ("Range", 2): (1, 2),
    ("Tile", 1): (1, FEW),
    ("Trilu", 1): (-1, 1),
    ("BitShift", 1): (0, 7),
    ("Unsqueeze", 1): (0, 0),
    ("Squeeze", 1): (0, 0),
}


def rule_of(node: ir.Node, index: int) -> Rule | None:
    if node.domain not in ("", "ai.onnx"):
        return None
    if (node.op_type, index) in COUNTS:
        return _count
    if (rule := RULES.get((node.op_type, index))) is not None:
        return rule
    if index in MOVES.get(node.op_type, ()):
        return _move
    return RULES.get((node.op_type, -1))


def _named(trace: Trace, value: ir.Value | None, axis: int) -> str:
    """A table, or an axis of what is computed."""
    name = "?" if value is None else plain(str(value.name), 60)
    stored = value is not None and value.is_initializer()
    return f"indexes the table {name}" if stored and not axis else f"indexes axis {axis} of {name}"


def _move(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    part = state.part if node.op_type in KEEPS_PART else None
    if node.op_type == "Concat":
        part = _part(trace, node, index)
    if node.op_type in ("Max", "Min"):
        others = [trace.known.of(value) for place, value in enumerate(node.inputs) if place != index]
        ends = [fact.low if node.op_type == "Max" else fact.high for fact in others]
        known = [end for end in ends if abs(end) != INFINITE]
        if known and node.op_type == "Max":
            state = replace(state, least=max(state.least, *known))
        elif known:
            state = replace(state, most=min(state.most, *known))
    return [(value, replace(state, part=part)) for value in node.outputs[: None if node.op_type == "Split" else 1]]


def _part(trace: Trace, node: ir.Node, index: int) -> int | None:
    """Where along the last axis an input of Concat stands, if it has one place there."""
    rank = trace.known.rank(node.outputs[0])
    if rank is None or node.attributes.get_int("axis", 0) not in (-1, rank - 1):
        return None
    sizes = [trace.known.size(value, -1) for value in node.inputs[: index + 1]]
    return None if None in sizes or sizes[-1] != 1 else sum(size or 0 for size in sizes[:-1])


# ***** indices *****


def _index(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """Gather, GatherElements, ScatterElements: one axis."""
    axis = node.attributes.get_int("axis", 0)
    size = trace.size(node.inputs[0], axis)
    trace.found.want(state, 0, size - 1, _named(trace, node.inputs[0], axis))
    return ()


def _indices(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """GatherND, ScatterND: the last axis of the indices holds one for each of the first axes."""
    first = node.attributes.get_int("batch_dims", 0)
    count = trace.known.size(node.inputs[1], -1) or 1
    axes = range(first, first + count) if state.part is None else [first + state.part]
    sizes = {axis: trace.size(node.inputs[0], axis) for axis in axes}
    least = min(sizes, key=lambda axis: sizes[axis])
    trace.found.want(state, 0, sizes[least] - 1, _named(trace, node.inputs[0], least))
    return ()


def _class(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """OneHot, and the losses, whose classes are the second axis of the scores."""
    if node.op_type == "OneHot":
        depth = trace.known.of(node.inputs[1])
        trace.found.unsized |= depth.array is None
        size = 1.0 if depth.array is None else depth.high
    else:
        size = trace.size(node.inputs[0], 1)
    trace.found.want(state, 0, size - 1, "is one of the classes")
    return ()


def _length(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    axis = node.attributes.get_int("time_axis", 0)
    trace.found.want(state, 1, trace.size(node.inputs[0], axis), f"a length along axis {axis} of {node.op_type}")
    return ()


def _count(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    low, high = COUNTS[node.op_type, index]
    trace.found.want(state, low, high, f"decides the size or the rounds of {node.op_type}")
    return ()


def _end(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """Slice: where it starts, ends, its axes and steps."""
    axes = trace.known.of(node.inputs[3]).array if len(node.inputs) > 3 and node.inputs[3] is not None else None
    axis = 0 if axes is None else int(axes.reshape(-1)[0])
    size = trace.size(node.inputs[0], axis)
    middle = (size + 1) // 2  # it starts before and ends behind it: something is left
    low, high = {1: (0, middle - 1), 2: (middle, size), 3: (0, 0), 4: (1, 2)}[index]
    trace.found.want(state, low, high, f"a place along axis {axis} of a Slice")
    return ()


def _range(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """Range: its numbers lie between where it starts and before where it ends."""
    other = trace.known.of(node.inputs[1 - index])
    why = "decides where a Range starts or ends"
    if index == 0:
        trace.found.want(state, 0, FEW if other.given or other.high == INFINITE else other.high - 1, why)
        return [(node.outputs[0], state)]
    start = 0.0 if other.given or abs(other.low) == INFINITE else other.low
    trace.found.want(state, start + 1, start + 2 * FEW, why)
    return [(node.outputs[0], replace(state.plus(Fact(-1.0, -1.0)), least=0.0))]


def _most(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    size = trace.size(node.inputs[0], node.attributes.get_int("axis", -1))
    trace.found.want(state, 1, size, "how many TopK gives")
    return ()


# ***** arithmetic *****


def _other(trace: Trace, node: ir.Node, index: int) -> Fact:
    return trace.known.of(node.inputs[1 - index])


def _is_float(value: ir.Value | None) -> bool:
    return value is None or value.dtype is None or value.dtype.is_floating_point()


def _add(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    other = _other(trace, node, index)
    if abs(other.low) == INFINITE or abs(other.high) == INFINITE:
        if not other.given or _is_float(node.outputs[0]):
            trace.found.unsized |= not _is_float(node.outputs[0])
            _added_to_scores(trace, state)
            return ()
        other, state = Fact(0.0, 0.0), state.times(2.0)  # two that nobody knows share what there is
    return [(node.outputs[0], state.plus(other))]


def _subtract(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    other = _other(trace, node, index)
    if abs(other.low) == INFINITE or abs(other.high) == INFINITE:
        trace.found.unsized |= not other.given
        return ()
    if index == 0:
        return [(node.outputs[0], state.plus(Fact(-other.high, -other.low)))]
    return [(node.outputs[0], state.times(-1.0).plus(other))]


def _added_to_scores(trace: Trace, state: State) -> None:
    """A number that is large wherever the input is not what counts can only be there for a softmax to drop."""
    if abs(state.scale) >= BIG and (state.scale < 0 or state.low != 0):
        trace.found.is_mask(2, 1 if state.scale > 0 else -1)


def _multiply(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    other = _other(trace, node, index)
    if other.low == other.high and abs(other.low) != INFINITE:
        state = state.times(other.low)
        if _is_float(node.outputs[0]):
            _added_to_scores(trace, state)
        return [(node.outputs[0], state)]
    if _is_float(node.outputs[0]):
        if other.given and not trace.floating:
            turned = state.scale < 0 and state.low != 0
            trace.found.is_mask(2 if turned else 1, 0 if not state.exact else 1 if not turned else -1)
        return ()
    if other.given:
        trace.found.is_mask(1)
    if other.low < 0 or other.high == INFINITE:
        return [(node.outputs[0], replace(state, loose=True, least=-INFINITE, most=INFINITE))]
    return [(node.outputs[0], replace(state.times(other.high), loose=state.loose or other.given))]


def _divide(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    other = _other(trace, node, index)
    if index == 1:
        if not trace.floating:
            trace.found.want(state, 1, INFINITE, "something is divided by it")
        return ()
    if other.low == other.high and 0 < abs(other.low) < INFINITE:
        return [(node.outputs[0], state.times(1.0 / other.low))]
    return ()


def _modulo(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    if index == 1:
        return _divide(trace, node, index, state)
    other = _other(trace, node, index)
    if not 0 < other.low < INFINITE:
        return ()
    return [(node.outputs[0], replace(state, least=0.0, most=other.high - 1))]


def _clip(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    ends = [trace.known.of(value) if value is not None else None for value in [*node.inputs[1:], None, None][:2]]
    if index:
        return ()
    for end in (each.low for each in ends if each is not None and each.low == each.high):
        if state.exact and not trace.floating:
            trace.found.edges.add((end - state.low) / state.scale)
        if ends[0] is not None and end == ends[0].low:
            state = replace(state, least=max(state.least, end))
        else:
            state = replace(state, most=min(state.most, end))
    return [(node.outputs[0], state)]


def _sum(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    count = trace.known.along(node)
    trace.found.unsized |= count is None
    least, most = state.least * (count or 1), state.most * (count or 1)
    summed = replace(state, summed=True, least=min(least, state.least), most=max(most, state.most))
    return [(node.outputs[0], summed)]


def _negate(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    return [(node.outputs[0], state.times(-1.0))]


# ***** truth *****


def _cast(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    if node.outputs[0].dtype != ir.DataType.BOOL or trace.given.dtype == ir.DataType.BOOL:
        return [(node.outputs[0], state)]
    return _split(trace, node, state, operator.ne, 0.0, equal=True)


def _not(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    return [(node.outputs[0], state.times(-1.0).plus(Fact(1.0, 1.0)))]


def _join(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    return [(node.outputs[0], state)]


def _compare(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    kind, other = COMPARED[node.op_type], _other(trace, node, index)
    way = (lambda a, b: kind(b, a)) if index else kind
    if other.low == other.high and abs(other.low) != INFINITE:
        return _split(trace, node, state, way, other.low, node.op_type == "Equal")
    if other.given:
        trace.found.alike = True
        return [(node.outputs[0], replace(state, loose=True))] if trace.given.dtype == ir.DataType.BOOL else ()
    if abs(other.low) == INFINITE or abs(other.high) == INFINITE or trace.floating:
        trace.found.unsized |= not trace.floating
        return ()
    more = not way(0, 0) and node.op_type != "Equal"  # a place is told from one that equals it
    below = more and way(1, 0)  # the input is the larger one
    low, high = other.low + (more and below), other.high + (more and below)
    why = f"is compared with the places {other.low:.0f} to {other.high:.0f}"
    trace.found.want(replace(state, least=-INFINITE, most=INFINITE), low, high, why)
    return ()


def _split(
    trace: Trace, node: ir.Node, state: State, way: Callable[[float, float], bool], place: float, equal: bool
) -> Onward:
    """A comparison with one number: it tells a 0 from a 1, or it has a place of its own among other values."""
    if not state.exact:
        return ()
    zero, one = (bool(way(state.scale * x + state.low, place)) for x in (0.0, 1.0))
    turning = (place - state.low) / state.scale
    if equal and turning.is_integer():
        trace.found.special.add(turning)
    elif not equal and not trace.floating:
        trace.found.edges.add(turning)
    if zero == one:
        return ()
    if not trace.floating or (equal and turning in (0.0, 1.0)):
        trace.found.is_mask(1)
    return [(node.outputs[0], state.truth(zero, one))]


def _choose(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """Where: the side that is very small is what does not count."""
    constants = [trace.known.of(value) for value in node.inputs[1:3]]
    dropped = [fact.high <= -BIG and not fact.given for fact in constants]
    keeps = 0
    if dropped[0] != dropped[1]:
        keeps = (1 if dropped[1] else -1) * (1 if state.scale > 0 else -1)
    trace.found.is_mask(2 if keeps else 1, keeps)
    return ()


def _whether(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    trace.found.is_mask(1)
    return ()


def _into_loop(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    return [(body.inputs[index], state) for body in _bodies(node) if index < len(body.inputs)]


def _nothing(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    return ()


# An input of -1 stands for all that have no rule of their own.
RULES: dict[tuple[str, int], Rule] = {
    ("Gather", 1): _index,
    ("GatherElements", 1): _index,
    ("ScatterElements", 1): _index,
    ("Scatter", 1): _index,
    ("GatherND", 1): _indices,
    ("ScatterND", 1): _indices,
    ("OneHot", 0): _class,
    ("NegativeLogLikelihoodLoss", 1): _class,
    ("SoftmaxCrossEntropyLoss", 1): _class,
    ("LSTM", 4): _length,
    ("GRU", 4): _length,
    ("RNN", 4): _length,
    ("ReverseSequence", 1): _length,
    ("Range", 0): _range,
    ("Range", 1): _range,
    **{("Slice", index): _end for index in (1, 2, 3, 4)},
    ("TopK", 1): _most,
    ("Add", -1): _add,
    ("Sub", -1): _subtract,
    ("Mul", -1): _multiply,
    ("Div", -1): _divide,
    ("Mod", -1): _modulo,
    ("Clip", -1): _clip,
    ("CumSum", 0): _sum,
    ("ReduceSum", 0): _sum,
    ("Neg", -1): _negate,
    ("Cast", -1): _cast,
    ("CastLike", 0): _cast,
    ("Not", -1): _not,
    ("And", -1): _join,
    ("Or", -1): _join,
    **{(name, -1): _compare for name in COMPARED},
    ("Where", 0): _choose,
    ("Compress", 1): _whether,
    ("If", 0): _whether,
    ("Loop", 1): _whether,
    ("Loop", -1): _into_loop,
    ("Scan", -1): _into_loop,
    ("Shape", -1): _nothing,
    ("Size", -1): _nothing,
}
