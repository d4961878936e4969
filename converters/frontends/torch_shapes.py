"""Corrects shapes and types that PyTorch's exporter writes for intermediate results.

It takes them from its tracer, which is wrong about some: to it the cross entropy of each sample is one number
(`reduction="none"`, torch 2.13). Gradients of broadcast operands depend on them.
"""

import onnx_ir as ir
from onnx_ir.passes import common


def correct(model: ir.Model) -> None:
    """Replaces the shape and the type of each result that contradict what ONNX infers from the operators."""
    silent = model.clone()
    for node in silent.graph:
        for value in node.outputs:
            value.shape = value.type = None
    common.ShapeInferencePass()(silent)
    for node, bare in zip(model.graph, silent.graph, strict=True):
        for value, inferred in zip(node.outputs, bare.outputs, strict=True):
            if _contradict(value.shape, inferred.shape):
                value.shape = inferred.shape
            if None not in (value.type, inferred.type) and value.type != inferred.type:
                value.type = inferred.type


def _contradict(declared: ir.Shape | None, inferred: ir.Shape | None) -> bool:
    if declared is None or inferred is None:
        return False
    if len(declared) != len(inferred):
        return True
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(declared, inferred, strict=True))
