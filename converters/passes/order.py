"""Sorts an untrusted graph's nodes: every node after those it reads, without cycles."""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, MutableSequence

import onnx

from xbench.converters.frontends.tensors import InvalidModel

Scopes = tuple[set[str], ...]  # the names of a graph and of outer graphs; one merged set would be copied for each graph


def is_in(name: str, scopes: Scopes) -> bool:
    return any(name in names for names in scopes)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _reads(node: onnx.NodeProto) -> set[str]:
    """The names a node reads, including those that its subgraphs take from outside."""
    names = set(node.input) - {""}
    for graph in subgraphs(node):
        own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
        inner = {value.name for value in graph.output}
        for each in graph.node:
            own |= set(each.output)
            inner |= _reads(each)
        names |= inner - own
    return names


def sort(nodes: MutableSequence[onnx.NodeProto], made: Mapping[str, int], known: Scopes, where: str) -> None:
    """Puts every node after those it reads; a sorted graph keeps its order.

    Raises:
        InvalidModel: a name that nothing defines, or a cycle.
    """
    waits: list[set[int]] = []
    for node in nodes:
        reads = _reads(node)
        if lost := [name for name in sorted(reads) if name not in made and not is_in(name, known)]:
            raise InvalidModel(f"{node.op_type} reads {lost[0]!r}, which nothing in {where} gives")
        waits.append({made[name] for name in reads if name in made})
    if all(max(before, default=-1) < index for index, before in enumerate(waits)):
        return
    followers = defaultdict(list)
    for index, before in enumerate(waits):
        for each in before:
            followers[each].append(index)
    ready = [index for index, before in enumerate(waits) if not before]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for index in followers[order[-1]]:
            waits[index].discard(order[-1])
            if not waits[index]:
                heapq.heappush(ready, index)
    if len(order) < len(nodes):
        stuck = next(index for index, before in enumerate(waits) if before)
        raise InvalidModel(f"{where} has a cycle: {nodes[stuck].op_type} waits for its own result")
    copies = [onnx.NodeProto.FromString(nodes[index].SerializeToString()) for index in order]
    del nodes[:]
    nodes.extend(copies)
