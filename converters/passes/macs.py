"""Multiply-accumulates of a network, counted once, from the ONNX graph, the same for every framework.

Convolutions, matrix products (attention's included) and the gates of recurrent layers count, without biases, as in the
five studies. Normalisation, activation and lookup do not count.
"""

import contextlib
import math
from collections.abc import Callable, Mapping

import onnx
import onnx.shape_inference
import onnx_ir as ir

SMALL = 1000  # bytes; smaller tensors may be shapes, whose values shape inference reads


def count(model: ir.Model) -> int | None:
    """MACs of one sample: symbolic dimensions of the inputs count as 1. None if a relevant shape is unknown."""
    graph = model.graph if _is_inferred(model.graph) else _inferred(model)
    try:
        return sum(RULES[node.op_type](node) for node in graph if node.op_type in RULES)
    except _Unknown:
        return None


def of(node: ir.Node) -> int | None:
    """The MACs of one node, symbolic dimensions counted as 1: 0 if the operator does not count, None if a shape
    is unknown."""
    try:
        return RULES[node.op_type](node) if node.op_type in RULES and not node.domain else 0
    except _Unknown:
        return None


def by_parameter(model: ir.Model, names: list[str]) -> dict[str, int]:
    """The MACs of one sample that each parameter takes part in, by name; without those of unknown shapes."""
    graph, counts = model.graph if _is_inferred(model.graph) else _inferred(model), dict.fromkeys(names, 0)
    for node in graph:
        owners = _owners(node, counts) if node.op_type in RULES else []
        for name in owners[:1]:
            with contextlib.suppress(_Unknown):
                counts[name] += RULES[node.op_type](node)
    return counts


def _owners(node: ir.Node, names: Mapping[str, int]) -> list[str]:
    """The parameters that a node reads, directly or through nodes that only move elements."""
    pending, owners = [value for value in node.inputs[1:] if value is not None], []
    while pending:
        value = pending.pop(0)
        maker = value.producer()
        if value.name in names:
            owners.append(str(value.name))
        elif maker is not None and maker.op_type in ("Transpose", "Unsqueeze", "Reshape", "Squeeze", "Identity"):
            pending += [each for each in maker.inputs[:1] if each is not None]
    return owners


def _is_inferred(graph: ir.Graph) -> bool:
    """Whether every relevant shape consists of numbers and the symbols of the inputs, such as the batch."""
    given = {n.value for value in graph.inputs if value.shape for n in value.shape if not isinstance(n, int)} - {None}
    return all(
        value.shape is not None and all(isinstance(n, int) or n.value in given for n in value.shape)
        for node in graph
        if node.op_type in RULES
        for value in (*node.inputs, *node.outputs)
        if value is not None
    )


def sizes(model: ir.Model, batch: int) -> dict[str, list[int]]:
    """The shapes of all tensors, by name, whose sizes follow from those of the inputs, with symbolic dimensions set to
    `batch`."""
    graph = _inferred(model, batch)
    nodes = (value for node in graph.all_nodes() for value in node.outputs)
    shapes = {str(value.name): value.shape for value in (*graph.inputs, *nodes) if value.shape is not None}
    known = {name: [n for n in shape if isinstance(n, int)] for name, shape in shapes.items()}
    return {name: lengths for name, lengths in known.items() if len(lengths) == len(shapes[name])}


def _inferred(model: ir.Model, size: int = 1) -> ir.Graph:
    """A copy without weights, its shapes inferred for inputs whose symbolic dimensions have that size: operators that
    join and reshape make new symbols, of unknown size. onnx_ir's own pass searches all inputs for every weight."""
    copy = model.clone()
    given = set(copy.graph.inputs)
    for value in given:
        value.shape = value.shape and ir.Shape(_ones(value.shape, size))
    _forget(copy.graph)
    for value in list(copy.graph.initializers.values()):
        tensor = value.const_value
        if tensor is not None and tensor.nbytes > SMALL:
            value.shape, value.dtype = value.shape or ir.Shape(tensor.shape.numpy()), value.dtype or tensor.dtype
            copy.graph.initializers.pop(str(value.name))
            value.const_value = None
            if value not in given:
                copy.graph.inputs.append(value)
    try:
        proto = onnx.shape_inference.infer_shapes(ir.to_proto(copy), strict_mode=True, data_prop=True)
        graph = ir.from_proto(proto).graph
        _forget(graph)
        return graph
    except Exception:  # C++ code raises many kinds; the known shapes may be enough
        return copy.graph


def _forget(graph: ir.Graph) -> None:
    """Removes the shapes of results that are not only numbers."""
    for value in (value for node in graph.all_nodes() for value in node.outputs):
        if value.shape is not None and not all(isinstance(n, int) for n in value.shape):
            value.shape = None


class _Unknown(Exception):
    pass


def _shape(value: ir.Value | None) -> list[int]:
    if value is None or value.shape is None:
        raise _Unknown
    return _ones(value.shape)


def _ones(shape: ir.Shape, size: int = 1) -> list[int]:
    return [n if isinstance(n, int) else size for n in shape]


def _conv(node: ir.Node) -> int:
    """Every output element is one dot product over the group's input channels and the kernel."""
    return math.prod(_shape(node.outputs[0])) * math.prod(_shape(node.inputs[1])[1:])


def _conv_transpose(node: ir.Node) -> int:
    return math.prod(_shape(node.inputs[0])) * math.prod(_shape(node.inputs[1])[1:])


def _gemm(node: ir.Node) -> int:
    a, transposed = _shape(node.inputs[0]), node.attributes.get_int("transA", 0)
    return math.prod(_shape(node.outputs[0])) * a[0 if transposed else 1]


def _matmul(node: ir.Node) -> int:
    return math.prod(_shape(node.outputs[0])) * _shape(node.inputs[0])[-1]


def _recurrent(node: ir.Node) -> int:
    """Every step multiplies the input and the state with all gates."""
    time, batch, _ = _shape(node.inputs[0])
    return time * batch * (math.prod(_shape(node.inputs[1])) + math.prod(_shape(node.inputs[2])))


RULES: dict[str, Callable[[ir.Node], int]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}
