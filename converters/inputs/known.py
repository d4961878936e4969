"""What is known of the tensors of a graph without its inputs: sizes, small constants and results computed from them,
and the bounds of every other tensor."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from xbench.converters.codegen.printer import constant
from xbench.converters.ops.arrays import numpy as arrays
from xbench.converters.ops.generic import operators
from xbench.converters.ops.info import info

SMALL = 4096  # elements of an array used in computations
LARGE = 2**20  # elements of a constant whose minimum and maximum are computed
INFINITE = math.inf
SHARES = {"Sigmoid", "Softmax"}
JOINED = {"Concat": 0, "Max": 0, "Min": 0, "Where": 1}  # the first of the inputs that are joined


@dataclass(frozen=True)
class Fact:
    """A tensor is in [low, high]; `array` is its value if known; `given` if it depends on an input."""

    low: float = -INFINITE
    high: float = INFINITE
    array: np.ndarray | None = None
    given: bool = False

    @property
    def bounded(self) -> bool:
        return abs(self.low) != INFINITE and abs(self.high) != INFINITE


ANYTHING = Fact()


class Known:
    """The facts of every tensor of a graph and of its branches and bodies.

    `sizes` are shapes by name, with the batch as a number, which override the graph's. `given` are facts of inputs.
    """

    def __init__(
        self,
        graph: ir.Graph,
        sizes: Mapping[str, Sequence[int]] | None = None,
        given: Mapping[str, Fact] | None = None,
    ) -> None:
        self.sizes, self._table = sizes or {}, operators(arrays, {})
        self.facts: dict[ir.Value, Fact] = {
            value: (given or {}).get(str(value.name), Fact(given=True))
            for value in graph.inputs
            if value.name not in graph.initializers
        }
        self._read(graph)

    def of(self, value: ir.Value | None) -> Fact:
        if value is None:
            return ANYTHING
        if value not in self.facts:
            self.facts[value] = _of_constant(value)
        return self.facts[value]

    def size(self, value: ir.Value | None, axis: int) -> int | None:
        """The length of an axis; None if it is not known."""
        shape = None if value is None else self.sizes.get(str(value.name), value.shape)
        if shape is None or not -len(shape) <= axis < len(shape):
            return None
        length = shape[axis]
        return length if isinstance(length, int) else None

    def rank(self, value: ir.Value | None) -> int | None:
        shape = None if value is None else self.sizes.get(str(value.name), value.shape)
        return None if shape is None else len(shape)

    def _read(self, graph: ir.Graph) -> None:
        for node in graph:
            for body in bodies(node):
                self.facts |= {value: Fact(given=True) for value in body.inputs}
                self._read(body)
            for value in node.outputs:
                self.facts[value] = self._made(node, value)

    def _made(self, node: ir.Node, value: ir.Value) -> Fact:
        facts = [self.of(each) for each in node.inputs if each is not None]
        array = self._computed(node, facts)
        if array is not None and array.size <= SMALL:
            return _of_array(array)
        sized = node.op_type in ("Shape", "Size")  # independent of the values
        given = not sized and (any(fact.given for fact in facts) or any(True for _ in bodies(node)))
        low, high = self._bounds(node, value, facts)
        return Fact(low, high, None, given)

    def _computed(self, node: ir.Node, facts: Sequence[Fact]) -> np.ndarray | None:
        if node.op_type == "Shape":
            shape = [self.size(node.inputs[0], axis) for axis in range(self.rank(node.inputs[0]) or 0)]
            start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", len(shape))
            part = shape[start:end]
            return None if None in part or not shape else np.array(part, np.int64)
        values = [self.of(each).array if each is not None else None for each in node.inputs]
        if not node.inputs or any(each is not None and a is None for each, a in zip(node.inputs, values, strict=True)):
            return None
        if node.op_type == "Cast":
            kind = ir.DataType(node.attributes.get_int("to", 1))
            return None if values[0] is None else values[0].astype(kind.numpy())
        if node.domain or not info(node.op_type).shape_arithmetic or not _stays_small(node.op_type, values):
            return None
        options = {n: a.as_tensor().numpy() if a.type == ir.AttributeType.TENSOR else a.value for n, a in _stated(node)}
        try:
            return np.asarray(self._table[node.op_type](*values, **options))
        except Exception:  # invalid arithmetic is for the graph's runtime to reject
            return None

    def _bounds(self, node: ir.Node, value: ir.Value, facts: Sequence[Fact]) -> tuple[float, float]:
        kind, first = node.op_type, facts[0] if facts else ANYTHING
        if info(kind).hands_on:
            return first.low, first.high
        if kind in JOINED:
            joined = facts[JOINED[kind] :]
            return min(fact.low for fact in joined), max(fact.high for fact in joined)
        if info(kind).boolean or kind in SHARES or (value.dtype == ir.DataType.BOOL):
            return 0.0, 1.0
        if kind in ARITHMETIC and len(facts) == 2:
            return ARITHMETIC[kind](*facts)
        rule = RULES.get(kind)
        return rule(self, node, facts) if rule else (-INFINITE, INFINITE)

    def along(self, node: ir.Node) -> int | None:
        """The number of places that a sum adds up."""
        if node.op_type == "CumSum":
            axis = self.of(node.inputs[1]).array
            return None if axis is None else self.size(node.inputs[0], int(axis.reshape(-1)[0]))
        axes = self.of(node.inputs[1]).array if len(node.inputs) > 1 and node.inputs[1] is not None else None
        every = range(self.rank(node.inputs[0]) or 0)
        if len(node.inputs) > 1 and node.inputs[1] is not None and axes is None:
            return None
        lengths = [self.size(node.inputs[0], int(a)) for a in (every if axes is None else axes.reshape(-1))]
        return None if None in lengths or not lengths else math.prod(n for n in lengths if n is not None)


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    return (a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH)


def _stated(node: ir.Node) -> Iterator[tuple[str, ir.Attr]]:
    return ((name, a) for name, a in node.attributes.items() if a.type != ir.AttributeType.GRAPH)


def _stays_small(kind: str, values: Sequence[np.ndarray | None]) -> bool:
    """Whether a result is small, as far as that is known before it is computed."""
    if kind == "ConstantOfShape":
        return values[0] is not None and float(np.prod(values[0], dtype=np.float64)) <= SMALL
    if kind == "Expand":
        return values[1] is not None and float(np.prod(np.maximum(values[1], 1), dtype=np.float64)) <= SMALL
    if kind == "Range":
        start, limit, delta = (float(a.reshape(-1)[0]) if a is not None and a.size else 0.0 for a in values)
        return delta != 0 and (limit - start) / delta <= SMALL
    return True


def _of_constant(value: ir.Value) -> Fact:
    tensor = value.const_value
    if tensor is not None and tensor.size > LARGE:
        return ANYTHING
    array = constant(value)
    return ANYTHING if array is None or array.size > LARGE else _of_array(array)


def _of_array(array: np.ndarray) -> Fact:
    if not array.size or array.dtype.kind not in "iufb":
        return ANYTHING if array.size or array.dtype.kind not in "iub" else Fact(array=array)
    return Fact(float(array.min()), float(array.max()), array if array.size <= SMALL else None)


def _product(a: Fact, b: Fact) -> tuple[float, float]:
    ends = [x * y if x and y else 0.0 for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(ends), max(ends)


def _modulo(a: Fact, b: Fact) -> tuple[float, float]:
    return (0.0, b.high - 1) if b.low > 0 else (-INFINITE, INFINITE)


def _quotient(a: Fact, b: Fact) -> tuple[float, float]:
    return (min(a.low, a.low / b.low), max(a.high, a.high / b.low)) if b.low > 0 else (-INFINITE, INFINITE)


ARITHMETIC: dict[str, Callable[[Fact, Fact], tuple[float, float]]] = {
    "Add": lambda a, b: (a.low + b.low, a.high + b.high),
    "Sub": lambda a, b: (a.low - b.high, a.high - b.low),
    "Mul": _product,
    "Div": _quotient,
    "Mod": _modulo,
}


def _sum(known: Known, node: ir.Node, facts: Sequence[Fact]) -> tuple[float, float]:
    count = known.along(node)
    times = INFINITE if count is None else count
    return (
        times * min(facts[0].low, 0.0) if facts[0].low < 0 else 0.0,
        times * facts[0].high if facts[0].high else 0.0,
    )


def _place(known: Known, node: ir.Node, facts: Sequence[Fact]) -> tuple[float, float]:
    count = known.size(node.inputs[0], node.attributes.get_int("axis", 0))
    return 0.0, INFINITE if count is None else count - 1.0


def _clip(known: Known, node: ir.Node, facts: Sequence[Fact]) -> tuple[float, float]:
    ends = [known.of(value) if value is not None else ANYTHING for value in [*node.inputs[1:], None, None][:2]]
    return max(facts[0].low, ends[0].low), min(facts[0].high, ends[1].high)


RULES: dict[str, Callable[[Known, ir.Node, Sequence[Fact]], tuple[float, float]]] = {
    "CumSum": _sum,
    "ReduceSum": _sum,
    "ArgMax": _place,
    "ArgMin": _place,
    "Clip": _clip,
    "Abs": lambda known, node, facts: (0.0, max(abs(facts[0].low), abs(facts[0].high))),
    "Neg": lambda known, node, facts: (-facts[0].high, -facts[0].low),
    "Relu": lambda known, node, facts: (0.0, max(0.0, facts[0].high)),
    "Range": lambda known, node, facts: (facts[0].low, facts[1].high - 1),
    "Shape": lambda known, node, facts: (0.0, INFINITE),
    "Size": lambda known, node, facts: (0.0, INFINITE),
    "NonZero": lambda known, node, facts: (0.0, INFINITE),
}
