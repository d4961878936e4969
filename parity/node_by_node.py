"""A second evaluation of a given file: its nodes one by one in float64, each alone in a graph whose tensors are
renamed. The oracle runs a program printed from the graph; two tensors confused in it, or a pass that changed the
computation, would make the oracle wrong, and every right runtime would be blamed. Here no program has more than one
node.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from xbench.converters.artifact import Artifact
from xbench.converters.codegen.printer import constant
from xbench.converters.codegen.program import convert
from xbench.converters.frontends.onnx_file import canonical, read
from xbench.converters.ops.torch_dropout import dropping
from xbench.parity.network import Tensors, arrays, default_type, in_type, named
from xbench.runtimes.torch import ProgramModule, set_dropout

Values = dict[ir.Value, Any]


def outputs(artifact: Artifact, inputs: Sequence[np.ndarray]) -> Tensors:
    """The outputs of mode forward of the given file, as `output/NAME`.

    Raises:
        NotImplementedError: an operator is not in the table, or cannot compute these values.
    """
    assert artifact.given
    return named("output", computed(canonical(read(artifact.given), artifact.given.parent), inputs))


def computed(model: ir.Model, inputs: Sequence[np.ndarray]) -> dict[str, torch.Tensor]:
    """The outputs of a model's graph by name, in float64; the inputs in the graph's order.

    Raises:
        NotImplementedError: an operator is not in the table, or cannot compute these values.
    """
    graph = model.graph
    fed = [value for value in graph.inputs if value.name not in graph.initializers]
    with default_type(torch.float64), dropping(False), torch.no_grad():
        values: Values = dict(zip(fed, arrays(inputs, torch.float64), strict=True))
        reads = Counter(value for node in graph for value in read_by(node))
        for node in graph:
            _compute(model, node, values)
            for value in read_by(node):
                reads[value] -= 1
                if not reads[value] and not value.is_graph_output():
                    values.pop(value, None)
        return {str(value.name): _tensor(value, values) for value in graph.outputs}


def _tensor(value: ir.Value, values: Mapping[ir.Value, Any]) -> torch.Tensor:
    if value in values:
        result = values[value]
        return result if isinstance(result, torch.Tensor) else torch.from_numpy(np.array(result))
    assert value.const_value is not None  # an output may be an initializer
    return arrays([value.const_value.numpy().copy()], torch.float64)[0]


def read_by(node: ir.Node) -> list[ir.Value]:
    """The tensors that a node and its subgraphs read and do not make, each once."""
    bodies = list(_bodies(node))
    inner = [each for body in bodies for each in body]
    own = {value for body in bodies for value in (*body.inputs, *body.initializers.values())}
    own |= {value for each in inner for value in each.outputs}
    read = [value for each in (node, *inner) for value in each.inputs]
    read += [value for body in bodies for value in body.outputs]
    return [value for value in dict.fromkeys(read) if value is not None and value not in own]


def _bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The subgraphs of a node, recursively."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
            for inner in attribute.as_graph():
                yield from _bodies(inner)


def _compute(model: ir.Model, node: ir.Node, values: Values) -> None:
    """Adds the results of a node to the values."""
    made = [value for value in node.outputs if value.uses() or value.is_graph_output()]
    if not made or (constant(node.outputs[0]) is not None and not made[0].is_graph_output()):
        return  # a constant is built into the nodes that read it, as some must know it beforehand
    read = read_by(node)
    fed = [value for value in read if value in values]
    results = alone(model, node, read, fed, made)(*(values[value] for value in fed))
    values.update(zip(made, results, strict=True))


def alone(
    model: ir.Model, node: ir.Node, read: Sequence[ir.Value], fed: Sequence[ir.Value], made: Sequence[ir.Value]
) -> ProgramModule:
    """A module of one node: of what it reads, computed values are its inputs and stored ones its initializers."""
    others = [value for value in read if value not in fed]
    constants = dict.fromkeys(each for value in others if (each := value.producer()) is not None)
    stored = [value for value in others if value.producer() is None]
    view = ir.GraphView(fed, made, nodes=[*constants, node], initializers=stored, opset_imports=model.opset_imports)
    graph = view.clone()
    rename(graph)
    module = ProgramModule(convert(ir.Model(graph, ir_version=10), []))
    in_type(module, torch.float64).eval()
    set_dropout(module, active=False)
    return module


def rename(graph: ir.Graph) -> None:
    """Gives every tensor of a graph and its subgraphs a unique name that the program text does not use."""
    bodies = [graph, *(body for node in graph for body in _bodies(node))]
    values = [value for body in bodies for value in (*body.inputs, *body.initializers.values())]
    values += [value for body in bodies for node in body for value in node.outputs]
    for place, value in enumerate(dict.fromkeys(values)):
        if value.name:
            value.name = f"tensor{place}"
