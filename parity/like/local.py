"""The quantised file with right inputs at every node: each tensor that stands for one of the original's is computed of
the original's tensors, compared with its own, and replaced by it. So an error is its node's, not what came before.

A `Source` is what may be to blame: the range of an activation, the stored numbers of a node, or a node itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from xbench.converters.codegen.printer import constant
from xbench.parity.like.matching import QUANTISERS, Matching
from xbench.parity.like.packed import own_packed
from xbench.parity.like.rounding import LIMITS, Rounding, halved
from xbench.parity.like.walk import HALVES, Values, Walk, array_of

CHANGED = 1e-6  # error from which a node that rounds nothing computes something else
# Operators of which the result has the range of what they read, or a part of it.
KEEPS_RANGE = {"AveragePool", "Concat", "Expand", "Flatten", "Gather", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"}
KEEPS_RANGE |= {"Pad", "Relu", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}


@dataclass(eq=False)
class Source:
    """`node` of the file's graph, `kind`: `activation`, `weights`, `half` or `node`. `ends` are the tensors at which
    its error was seen, `members` all nodes that share it."""

    kind: str
    node: ir.Node
    ends: list[ir.Value] = field(default_factory=list)
    members: list[ir.Node] = field(default_factory=list)


class Local:
    """What comes of a walk with right inputs: `values`, right wherever a tensor is matched, `own` results of matched
    tensors as the file computes them, `errors` of these, and `sources`."""

    def __init__(self, walk: Walk, matching: Matching, inputs: Mapping[ir.Value, ir.Value]) -> None:
        self.walk, self.matching, self.stored = walk, matching, matching.fixed
        matching.found = dict(inputs)
        self.values: Values = {value: matching.values[theirs] for value, theirs in inputs.items()}
        self.own: Values = {}
        self.errors: dict[ir.Value, float] = {}
        self.sources: dict[ir.Node, Source] = {}
        self.blamed: dict[ir.Value, tuple[Source, ...]] = {}
        self._pending: dict[ir.Value, frozenset[Source]] = {}
        for node in walk.nodes:
            self._add(node)

    def every(self) -> list[Source]:
        """The sources whose error was seen somewhere."""
        return [source for source in dict.fromkeys(self.sources.values()) if source.ends]

    def _add(self, node: ir.Node) -> None:
        made = self.walk.made(node, self.values)
        self.values |= made
        own = self._own(node)
        pending = frozenset(own).union(*(self._pending.get(each, ()) for each in self.walk.reads[node]))
        for value, result in made.items():
            if value not in self.stored:
                self._settle(node, value, result, pending)

    def _own(self, node: ir.Node) -> list[Source]:
        """The node as a source, if it rounds or reads stored numbers that are rounded."""
        if node.outputs[0] in self.stored or node.op_type == "DequantizeLinear":
            return []
        if node.op_type in QUANTISERS:
            return [self._range(node)]
        stored = [each for each in self.walk.reads[node] if each in self.stored]
        packed = stored and own_packed(self.walk.graph, node) is not None
        if packed or any(self._is_dequantised(each) for each in stored):
            product = self._product(node)
            if product is None:
                return [self._source("weights", node)]
            product.members.append(node)  # a bias that is added by a node of its own
            self.sources[node] = product
            return [product]
        narrow = any(each.dtype in HALVES for each in (*stored, *node.outputs))
        return [self._source("half", node)] if narrow else []

    def _product(self, node: ir.Node) -> Source | None:
        """The source of the node before one that adds a bias to it."""
        makers = [each.producer() for each in self.walk.reads[node] if each in self._pending]
        found = [self.sources[maker] for maker in makers if maker in self.sources]
        return found[0] if node.op_type == "Add" and len(found) == 1 and found[0].kind == "weights" else None

    def _source(self, kind: str, node: ir.Node) -> Source:
        return self.sources.setdefault(node, Source(kind, node, members=[node]))

    def _range(self, node: ir.Node) -> Source:
        """The source of an activation's range, which several quantisers share if they have the same scale and the
        tensor of one is the other's in another form."""
        for source in [each for each in self.sources.values() if each.kind == "activation"]:
            if any(self._shares(each, node) for each in source.members):
                source.members.append(node)
                self.sources[node] = source
                return source
        return self._source("activation", node)

    def _shares(self, one: ir.Node, other: ir.Node) -> bool:
        if "DynamicQuantizeLinear" in (one.op_type, other.op_type):
            return False
        if one.inputs[1] is other.inputs[1] and [*one.inputs[2:]] == [*other.inputs[2:]]:
            return True
        pairs = [(constant(a), constant(b)) for a, b in zip(one.inputs[1:], other.inputs[1:], strict=False)]
        same = len(one.inputs) == len(other.inputs) and all(
            a is not None and b is not None and np.array_equal(a, b) for a, b in pairs
        )
        return same and one in self._before(other)

    def _before(self, node: ir.Node) -> set[ir.Node]:
        """The quantisers whose tensor, in another form, a quantiser reads."""
        found, left = set[ir.Node](), [node.inputs[0]]
        while left:
            value = left.pop()
            maker = None if value is None else value.producer()
            if maker is None:
                continue
            if maker.op_type == "QuantizeLinear":
                found.add(maker)
            elif maker.op_type in KEEPS_RANGE or maker.op_type == "DequantizeLinear":
                left += [each for each in maker.inputs if each not in self.stored]
        return found

    def _is_dequantised(self, value: ir.Value) -> bool:
        """Whether stored numbers are made of integers."""
        maker = value.producer()
        if maker is None:
            return False
        return maker.op_type == "DequantizeLinear" or any(
            each is not None and self._is_dequantised(each) for each in maker.inputs
        )

    def _settle(self, node: ir.Node, value: ir.Value, result: Any, pending: frozenset[Source]) -> None:
        """Matches a result; its error is that of the sources that are pending, and what follows gets the right one."""
        array = array_of(result)
        if array is None or array.dtype.kind != "f":
            self.matching.carry(node, value)
            self._pending[value] = pending
            return
        if value.dtype in HALVES and node.op_type != "DequantizeLinear":
            array = halved(array, HALVES[value.dtype])
        error = self.matching.match(node, value, array, bool(pending))
        if error is None:
            self._pending[value] = pending
            return
        self.own[value], self.errors[value] = array, error
        if not pending and error > CHANGED:
            pending = frozenset([self._source("node", node)])
        self.blamed[value] = tuple(pending)
        for source in pending:
            source.ends.append(value)
        self.values[value] = self.matching.values[self.matching.found[value]]

    # ***** how a source rounds *****

    def rounding(self, node: ir.Node) -> Rounding | None:
        """How a quantiser of an activation rounds, for right inputs."""
        return self.rounded_by(node, node.outputs[0].dtype)

    def rounded_by(self, node: ir.Node, dtype: ir.DataType | None) -> Rounding | None:
        """How QuantizeLinear, DynamicQuantizeLinear or DequantizeLinear rounds to a type; None if it is no integer."""
        dynamic = node.op_type == "DynamicQuantizeLinear"
        scale, zero = node.outputs[1:3] if dynamic else (*node.inputs, None)[1:3]
        dtype = dtype or (None if zero is None else zero.dtype)
        limits = LIMITS.get(dtype.name.lower()) if dtype is not None else None
        scales, zeros = (self.numbers(each) for each in (scale, zero))
        if limits is None or scales is None:
            return None
        zeros = np.zeros_like(scales) if zeros is None else zeros
        axis, block = (node.attributes.get_int(name, usual) for name, usual in (("axis", 1), ("block_size", 0)))
        return Rounding(scales, zeros, *limits, axis, block)

    def ends_of(self, node: ir.Node) -> list[ir.Value]:
        """The tensors at which the error of a node was seen."""
        return self.sources[node].ends if node in self.sources else []

    def kind(self, value: ir.Value) -> str:
        """NumPy's kind of the numbers of a tensor."""
        array = constant(value)
        array = array if array is not None else array_of(self.values.get(value))
        return "" if array is None else "f" if value.dtype in HALVES else array.dtype.kind

    def numbers(self, value: ir.Value | None) -> np.ndarray | None:
        """The numbers of a tensor, stored or computed of right inputs."""
        if value is None:
            return None
        array = constant(value)
        array = array if array is not None else array_of(self.values.get(value))
        return None if array is None else np.asarray(array, np.float64)
