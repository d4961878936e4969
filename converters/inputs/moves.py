"""Rules for operators that only move their inputs' elements."""

from dataclasses import replace

import onnx_ir as ir

from xbench.converters.inputs.known import INFINITE, bodies
from xbench.converters.inputs.trace import Onward, State, Trace

# The inputs whose elements make up an operator's result.
MOVES = {
    "Compress": (0,), "Concat": range(10_000), "Dropout": (0,), "Expand": (0,), "Flatten": (0,), "Gather": (0,),
    "GatherElements": (0,), "GatherND": (0,), "Identity": (0,), "Max": range(10_000), "Min": range(10_000),
    "Pad": (0, 2), "ReduceMax": (0,), "ReduceMin": (0,), "Reshape": (0,), "ReverseSequence": (0,), "Round": (0,),
    "Ceil": (0,), "Floor": (0,), "ScatterElements": (0, 2), "ScatterND": (0, 2), "Slice": (0,), "Split": (0,),
    "Squeeze": (0,), "Tile": (0,), "TopK": (0,), "Transpose": (0,), "Trilu": (0,), "Unsqueeze": (0,), "Where": (1, 2),
}  # fmt: skip
KEEPS_PART = {"Cast", "Expand", "Identity"}


def move(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    part = state.part if node.op_type in KEEPS_PART else None
    if node.op_type == "Concat":
        part = _part(trace, node, index)
    if node.op_type in ("Max", "Min"):
        others = [trace.known.of(value) for place, value in enumerate(node.inputs) if place != index]
        ends = [fact.low if node.op_type == "Max" else fact.high for fact in others]
        known = [end for end in ends if abs(end) != INFINITE]
        if state.exact and not trace.floating:
            trace.limits.edges.update((end - state.low) / state.scale for end in known)
        if known and node.op_type == "Max":
            state = replace(state, least=max(state.least, *known))
        elif known:
            state = replace(state, most=min(state.most, *known))
    return [(value, replace(state, part=part)) for value in node.outputs[: None if node.op_type == "Split" else 1]]


def _part(trace: Trace, node: ir.Node, index: int) -> int | None:
    """The place of an input of Concat along the last axis, if it has one place there."""
    rank = trace.known.rank(node.outputs[0])
    if rank is None or node.attributes.get_int("axis", 0) not in (-1, rank - 1):
        return None
    sizes = [trace.known.size(value, -1) for value in node.inputs[: index + 1]]
    return None if None in sizes or sizes[-1] != 1 else sum(size or 0 for size in sizes[:-1])


def into_loop(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    return [(body.inputs[index], state) for body in bodies(node) if index < len(body.inputs)]


def nothing(trace: Trace, node: ir.Node, index: int, state: State) -> Onward:
    return ()
