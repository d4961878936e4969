"""Multiply-accumulates of a network, counted once, from the ONNX graph, the same for every framework.

Counted are convolutions, matrix products (attention's included) and the gates of recurrent layers, without biases; what
the five studies count. Normalisation, activation and lookup count nothing.
"""

import math
from collections.abc import Callable

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass


def count(model: ir.Model) -> int | None:
    """MACs of one sample: symbolic dimensions count as 1. None where a shape that matters is unknown."""
    inferred = ShapeInferencePass()(model.clone()).model
    try:
        return sum(RULES[node.op_type](node) for node in inferred.graph if node.op_type in RULES)
    except _Unknown:
        return None


class _Unknown(Exception):
    pass


def _shape(value: ir.Value | None) -> list[int]:
    if value is None or value.shape is None:
        raise _Unknown
    return [n if isinstance(n, int) else 1 for n in value.shape]


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
