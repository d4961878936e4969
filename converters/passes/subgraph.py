"""Makes parts of a graph separate models: any set of its nodes, every tensor an output, every gradient a parameter's.

A node's number is its place in the graph. The tensors that a part reads from outside are its inputs, as arrays by
name, so that any set of nodes is a model: nodes need not be connected, and earlier errors do not reach them.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from xbench.converters import PARAMETERS
from xbench.converters.ops.info import info
from xbench.converters.passes.outline import bodies

Arrays = Mapping[str, np.ndarray]
ROW = 16  # most numbers in a row of logits made from other tensors
FLOATING = (None, ir.DataType.FLOAT)  # None if shape inference found none


def describe(model: ir.Model) -> list[dict[str, Any]]:
    """Every node as plain data. Its inputs are the tensors it reads, also inside its subgraphs; its outputs those
    that are read."""
    own = _own(model.graph)
    return [
        {
            "op_type": node.op_type,
            "name": node.name,
            "attributes": {name: _plain(attribute) for name, attribute in node.attributes.items()},
            "inputs": list(dict.fromkeys(str(value.name) for value in _read(node) if value in own)),
            "outputs": [str(value.name) for value in _live(node)],
        }
        for node in model.graph
    ]


def _plain(attribute: ir.Attr) -> Any:
    kinds = ir.AttributeType
    if attribute.type in (kinds.FLOAT, kinds.INT, kinds.STRING):
        return attribute.value
    if attribute.type in (kinds.FLOATS, kinds.INTS, kinds.STRINGS):
        return list(attribute.value)
    return f"a {attribute.type.name.lower()}"


def cut(model: ir.Model, nodes: Collection[int], given: Arrays, trains: bool = False) -> ir.Model:
    """Makes some nodes a model, whose outputs are the tensors that none of them reads.

    What they read from outside becomes an input, with its array's shape; what depends only on shapes, and forward what
    depends only on weights, becomes a constant, as for a compiler of the complete graph. For training, what has a
    gradient becomes a parameter instead, and the model has one output: all its results, as the logits of the loss.
    Weights and names stay the same.
    """
    fixed, learned = shape_decided(model, not trains), learned_tensors(model) if trains else set()
    model = model.clone()
    graph = model.graph
    own, every = _own(graph), list(graph)
    kept = dict.fromkeys(every[number] for number in sorted(nodes))
    made = {value for node in kept for value in node.outputs}
    read = dict.fromkeys(value for node in kept for value in _read(node) if value in own)
    sinks = [value for node in kept for value in _live(node) if value not in read]
    outside = [value for value in read if value not in made and value.name not in graph.initializers]
    graph.outputs.clear()
    graph.inputs.clear()
    for value in outside:
        array = typed(value, given[str(value.name)])
        inner = ir.Value(name=value.name, type=ir.TensorType(ir.DataType.from_numpy(array.dtype)))
        inner.shape = ir.Shape(array.shape)
        ir.convenience.replace_all_uses_with(value, inner)
        if value.name in fixed or value.name in learned:
            inner.const_value = ir.tensor(array, name=value.name)
            graph.register_initializer(inner)
        else:
            graph.inputs.append(inner)
    for node in (node for node in every if node not in kept):
        _detach(node)
        graph.remove(node, safe=False)
    for value in made:
        if value.name in given:
            value.shape = ir.Shape(given[str(value.name)].shape)
    if trains:
        sinks = [value for value in sinks if value.name in learned] or sinks[-1:]
        sinks = [_logits(graph, sinks)] if sinks else []
    graph.outputs.extend(sinks)
    if trains:
        common.RemoveUnusedNodesPass()(model)
    _drop_unused(graph)
    _learn(model, learned)
    return model


def _logits(graph: ir.Graph, sinks: list[ir.Value]) -> ir.Value:
    """Rows of numbers, each of which is the logits of a sample to the loss: a tensor with such rows, or else all the
    tensors cut into rows. In short rows no large number hides the gradients of all others."""
    shapes = [sink.shape.numpy() for sink in sinks if sink.shape is not None]
    if len(sinks) == 1 and shapes[0][-1:] not in ((), (1,)):
        return sinks[0]
    sizes = [math.prod(shape) for shape in shapes]
    width = next((width for width in range(ROW, 1, -1) if all(size % width == 0 for size in sizes)), None)
    name = f"{sinks[-1].name}.logits"
    target = ir.Value(
        name=f"{name}.shape", const_value=ir.tensor(np.array([-1, width] if width else [1, -1], np.int64))
    )
    graph.register_initializer(target)
    cuts = [ir.node("Reshape", [sink, target]) for sink in sinks]
    joined = ir.node("Concat", [node.outputs[0] for node in cuts], {"axis": 0 if width else 1})
    for number, node in enumerate([*cuts, joined][: 1 if len(cuts) == 1 else None]):
        graph.append(node)
        value = node.outputs[0]
        value.name, value.type = f"{name}.{number}", sinks[0].type
    total = sum(sizes)
    value.name, value.shape = name, ir.Shape([total // width, width] if width else [1, total])
    return value


def mark(model: ir.Model) -> ir.Model:
    """The model with all floating tensors as outputs."""
    model = model.clone()
    values = [value for node in model.graph for value in _live(node) if value.dtype in FLOATING]
    model.graph.outputs[:] = values
    return model


def mark_gradients(model: ir.Model, given: Arrays) -> tuple[ir.Model, dict[str, tuple[str, int]]]:
    """The model in which every tensor that the loss is differentiated through has zeros added wherever it is read.

    The zeros are trainable parameters: the gradient of each is one node's contribution to the gradient of one tensor.
    Returns them by name -> the tensor, and the number of the node that reads it.
    """
    active, alive = learned_tensors(model), _ancestors(model)
    model = model.clone()
    graph, places = model.graph, dict[str, tuple[str, int]]()
    # An operator that the model does not have, so that a fault in the model's is not in the marks.
    add = next((op for op in ("Sum", "Sub") if all(n.op_type != op for n in graph)), "Add")
    for number, node in enumerate(list(graph)):
        if number not in alive or not info(node.op_type).differentiable:
            continue
        static = info(node.op_type).static
        moved: dict[ir.Value, ir.Value] = {}
        for index, value in enumerate(node.inputs):
            if value is None or index in static or value.name not in active or value.name in graph.initializers:
                continue
            if value not in moved:
                name = f"{value.name}.into.{node.outputs[0].name}"
                zeros = ir.Value(name=name, const_value=ir.tensor(np.zeros_like(given[str(value.name)], np.float32)))
                zeros.shape, zeros.dtype = ir.Shape(given[str(value.name)].shape), ir.DataType.FLOAT
                graph.register_initializer(zeros)
                added = ir.node(add, [value, zeros])
                added.outputs[0].name = f"{name}.moved"
                added.outputs[0].shape, added.outputs[0].type = zeros.shape, zeros.type
                graph.insert_before(node, added)
                moved[value], places[name] = added.outputs[0], (str(value.name), number)
            node.replace_input_with(index, moved[value])
    _learn(model, places)
    return model, places


def learned_tensors(model: ir.Model) -> set[str]:
    """The floating tensors that depend on a trainable parameter in a way that has a gradient."""
    active = set(trainable(model))
    for node in model.graph:
        if info(node.op_type).differentiable and any(value.name in active for value in _read(node)):
            active |= {str(value.name) for value in node.outputs if value.dtype in FLOATING}
    return active


def shape_decided(model: ir.Model, weights: bool = False) -> set[str]:
    """The tensors that are known from shapes only, or also from `weights`, while the graph is compiled."""
    known: set[ir.Value] = set()
    for node in model.graph:
        read = [*_read(node)]
        given = [value for value in read if value.name not in model.graph.initializers]
        if node.op_type in ("Shape", "Size") or ((given or (weights and read)) and known.issuperset(given)):
            known.update(node.outputs)
    return {str(value.name) for value in known}


def trainable(model: ir.Model) -> list[str]:
    return list(json.loads(model.metadata_props.get(PARAMETERS, "[]")))


def tensors(model: ir.Model) -> list[ir.Value]:
    """All tensors that the nodes compute and that are read."""
    return [value for node in model.graph for value in _live(node)]


def _learn(model: ir.Model, names: Collection[str]) -> None:
    """Adds trainable parameters, and removes those that no longer exist."""
    kept = [name for name in dict.fromkeys((*trainable(model), *names)) if name in model.graph.initializers]
    model.metadata_props[PARAMETERS] = json.dumps(kept)


def _drop_unused(graph: ir.Graph) -> None:
    for name, value in list(graph.initializers.items()):
        if not value.uses() and value not in graph.outputs:
            graph.initializers.pop(name)


def typed(value: ir.Value, array: np.ndarray) -> np.ndarray:
    kind = value.dtype.numpy() if value.dtype is not None else np.float32 if array.dtype.kind == "f" else array.dtype
    return np.ascontiguousarray(array, kind).reshape(array.shape)


def _live(node: ir.Node) -> list[ir.Value]:
    return [value for value in node.outputs if value.name and (value.uses() or value.is_graph_output())]


def _own(graph: ir.Graph) -> set[ir.Value]:
    """The tensors of the graph itself, without those of its nodes' subgraphs."""
    return {*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)}


def _read(node: ir.Node) -> Iterator[ir.Value]:
    """The values a node reads, also inside its subgraphs."""
    yield from (value for value in node.inputs if value is not None)
    for graph in bodies(node):
        yield from graph.outputs
        yield from (value for inner in graph for value in _read(inner))


def _detach(node: ir.Node) -> None:
    """Makes a node read nothing, also inside its subgraphs, so that nothing counts as read by it."""
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)
    for inner in (inner for graph in bodies(node) for inner in graph):
        _detach(inner)


def _ancestors(model: ir.Model) -> set[int]:
    """The numbers of the nodes that the first output depends on."""
    needed, numbers = {model.graph.outputs[0]}, set()
    for number, node in reversed(list(enumerate(model.graph))):
        if any(value in needed for value in node.outputs):
            numbers.add(number)
            needed.update(_read(node))
    return numbers
