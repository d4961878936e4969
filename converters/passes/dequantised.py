"""Writes the operators of quantised integers as what they mean: DequantizeLinear, an operator of floats, and
QuantizeLinear after it. The graph then has a float tensor wherever the network that it was made of has one.

The values change by no more than the order of sums does. What is in no known form stays as it is.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import onnx_ir as ir

from xbench.converters.codegen.printer import constant

MOVES = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")  # integers with the same scale
SAME = ("Cast", "CastLike", "Identity", "Reshape", "Squeeze", "Unsqueeze")
# Operators that give some of their numbers, which they do of floats, too.
CHOOSES = {*MOVES, "DepthToSpace", "Expand", "Gather", "MaxPool", "Slice", "SpaceToDepth", "Tile"}
INTEGERS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
QUANTISERS = ("QuantizeLinear", "DynamicQuantizeLinear")
FLOAT = ir.DataType.FLOAT
Owners = dict[ir.Node, int]  # the number of the file's own node that a node was made of


def dequantise(graph: ir.Graph, owners: Owners) -> None:
    """Rewrites a graph in place; new nodes belong to the own node of what they replace."""
    for node in list(graph):
        if node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type == "QLinearConv":
            _convolution(graph, node, owners)
        elif node.op_type == "QLinearMatMul":
            _product(graph, node, owners)
        elif node.op_type in INTEGERS:
            _integers(graph, node, owners)
    for node in list(graph):
        if node.op_type == "DequantizeLinear" and node.domain in ("", "ai.onnx"):
            _lift(graph, node, owners)


def _lift(graph: ir.Graph, node: ir.Node, owners: Owners) -> None:
    """Moves DequantizeLinear before the operators that only choose some of the integers of a quantiser."""
    integers, scale = node.inputs[0], node.inputs[1]
    moves = list[ir.Node]()
    while integers is not None and (maker := integers.producer()) is not None and maker.op_type in CHOOSES:
        moves.append(maker)
        integers = maker.inputs[0]
    quantised = integers is not None and (maker := integers.producer()) is not None and maker.op_type in QUANTISERS
    if not moves or not quantised or scale is None or scale.shape is None or any(size != 1 for size in scale.shape):
        return
    made = Made(graph, node, owners)
    value = made.real(integers, scale, node.inputs[2] if len(node.inputs) > 2 else None)
    for move in reversed(moves):
        made.node = move
        inputs = [value, *move.inputs[1:]]
        value = made.add(move.op_type, inputs, "real", attributes=move.attributes.values(), before=node)
    made.node = node
    made.replace(node, value)


def _convolution(graph: ir.Graph, node: ir.Node, owners: Owners) -> None:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = (*node.inputs, None)[:9]
    made = Made(graph, node, owners)
    inputs = [made.real(x, x_scale, x_zero), made.real(w, w_scale, w_zero, 0)]
    if bias is not None:
        inputs.append(made.real(bias, made.add("Mul", [x_scale, w_scale], "bias_scale"), None, 0))
    result = made.add("Conv", inputs, "real", attributes=node.attributes.values())
    made.replace(node, made.add("QuantizeLinear", [result, y_scale, y_zero], "quantised"))


def _product(graph: ir.Graph, node: ir.Node, owners: Owners) -> None:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    axes = _axis(a, a_scale, 2), _axis(b, b_scale, 1)
    if None in axes:
        return
    made = Made(graph, node, owners)
    result = made.add(
        "MatMul", [made.real(a, a_scale, a_zero, axes[0]), made.real(b, b_scale, b_zero, axes[1])], "real"
    )
    made.replace(node, made.add("QuantizeLinear", [result, y_scale, y_zero], "quantised"))


def _axis(value: ir.Value | None, scale: ir.Value | None, before: int) -> int | None:
    """The axis that the numbers of a scale belong to, from the front; any for a single number, None if not known."""
    if scale is not None and scale.shape is not None and all(size == 1 for size in scale.shape):
        return 0
    return None if value is None or value.shape is None else len(value.shape) - before


def _integers(graph: ir.Graph, node: ir.Node, owners: Owners) -> None:
    """A sum of products of integers, cast to float and multiplied by both scales, as quantisers write it."""
    found = _scaled(node)
    if found is None:
        return
    bias, last, factors = found
    a, b, a_zero, b_zero = (*node.inputs, None, None)[:4]
    a_scale = _scale_of(a)
    own = next((each for each in factors if each is a_scale or _equal(each, a_scale)), None)
    arrays = [constant(each) for each in factors if each is not own]
    if a_scale is None or own is None or any(array is None for array in arrays):
        return
    b_scale = np.asarray(math.prod(np.asarray(array, np.float64) for array in arrays if array is not None))
    if (b_scale.size > 1 and sum(size > 1 for size in b_scale.shape) > 1) or b is None:
        return
    made = Made(graph, node, owners)
    axis = 0 if node.op_type == "ConvInteger" else _axis(b, None, 1)
    if axis is None:
        return
    stored = made.store(b_scale.reshape(-1 if b_scale.size > 1 else ()).astype(np.float32), "scale")
    inputs = [made.real(a, a_scale, a_zero), made.real(b, stored, b_zero, axis)]
    result = made.add(INTEGERS[node.op_type], inputs, "real", attributes=node.attributes.values())
    if bias is not None:
        step = made.add("Mul", [a_scale, stored], "bias_scale")
        result = made.add("Add", [result, made.real(bias, step, None, 0)], "with_bias")
    made.replace(last, result)


def _scaled(node: ir.Node) -> tuple[ir.Value | None, ir.Node, list[ir.Value]] | None:
    """What is added to the integers, the node that gives the float result, and its factors; None if the integers are
    used in another way."""
    value, bias = node.outputs[0], None
    user = _only_user(value)
    if user is not None and user.op_type == "Add":
        (bias,) = (each for each in user.inputs if each is not value)
        value, user = user.outputs[0], _only_user(user.outputs[0])
    while user is not None and user.op_type in ("Cast", "Identity"):
        value, user = user.outputs[0], _only_user(user.outputs[0])
    if user is None or user.op_type != "Mul":
        return None
    (factor,) = (each for each in user.inputs if each is not value) if len({*user.inputs}) == 2 else (None,)
    return None if factor is None else (bias, user, list(_leaves(factor)))


def _only_user(value: ir.Value) -> ir.Node | None:
    users = [node for node, _ in value.uses()]
    return users[0] if len(users) == 1 and not value.is_graph_output() else None


def _leaves(value: ir.Value) -> Iterator[ir.Value]:
    """The factors of a product, through reshapes."""
    node = value.producer()
    if node is not None and node.op_type == "Mul":
        for each in node.inputs:
            if each is not None:
                yield from _leaves(each)
    elif node is not None and node.op_type in SAME and node.inputs[0] is not None:
        yield from _leaves(node.inputs[0])
    else:
        yield value


def _scale_of(value: ir.Value | None) -> ir.Value | None:
    """The scale of quantised integers, by the node that made them."""
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "DynamicQuantizeLinear":
            return node.outputs[1]
        if node.op_type == "QuantizeLinear":
            return node.inputs[1]
        value = node.inputs[0] if node.op_type in MOVES else None
    return None


def _equal(one: ir.Value, other: ir.Value | None) -> bool:
    """Whether two values are the same stored numbers."""
    array, others = constant(one), constant(other)
    return array is not None and others is not None and np.array_equal(array, others)


class Made:
    """New nodes in front of one of a graph, which belong to the same own node."""

    def __init__(self, graph: ir.Graph, node: ir.Node, owners: Owners) -> None:
        self.graph, self.node, self.owners = graph, node, owners
        self.stem, self.names = str(node.outputs[0].name), 0

    def add(
        self,
        operator: str,
        inputs: Iterable[ir.Value | None],
        name: str,
        attributes: Iterable[ir.Attr] = (),
        before: ir.Node | None = None,
    ) -> ir.Value:
        """The result of a new node, which is named after the result of the old one."""
        given = [*inputs]
        while given and given[-1] is None:
            given.pop()
        new = ir.Node("", operator, given, attributes=list(attributes), num_outputs=1, name=self.node.name)
        self.graph.insert_before(before or self.node, new)
        if self.node in self.owners:
            self.owners[new] = self.owners[self.node]
        value = new.outputs[0]
        value.name, value.dtype = self._free(name), FLOAT
        return value

    def real(
        self, value: ir.Value | None, scale: ir.Value | None, zero: ir.Value | None, axis: int | None = None
    ) -> ir.Value:
        """What integers mean."""
        attributes = [] if axis is None else [ir.AttrInt64("axis", axis)]
        stem = value.name if value is not None else ""
        return self.add("DequantizeLinear", [value, scale, zero], f"{stem}_dequantised", attributes=attributes)

    def store(self, array: np.ndarray, name: str) -> ir.Value:
        value = ir.Value(name=self._free(name), const_value=ir.tensor(array), type=ir.TensorType(FLOAT))
        value.shape = ir.Shape(array.shape)
        self.graph.register_initializer(value)
        return value

    def replace(self, node: ir.Node, value: ir.Value) -> None:
        """Puts a value in the place of a node's result, and under its name."""
        (old,) = node.outputs
        value.name, old.name, value.type, value.shape = old.name, self._free("before"), old.type, old.shape
        ir.convenience.replace_all_uses_with(old, value, replace_graph_outputs=True)
        self.graph.remove(node, safe=True)

    def _free(self, name: str) -> str:
        """A name that no other new tensor has."""
        self.names += 1
        return f"{self.stem}/{name}.{self.names}"
