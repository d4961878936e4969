"""Widens stored integers of less than eight bits, which no framework computes in, to eight.

A file keeps weights in them and reads them by DequantizeLinear, for which only the values matter. An operator that
rounds to such a type, QuantizeLinear or Cast, is unchanged.
"""

import numpy as np
import onnx_ir as ir

WIDER = {
    getattr(ir.DataType, narrow): wide
    for narrow, wide in {
        "INT2": ir.DataType.INT8,
        "INT4": ir.DataType.INT8,
        "UINT2": ir.DataType.UINT8,
        "UINT4": ir.DataType.UINT8,
    }.items()
    if hasattr(ir.DataType, narrow)
}
MOVES = ("Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
READ = (0, 2)  # the inputs of DequantizeLinear that have such types


def widen(model: ir.Model) -> None:
    """Widens stored integers to eight bits, if only DequantizeLinear reads them."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.op_type == "Constant" and node.outputs[0].dtype in WIDER and _retyped(node.outputs[0]):
            node.attributes["value"] = ir.AttrTensor("value", _wide(node.attributes["value"].as_tensor()))
    for value in list(model.graph.initializers.values()):
        if value.dtype in WIDER and value.const_value is not None and _retyped(value):
            value.const_value = _wide(value.const_value)


def _retyped(value: ir.Value) -> bool:
    """Gives the value, and moved copies of it, the wider type; False if something else reads one of them."""
    assert value.dtype is not None
    wide = WIDER[value.dtype]
    values, left = [], [value]
    while left:
        values.append(each := left.pop())
        for node, index in each.uses():
            if node.op_type in MOVES and index == 0:
                left.append(node.outputs[0])
            elif node.op_type != "DequantizeLinear" or index not in READ:
                return False
        if each.is_graph_output():
            return False
    for each in values:
        each.dtype = wide
    return True


def _wide(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """The same numbers, read when needed."""
    wide = WIDER[tensor.dtype]
    shape = ir.Shape(tensor.shape.numpy())

    def made() -> ir.Tensor:
        return ir.Tensor(tensor.numpy().astype(np.dtype(wide.numpy())), wide, shape=shape, name=tensor.name)

    return ir.LazyTensor(made, dtype=wide, shape=shape, name=tensor.name)
