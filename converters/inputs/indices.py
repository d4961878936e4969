"""Rules for operators that read an index, a length, or a count."""

from dataclasses import replace

import onnx_ir as ir

from xbench.converters.frontends.tensors import plain
from xbench.converters.inputs.known import INFINITE, Fact
from xbench.converters.inputs.trace import Onward, State, Trace

FEW = 4  # limit of plain counts: rounds, repetitions, sizes of new arrays
# Inputs that are a count or a size: their minimum and maximum.
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

# What an index input of these operators is an index of.
TABLES = {"RotaryEmbedding": 1, "RoiAlign": 0}


def _named(trace: Trace, value: ir.Value | None, axis: int) -> str:
    """Describes a table, or an axis of a result."""
    name = "?" if value is None else plain(str(value.name), 60)
    stored = value is not None and value.is_initializer()
    return f"indexes the table {name}" if stored and not axis else f"indexes axis {axis} of {name}"


def index(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """Gather, GatherElements, ScatterElements: one axis."""
    axis = node.attributes.get_int("axis", 0)
    size = trace.size(node.inputs[0], axis)
    trace.limits.want(state, 0, size - 1, _named(trace, node.inputs[0], axis))
    return ()


def position(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """Operators that read an index of the first axis of another input: a row of angles, a sample of a batch."""
    table = node.inputs[TABLES[node.op_type]]
    trace.limits.want(state, 0, trace.size(table, 0) - 1, _named(trace, table, 0))
    return ()


def write(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """TensorScatter: where an update begins, which must end within the axis."""
    axis = node.attributes.get_int("axis", -2)
    room = trace.size(node.inputs[0], axis) - trace.size(node.inputs[1], axis)
    trace.limits.want(state, 0, room, f"where an update of {_named(trace, node.inputs[0], axis)[8:]} begins")
    return ()


def indices(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """GatherND, ScatterND: the last axis of the indices has one for each of the first axes."""
    first = node.attributes.get_int("batch_dims", 0)
    count = trace.known.size(node.inputs[1], -1) or 1
    axes = range(first, first + count) if state.part is None else [first + state.part]
    sizes = {axis: trace.size(node.inputs[0], axis) for axis in axes}
    least = min(sizes, key=lambda axis: sizes[axis])
    trace.limits.want(state, 0, sizes[least] - 1, _named(trace, node.inputs[0], least))
    return ()


def class_(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """OneHot, and the losses, whose classes are the second axis of the scores."""
    if node.op_type == "OneHot":
        depth = trace.known.of(node.inputs[1])
        trace.limits.unsized |= depth.array is None
        size = 1.0 if depth.array is None else depth.high
    else:
        size = trace.size(node.inputs[0], 1)
    trace.limits.want(state, 0, size - 1, "is one of the classes")
    return ()


def length(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    axis = node.attributes.get_int("time_axis", 0)
    trace.limits.want(state, 1, trace.size(node.inputs[0], axis), f"a length along axis {axis} of {node.op_type}")
    return ()


def member(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """SequenceAt. How many tensors a sequence has is not known here; one is there."""
    trace.limits.want(state, 0, 0, "a place in a sequence")
    return ()


def keys(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """Attention: how many keys of a sample are no padding. They are the last axis but one of K."""
    trace.limits.want(state, 1, trace.size(node.inputs[1], -2), "how many keys are no padding")
    return ()


def count(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    low, high = COUNTS[node.op_type, index]
    trace.limits.want(state, low, high, f"decides the size or the rounds of {node.op_type}")
    return ()


def end(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """Slice: its start, end, axes and steps."""
    axes = trace.known.of(node.inputs[3]).array if len(node.inputs) > 3 and node.inputs[3] is not None else None
    axis = 0 if axes is None else int(axes.reshape(-1)[0])
    size = trace.size(node.inputs[0], axis)
    middle = (size + 1) // 2  # it starts before and ends after it: something is left
    low, high = {1: (0, middle - 1), 2: (middle, size), 3: (0, 0), 4: (1, 2)}[index]
    trace.limits.want(state, low, high, f"a place along axis {axis} of a Slice")
    return ()


def range_(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    """Range: its numbers are from its start to before its end."""
    other = trace.known.of(node.inputs[1 - index])
    why = "decides where a Range starts or ends"
    if index == 0:
        trace.limits.want(state, 0, FEW if other.given or other.high == INFINITE else other.high - 1, why)
        return [(node.outputs[0], state)]
    start = 0.0 if other.given or abs(other.low) == INFINITE else other.low
    trace.limits.want(state, start + 1, start + 2 * FEW, why)
    return [(node.outputs[0], replace(state.plus(Fact(-1.0, -1.0)), least=0.0))]


def most(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    size = trace.size(node.inputs[0], node.attributes.get_int("axis", -1))
    trace.limits.want(state, 1, size, "how many TopK gives")
    return ()
