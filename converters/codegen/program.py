"""Turns an ONNX graph into a `Program`: its printed text and its arrays."""

from collections import Counter
from collections.abc import Iterable

import onnx_ir as ir

from xbench.converters import TABLES, UNBIASED, Program, operators_of
from xbench.converters.codegen.printer import Printer
from xbench.converters.frontends.functions import expand


def count_operators(model: ir.Model) -> dict[str, int]:
    """Operators of the graph and its subgraphs and how often each occurs; with the domain if that is not ONNX's own."""
    nodes = model.graph.all_nodes()
    return dict(Counter(node.op_type if not node.domain else f"{node.domain}.{node.op_type}" for node in nodes))


def convert(model: ir.Model, trainable: Iterable[str]) -> Program:
    """Prints the graph and sorts its initializers into trainable parameters and state."""
    known = set[str].intersection(*map(operators_of, TABLES))
    if any(node.op_type not in known for node in model.graph.all_nodes()):
        model = expand(model.clone(), known)
    graph, names = model.graph, set(trainable)
    printer = Printer(names, unbiased=UNBIASED in model.metadata_props)
    source = printer.function(graph)
    return Program(
        source=source,
        params={
            name: value.const_value.numpy()
            for name, value in graph.initializers.items()
            if name in names and value.const_value is not None
        },
        state=dict(sorted(printer.state.items())),
        inputs=tuple(str(value.name) for value in graph.inputs if value.name not in graph.initializers),
        outputs=tuple(str(value.name) for value in graph.outputs),
        operators=count_operators(model),
    )
