"""The graph of a converted model for a comparison tensor by tensor: in ONNX's operators, with the meaning of quantised
integers in the place of operators on them, and for each node the file's own node that it belongs to."""

from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from onnx_ir.passes import common

from xbench.converters.artifact import Artifact
from xbench.converters.codegen.printer import constant
from xbench.converters.frontends import onnx_file
from xbench.converters.passes.dequantised import Owners, dequantise
from xbench.converters.passes.subgraph import describe
from xbench.parity.node_by_node import read_by


@dataclass(frozen=True)
class Graph:
    """`nodes` are the file's own as plain data (`subgraph.describe`), `owners` the number of the own node that a node
    belongs to, `types` the element types of stored tensors in the file, by name."""

    model: ir.Model
    nodes: list[dict[str, Any]]
    owners: Owners
    types: dict[str, ir.DataType]

    @property
    def inputs(self) -> list[ir.Value]:
        graph = self.model.graph
        return [value for value in graph.inputs if value.name not in graph.initializers]

    def stored(self) -> set[ir.Value]:
        """The tensors that depend on no input: stored ones, and what nodes make of these alone."""
        known = {*self.model.graph.initializers.values()}
        for node in self.model.graph:
            read = read_by(node)[: 1 if node.op_type == "CastLike" else None]  # of the other only the type counts
            if constant(node.outputs[0]) is not None or (read and all(value in known for value in read)):
                known.update(node.outputs)
        return known


def read(artifact: Artifact) -> Graph:
    """The graph of a converted model: of the file that was brought, if there is one.

    Raises:
        InvalidModel: the file cannot be converted.
    """
    if artifact.given is None:
        own = model = ir.load(artifact.inference)
    else:
        own = ir.load(artifact.given)
        model = onnx_file.canonical(onnx_file.read(artifact.given), artifact.given.parent)
    nodes = describe(own)
    types = {str(value.name): value.dtype for value in own.graph.initializers.values() if value.dtype is not None}
    owners = _owners(model.graph, nodes)
    dequantise(model.graph, owners)
    common.RemoveUnusedNodesPass()(model)
    return Graph(model, nodes, owners, types)


def _owners(graph: ir.Graph, nodes: list[dict[str, Any]]) -> Owners:
    """The own node of each node: the one that gives the same tensor, else that of the node that reads its result."""
    by_output = {name: number for number, node in enumerate(nodes) for name in node["outputs"]}
    owners: Owners = {}
    for node in reversed(list(graph)):
        named = (by_output.get(str(value.name)) for value in node.outputs)
        readers = (owners.get(user) for value in node.outputs for user, _ in value.uses())
        found = next((number for number in (*named, *readers) if number is not None), None)
        if found is not None:
            owners[node] = found
    return owners
