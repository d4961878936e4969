"""Fuses nodes that frameworks have as one operator: linear layers, attention, recurrent layers.

PyTorch's `Linear` on more than two axes is exported as MatMul and Add, since ONNX's Gemm has two. In the text it is
`Gemm`, with any number of leading axes: added in place, the bias costs PyTorch a tenth of a separate Add.

Attention is MatMul, Add of a mask, Softmax, MatMul when exported, and `ScaledDotProductAttention` in the text:
PyTorch's kernel, which never writes the matrix of scores, took 0.8 of the time of ViT-S/16 in four operators.

PyTorch's recurrent layers are exported with the gates of every weight in ONNX's order. In the text they take the
original weights and `gate_order` gives the positions of ONNX's gates: PyTorch's kernel then copies nothing.
"""

from collections.abc import Collection

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from xbench.converters.codegen.printer import constant

ATTENTION = "ScaledDotProductAttention"
GATES = {"GRU": 3, "LSTM": 4}


def fuse(model: ir.Model, trainable: Collection[str]) -> ir.Model:
    """A copy of the graph in which such a layer is one node; `trainable` are the parameters."""
    model = model.clone()
    for node in list(model.graph):
        if node.domain:
            continue
        if node.op_type == "Add":
            _fuse_linear(node)
        elif node.op_type == "Softmax":
            _fuse_attention(node, trainable)
        elif node.op_type in GATES:
            _fuse_gates(node)
    common.RemoveUnusedNodesPass()(model)
    return model


def _replace(old: ir.Node, op_type: str, inputs: list[ir.Value | None], **attributes: float) -> None:
    """Replaces a node by one that computes the same from earlier inputs."""
    new = ir.node(op_type, inputs, attributes, version=old.version)
    made, result = new.outputs[0], old.outputs[0]
    made.name, made.type, made.shape = result.name, result.type, result.shape
    assert old.graph is not None
    old.graph.insert_before(old, new)
    ir.convenience.replace_all_uses_with(result, made, replace_graph_outputs=True)
    old.graph.remove(old, safe=True)


def _made_by(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    """The node of one of these operators that made a value with a single reader."""
    node = value.producer() if value is not None else None
    if value is None or node is None or node.domain or node.op_type not in op_types:
        return None
    return None if len(value.uses()) > 1 or value.is_graph_output() else node


# ***** linear layers *****


def _fuse_linear(add: ir.Node) -> None:
    for product, bias in (add.inputs, reversed(add.inputs)):
        matmul = _made_by(product, "MatMul")
        if matmul is None:
            continue
        x, weight = matmul.inputs
        if _is_linear(x, weight, bias):
            stored = _transposed(weight)
            _replace(add, "Gemm", [x, stored or weight, bias], **({"transB": 1} if stored else {}))
            return


def _transposed(matrix: ir.Value | None) -> ir.Value | None:
    """What a matrix is the transpose of, if it is."""
    node = matrix.producer() if matrix is not None else None
    if node is None or node.op_type != "Transpose" or list(node.attributes.get_ints("perm", [1, 0])) != [1, 0]:
        return None
    return node.inputs[0]


def _is_linear(x: ir.Value | None, weight: ir.Value | None, bias: ir.Value | None) -> bool:
    """Whether x has rows, the weight is a floating matrix and the bias a vector of its columns."""
    if weight is None or weight.dtype is None or not weight.dtype.is_floating_point():
        return False
    shapes = [value.shape for value in (x, weight, bias) if value is not None and value.shape is not None]
    if [min(len(shape), 2) for shape in shapes] != [2, 2, 1] or len(shapes[1]) != 2:
        return False
    (length,), columns = shapes[2], shapes[1][1]
    return isinstance(length, int) and length == columns


# ***** attention *****


def _fuse_attention(softmax: ir.Node, trainable: Collection[str]) -> None:
    """Softmax(scale * q k^T + mask) v, on four axes, with a known mask that keeps something in every row.

    A fully masked row is NaN in ONNX and zero in PyTorch's kernel.
    """
    product = next((use.node for use in softmax.outputs[0].uses() if use.idx == 0), None)
    if _made_by(softmax.outputs[0], "Softmax") is None or product is None or product.op_type != "MatMul":
        return
    scores, mask = _masked(softmax.inputs[0])
    scores, scale = _scaled(scores, trainable)
    if (matmul := _made_by(scores, "MatMul")) is None:
        return
    query, more = _scaled(matmul.inputs[0], trainable)
    transpose = _made_by(matmul.inputs[1], "Transpose")
    shapes = [None if value is None else value.shape for value in (query, matmul.inputs[1], product.inputs[1])]
    if transpose is None or any(shape is None or len(shape) != 4 for shape in shapes):
        return
    if softmax.attributes.get_int("axis", -1) in (-1, 3):
        inputs = [query, _swapped(transpose), product.inputs[1], *([mask] if mask else [])]
        _replace(product, ATTENTION, inputs, scale=float(np.float32(scale * more)))


def _masked(scores: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None]:
    """The value that a known mask was added to, and the mask."""
    if (add := _made_by(scores, "Add")) is not None:
        for value, mask in (add.inputs, reversed(add.inputs)):
            array = constant(mask)
            if array is not None and array.ndim and np.isfinite(array).any(-1).all():
                return value, mask
    return scores, None


def _scaled(value: ir.Value | None, trainable: Collection[str]) -> tuple[ir.Value | None, float]:
    """The value that was multiplied or divided by one known number, and the equivalent factor."""
    if (node := _made_by(value, "Mul", "Div")) is None:
        return value, 1.0
    for one, other in (node.inputs, reversed(node.inputs))[: 2 if node.op_type == "Mul" else 1]:
        array = constant(other) if other is not None and other.name not in trainable else None
        if array is not None and array.size == 1 and array.ndim <= 1 and np.isfinite(array).all() and array.any():
            return one, float(array.item() if node.op_type == "Mul" else 1 / array.item())
    return value, 1.0


def _swapped(transpose: ir.Node) -> ir.Value | None:
    """A Transpose's result with its last two axes swapped."""
    *outer, row, column = transpose.attributes.get_ints("perm", [3, 2, 1, 0])
    if (perm := [*outer, column, row]) == [0, 1, 2, 3]:
        return transpose.inputs[0]
    turned = ir.node("Transpose", transpose.inputs, {"perm": perm}, version=transpose.version)
    turned.outputs[0].name, turned.outputs[0].type = f"{transpose.outputs[0].name}_swapped", transpose.outputs[0].type
    turned.outputs[0].shape = ir.Shape([None] * 4)
    assert transpose.graph is not None
    transpose.graph.insert_before(transpose, turned)
    return turned.outputs[0]


# ***** recurrent layers *****


def _fuse_gates(node: ir.Node) -> None:
    """Uses the stored weights, if all their gates are reordered the same way."""
    stacked = [triple for value in node.inputs[1:4] if value is not None for triple in _stacked(value)]
    orders = {order for _, _, order in stacked}
    order = orders.pop() if len(orders) == 1 else ()
    known = node.op_type == "LSTM" or order[-1:] == (2,)  # a GRU's last gate is separate
    if len(order) == GATES[node.op_type] and known:
        for value, stored, _ in stacked:
            ir.convenience.replace_all_uses_with(value, stored)
        node.attributes["gate_order"] = ir.AttrInt64s("gate_order", order)


def _stacked(value: ir.Value) -> list[tuple[ir.Value, ir.Value, tuple[int, ...]]]:
    """The arrays concatenated to this one along the first axis: each, its source, and the order of its gates."""
    node = _made_by(value, "Concat", "Unsqueeze")
    if node is not None and node.op_type == "Unsqueeze":
        axes = constant(node.inputs[1])
        parts = node.inputs[:1] if axes is not None and axes.tolist() == [0] else ()
    else:
        parts = node.inputs if node is not None and node.attributes.get_int("axis") == 0 else ()
    if parts and (split := _made_by(parts[0], "Split")) is not None and {*parts} == {*split.outputs}:
        order = tuple(split.outputs.index(part) for part in parts)
        equal = split.attributes.get_int("axis", 0) == 0 and not any(split.inputs[1:])
        return [(value, stored, order if equal else ()) for stored in split.inputs[:1] if stored is not None]
    return [triple for part in parts if part is not None for triple in _stacked(part)] or [(value, value, ())]
