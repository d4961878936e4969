"""Describes a graph without running it: its layers, their work, its parameters, the memory they need.

All functions take a graph without functions of its own, whose constants are initializers and whose shapes were
inferred. An unknown size is None, and so is every sum with one.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import onnx_ir as ir

from xbench.converters.ops.info import info
from xbench.converters.passes import macs


def word(node: ir.Node) -> str:
    """The operator's name, with its domain unless that is ONNX's own."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def layers(graph: ir.Graph, trainable: Iterable[str]) -> list[dict[str, Any]]:
    """A row per node of the main graph, in its order: `name`, `operator`, `shape` of the first output, `parameters`
    (those not in an earlier row), `macs`, `bytes` of its outputs."""
    left, rows = set(trainable), list[dict[str, Any]]()
    for node in graph:
        own = {str(value.name) for value in _read(node)} & left
        left -= own
        outputs = [value for value in node.outputs if value.name]
        rows.append(
            {
                "name": node.name or (outputs[0].name if outputs else ""),
                "operator": word(node),
                "shape": dims(outputs[0]) if outputs else None,
                "parameters": sum(_elements(graph.initializers[name]) or 0 for name in own),
                "macs": _macs(node),
                "bytes": total(map(size, outputs)),
            }
        )
    return rows


def _macs(node: ir.Node) -> int | None:
    """Unknown if an axis has no number, or if something in a node's branches or body counts: it is not known how often
    they run."""
    counted = any(macs.of(inner) != 0 for graph in bodies(node) for inner in graph.all_nodes())
    work = macs.of(node)
    free = work and any(isinstance(n, str | None) for value in (*_read(node), *node.outputs) for n in dims(value) or ())
    return None if counted or free else work


def stored(graph: ir.Graph, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The stored arrays, or those of the names: `tensors`, `count` of their numbers, `bytes`, and `types`, the numbers
    of each type. An array that several nodes read counts once."""
    arrays = [value.const_value for each in _graphs(graph) for value in each.initializers.values()]
    if names is not None:
        arrays = [graph.initializers[name].const_value for name in names]
    known = [array for array in arrays if array is not None]
    types = Counter[str]()
    for array in known:
        types[type_name(array.dtype)] += array.size
    nbytes = sum(array.nbytes for array in known)
    return {"tensors": len(known), "count": sum(array.size for array in known), "bytes": nbytes, "types": dict(types)}


def live(graph: ir.Graph) -> tuple[int | None, str | None]:
    """The most bytes of inputs and results that are alive at once, if nodes run in the order of the file, each in
    new memory except views of its inputs, and values are freed after their last reader; and the node that runs then.

    Stored arrays are not included, nor values inside branches and bodies.
    """
    roots: dict[ir.Value, ir.Value] = {}
    for node in graph:
        if info(node.op_type).view and not node.domain and node.inputs[0] is not None:
            roots[node.outputs[0]] = roots.get(node.inputs[0], node.inputs[0])
    last: dict[ir.Value, int] = {}
    nodes = list(graph)
    for place, node in enumerate(nodes):
        for value in (*_read(node), *node.outputs):
            last[roots.get(value, value)] = place
    last |= {roots.get(value, value): len(nodes) for value in graph.outputs}
    weights = set(graph.initializers.values())
    given = [value for value in graph.inputs if value not in weights and value in last]
    made = [[value for value in node.outputs if value not in roots and value.name] for node in nodes]
    sizes = {value: size(value) for value in (*given, *(value for values in made for value in values))}
    if None in sizes.values():
        return None, None
    ends: dict[int, list[ir.Value]] = {}
    for value in sizes:
        ends.setdefault(last[value], []).append(value)
    alive = sum(sizes[value] or 0 for value in given)
    most, where = alive, None
    for place, node in enumerate(nodes):
        alive += sum(sizes[value] or 0 for value in made[place])
        if alive > most:
            most, where = alive, node.name or str(node.outputs[0].name)
        alive -= sum(sizes[value] or 0 for value in ends.get(place, ()))
    return most, where


def dims(value: ir.Value) -> list[int | str | None] | None:
    """The sizes of a tensor's axes: a number, a name, or None; None if their number is not known either."""
    return None if value.shape is None else [n if isinstance(n, int) else n.value for n in value.shape]


def size(value: ir.Value) -> int | None:
    """The bytes of a tensor; None if its shape or type is not known, and for strings and sequences."""
    count = _elements(value)
    if count is None or value.dtype in (None, ir.DataType.STRING, ir.DataType.UNDEFINED):
        return None
    if not isinstance(value.type, ir.TensorType | None):
        return None
    assert value.dtype is not None
    return (count * value.dtype.bitwidth + 7) // 8


def type_name(kind: int) -> str:
    """NumPy's name of an element type: ONNX's FLOAT is float32."""
    known = ir.DataType(kind)
    return known.name.lower() if known in (ir.DataType.STRING, ir.DataType.UNDEFINED) else known.numpy().name


def total(sizes: Iterable[int | None]) -> int | None:
    """The sum, if all of them are known."""
    known = list(sizes)
    return None if None in known else sum(each or 0 for each in known)


def _elements(value: ir.Value) -> int | None:
    array = value.const_value
    if array is not None:
        return array.size
    sizes = dims(value)
    if sizes is None or not all(isinstance(n, int) for n in sizes):
        return None
    return math.prod(n for n in sizes if isinstance(n, int))


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs inside a node: branches, or the body of a loop."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _read(node: ir.Node) -> Iterator[ir.Value]:
    """The values a node reads, also in its branches or its body."""
    yield from (value for value in node.inputs if value is not None)
    for graph in bodies(node):
        yield from (value for inner in graph.all_nodes() for value in inner.inputs if value is not None)
        yield from graph.outputs


def _graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    yield graph
    for node in graph:
        for body in bodies(node):
            yield from _graphs(body)
