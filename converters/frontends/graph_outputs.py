"""The names of an exported graph's outputs."""

from collections.abc import Sequence

import onnx_ir as ir


def name(model: ir.Model, paths: Sequence[str]) -> None:
    """Gives every output its path in the module's result, if that is a structure; and its own value, which an output
    returned twice or an unchanged input lacks."""
    graph, seen = model.graph, set[ir.Value]()
    for index, value in enumerate(graph.outputs):
        if value in seen or value.is_graph_input() or value.is_initializer():
            own = ir.node("Identity", [value])
            own.outputs[0].name = f"{value.name}_output_{index}"
            own.outputs[0].shape, own.outputs[0].type = value.shape, value.type
            graph.append(own)
            graph.outputs[index] = value = own.outputs[0]
        seen.add(value)
    if len(paths) != len(graph.outputs) or all(path.isdecimal() or not path for path in paths):
        return
    taken = {value.name for node in graph.all_nodes() for value in (*node.inputs, *node.outputs) if value is not None}
    for path, value in zip(paths, graph.outputs, strict=True):
        while path in taken - {value.name}:
            path += "_output"
        taken.add(path)
        value.name = path
