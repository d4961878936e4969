"""Computes the nodes of a graph one by one in float64, any number of times, with tensors of other values put in."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from xbench.converters.codegen.printer import constant
from xbench.converters.ops.torch_dropout import dropping
from xbench.converters.ops.torch_types import to_numpy
from xbench.parity.like.graph import Graph
from xbench.parity.like.rounding import halved
from xbench.parity.network import arrays, default_type
from xbench.parity.node_by_node import alone, read_by

HALVES = {ir.DataType.FLOAT16: "float16", ir.DataType.BFLOAT16: "bfloat16"}
Values = dict[ir.Value, Any]  # tensors; what depends on shapes alone may be NumPy's or Python's
Instead = Mapping[ir.Node, Callable[[Values], Values]]
F64 = torch.float64
SMALL = 2**20  # numbers of the inputs, below which threads wait for one another longer than they compute


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Within it nodes are computed."""
    with default_type(F64), dropping(False), torch.no_grad():
        yield


@contextlib.contextmanager
def few_threads(inputs: Sequence[np.ndarray]) -> Iterator[None]:
    """Within it a small network is computed by one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if sum(array.size for array in inputs) < SMALL else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Walk:
    """The nodes of a graph in order, each made ready once."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.nodes = graph, [node for node in graph.model.graph if _computes(node)]
        self._ready: dict[tuple[ir.Node, tuple[ir.Value, ...]], Any] = {}
        self.reads = {node: read_by(node) for node in self.nodes}

    def given(self, inputs: Iterable[np.ndarray]) -> Values:
        """The inputs of the graph, in its order."""
        return dict(zip(self.graph.inputs, arrays([*inputs], F64), strict=True))

    def made(self, node: ir.Node, values: Mapping[ir.Value, Any]) -> Values:
        """The results of one node for these values of what it reads.

        Raises:
            NotImplementedError: an operator is not in the table, or cannot compute these values.
        """
        read = self.reads[node]
        fed = tuple(value for value in read if value in values)
        kept = [value for value in node.outputs if value.uses() or value.is_graph_output()]
        if (node, fed) not in self._ready:
            self._ready[node, fed] = alone(self.graph.model, node, read, list(fed), kept)
        return dict(zip(kept, self._ready[node, fed](*(values[value] for value in fed)), strict=True))

    def run(self, values: Values, instead: Instead | None = None, halves: bool = False) -> Values:
        """All tensors of the graph; `values` are the inputs', and those of tensors that are not computed. `instead` are
        functions that give the results of some nodes, of what is known. With `halves` those of 16 bits are rounded."""
        values = dict(values)
        for node in self.nodes:
            if instead and node in instead:
                values |= instead[node](values)
            elif not all(value in values for value in node.outputs if value.uses() or value.is_graph_output()):
                made = {value: each for value, each in self.made(node, values).items() if value not in values}
                values |= {value: _rounded(value, each) for value, each in made.items()} if halves else made
        return values

    def changed(self, values: Values, errors: Mapping[ir.Value, torch.Tensor]) -> Values:
        """The tensors that are others than `values` where errors are added to some."""
        new = {value: _added(values[value], errors[value]) for value in self.graph.inputs if value in errors}
        for node in self.nodes:
            if any(value in new for value in self.reads[node]):
                known = {value: new.get(value, values.get(value)) for value in self.reads[node] if value in values}
                new |= self.made(node, known)
            for value in node.outputs:
                if value in errors:
                    new[value] = _added(new.get(value, values[value]), errors[value])
        return new

    def back_to(self, targets: Collection[ir.Value], known: Mapping[ir.Value, Any]) -> Values:
        """Computes `targets` of what is known; later nodes that they do not need are left out."""
        needed, wanted = list[ir.Node](), {*targets} - {*known}
        for node in reversed(self.nodes):
            if any(value in wanted for value in node.outputs):
                needed.append(node)
                wanted |= {value for value in self.reads[node] if value not in known}
        values = dict(known)
        for node in reversed(needed):
            values |= {value: made for value, made in self.made(node, values).items() if value not in known}
        return {value: values[value] for value in targets}


def _computes(node: ir.Node) -> bool:
    """Whether a node is more than a constant, which is built into its readers."""
    used = any(value.uses() or value.is_graph_output() for value in node.outputs)
    return used and (constant(node.outputs[0]) is None or node.outputs[0].is_graph_output())


def _added(value: Any, error: torch.Tensor) -> torch.Tensor:
    """A sum with what may be a number that depends on shapes alone."""
    return torch.as_tensor(np.asarray(to_numpy(value)), dtype=F64) + error


def _rounded(value: ir.Value, made: Any) -> Any:
    """A result as floats of the type that the graph says, if that has 16 bits."""
    if value.dtype not in HALVES or not isinstance(made, torch.Tensor):
        return made
    return tensor_of(halved(np.asarray(to_numpy(made)), HALVES[value.dtype]))


def array_of(value: Any) -> np.ndarray | None:
    """The numbers of a tensor; None of something else, such as a sequence."""
    if isinstance(value, torch.Tensor | np.ndarray | int | float):
        return np.asarray(to_numpy(value))
    return None


def tensor_of(array: np.ndarray) -> torch.Tensor:
    (tensor,) = arrays([array], F64)
    return tensor
