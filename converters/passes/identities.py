"""Removes Identity nodes. (`onnx_ir` has such a pass; it makes another graph's value an output of a branch, which fails
if that value is an output already, or if two branches output the same.)"""

import onnx_ir as ir


def drop(model: ir.Model) -> None:
    """Removes every Identity that no output needs; an output keeps its name."""
    for node in list(model.graph.all_nodes()):
        if node.op_type == "Identity" and node.domain == "" and node.inputs[0] is not None:
            _drop(node, node.inputs[0], node.outputs[0])


def _drop(node: ir.Node, value: ir.Value, copy: ir.Value) -> None:
    assert node.graph is not None
    made_here = (producer := value.producer()) is not None and producer.graph is node.graph
    if copy.is_graph_output() and (not made_here or value.is_graph_output()):
        return
    if copy.shape is not None:
        value.merge_shapes(copy.shape)
    value.type = value.type or copy.type
    is_output, name = copy.is_graph_output(), copy.name
    copy.replace_all_uses_with(value, replace_graph_outputs=True)
    node.graph.remove(node, safe=True)
    if is_output:
        value.name = name
