"""Follows one input through all its readers: how every tensor on the way depends on the input, and the limits that
follow. The rules of the operators are in `operators.py`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from xbench.converters.inputs.known import INFINITE, Fact, Known, bodies

STEPS = 20_000  # tensors on the way, after which the trace stops


@dataclass(frozen=True)
class State:
    """How a tensor depends on the input, element by element: it is `scale` times the input plus a number in [low,
    high], and is in [least, most] for any input.

    `part` is its place along the last axis of an array of indices. `summed` says that it sums many elements of the
    input; `loose` that it depends on another, unknown input. For both, limits of the tensor are not limits of the
    input.
    """

    scale: float = 1.0
    low: float = 0.0
    high: float = 0.0
    least: float = -INFINITE
    most: float = INFINITE
    part: int | None = None
    summed: bool = False
    loose: bool = False

    @property
    def exact(self) -> bool:
        return self.low == self.high and self.scale != 0

    def plus(self, other: Fact) -> "State":
        low, high = other.low, other.high
        least, most = self.least + low, self.most + high
        return replace(self, low=self.low + low, high=self.high + high, least=least, most=most)

    def times(self, factor: float) -> "State":
        low, high = sorted((_times(self.low, factor), _times(self.high, factor)))
        least, most = sorted((_times(self.least, factor), _times(self.most, factor)))
        return replace(self, scale=self.scale * factor, low=low, high=high, least=least, most=most)

    def truth(self, zero: bool, one: bool) -> "State":
        """The result of a comparison, for an input that is 0 or 1."""
        return State(float(one) - float(zero), float(zero), float(zero), 0.0, 1.0, summed=self.summed, loose=self.loose)


def _times(number: float, factor: float) -> float:
    return number * factor if number and factor else 0.0


@dataclass
class Limits:
    """What the graph requires of an input.

    It must be in [low, high], for the reason of the nearer end (`why`); `direct` if single elements imply it. `mask`
    is how sure it is that it is 0 or 1: 0 not at all, 1 compared or multiplied as if, 2 it makes no sense otherwise;
    `keeps` is 1 if a 1 lets something count, -1 if a 0 does. `special` and `edges` are what it is compared with, equal
    or in order. `unsized` says that an axis of unknown length mattered.
    """

    low: float = -INFINITE
    high: float = INFINITE
    why: str = ""
    direct: bool = False
    mask: int = 0
    keeps: int = 0
    special: set[float] = field(default_factory=set)
    edges: set[float] = field(default_factory=set)
    alike: bool = False
    unsized: bool = False

    def want(self, state: State, low: float, high: float, why: str) -> None:
        """A tensor of this state must be in [low, high]."""
        low = -INFINITE if state.least >= low else low
        high = INFINITE if state.most <= high else high
        if state.summed and high < INFINITE:  # elements that sum to an index are 0 or 1
            self.is_mask(1)
        if not state.scale or state.summed or state.loose or (low, high) == (-INFINITE, INFINITE):
            return
        ends = (low - state.low) / state.scale, (high - state.high) / state.scale
        least, most = ends if state.scale > 0 else ends[::-1]
        if not least <= most:  # no value fits: its other dependencies are not known well enough
            return
        least, most = float(np.ceil(least)), float(np.floor(most))
        if most < self.high or (self.high == INFINITE and least > self.low):
            self.why = why
        self.low, self.high, self.direct = max(self.low, least), min(self.high, most), True

    def is_mask(self, sure: int, keeps: int = 0) -> None:
        self.mask, self.keeps = max(self.mask, sure), self.keeps or keeps


Onward = Iterable[tuple[ir.Value, State]]  # the tensors to continue with


class Trace:
    """One walk. `limits` are those inferred so far."""

    def __init__(self, known: Known, given: ir.Value) -> None:
        self.known, self.given, self.limits = known, given, Limits()
        self.floating = given.dtype is not None and given.dtype.is_floating_point()

    def size(self, value: ir.Value | None, axis: int) -> int:
        """The length of an axis that matters; 1 if it is not known, so that an index into it is 0."""
        length = self.known.size(value, axis)
        self.limits.unsized |= length is None
        return 1 if length is None else length


def targets(graph: ir.Graph) -> dict[ir.Value, list[ir.Value]]:
    """The receivers of the outputs of branches and bodies: the values outside that they are passed to, and for a loop
    those of the next round."""
    receivers: dict[ir.Value, list[ir.Value]] = {}
    for node in graph.all_nodes():
        for body in bodies(node):
            for index, value in enumerate(body.outputs):
                receivers.setdefault(value, []).extend(_handed_out(node, body, index))
    return receivers


def _handed_out(node: ir.Node, body: ir.Graph, index: int) -> Iterator[ir.Value]:
    if node.op_type == "Loop":  # a body returns whether to continue, what it carries, and what is collected
        if index:
            yield node.outputs[index - 1]
            if index + 1 < len(body.inputs):
                yield body.inputs[index + 1]
        return
    yield node.outputs[index]
    if node.op_type == "Scan" and index < len(body.inputs) - node.attributes.get_int("num_scan_inputs", 0):
        yield body.inputs[index]
