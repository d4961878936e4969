"""Checks an untrusted ONNX file before ONNX's own C++ code, or anything that allocates, may see it.

Every check reads only the parsed protobuf, trusts no size that the file claims, and takes time in proportion to its
content. A file that passes has known versions and operators, names that are safe to print and to write into a
program, sorted nodes, tensors with exactly the data their shape needs, and finite nesting and function calls.
"""

import keyword
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from functools import cache

import onnx

from xbench.converters.frontends.tensors import InvalidModel, NoOracle, check_name, check_shapes, check_tensor, plain
from xbench.converters.ops import contrib
from xbench.converters.passes.order import Scopes, is_in, sort, subgraphs

MAX_DEPTH = 16  # subgraphs within subgraphs; Python's own parser ends at 100 indentations
MAX_CALLS = 64  # functions that call functions
MAX_NODES = 200_000  # large language models have some ten thousand
MAX_WRITTEN = 50_000  # nodes of all functions with their calls inlined: onnx_ir does that for each function
MAX_SCOPES = 400_000_000  # subgraphs times nodes: ONNX's shape inference copies what is known for every subgraph
IR_VERSIONS = range(3, onnx.IR_VERSION + 1)
NOT_ONNX = "operators that ONNX does not define"
Function = tuple[str, str]  # domain and name


def check(model: onnx.ModelProto, foreign: bool = False) -> None:
    """Checks a model whose external data is not loaded, and sorts its nodes if they are not sorted.

    With `foreign` it may have unknown operators (`unknown`), to be inspected and not run.

    Raises:
        InvalidModel: it breaks a rule; the message names the first one and its place.
    """
    if model.ir_version not in IR_VERSIONS:
        known = f"{IR_VERSIONS.start} to {IR_VERSIONS.stop - 1}"
        raise InvalidModel(f"its IR version is {model.ir_version}; onnx {onnx.__version__} knows {known}")
    versions = _versions(model.opset_import)
    if not versions:
        raise InvalidModel("it names no opset")
    functions = {(f.domain, f.name): f for f in model.functions}
    if len(functions) < len(model.functions):
        raise InvalidModel("two functions have the same name")
    if not model.graph.node:
        raise InvalidModel("it has no nodes")
    walk = _Walk()
    walk.graph(model.graph, (), 0)
    walk.in_function = True
    for function in functions.values():
        where = f"function {plain(function.name, 60)}"
        for word in (function.domain, function.name, *function.input, *function.output, *function.attribute):
            check_name(word)
        scopes = walk.nodes(function.node, (set(function.input),), 0, where)
        _check_outputs(function.output, scopes, where)
        _versions(function.opset_import)
    if walk.count * walk.graphs > MAX_SCOPES:
        raise InvalidModel(f"it has {walk.graphs} graphs for {walk.count} nodes")
    if not foreign:
        _check_operators(model)
    _check_calls(model, {(each.domain, each.name): each for each in model.functions})


def _check_operators(model: onnx.ModelProto) -> None:
    """Defines those that ONNX Runtime's tools write, and raises if another is unknown."""
    contrib.define(model)
    if strange := unknown(model):
        own = {name: n for name, n in strange.items() if name.rpartition(".")[0] in _newest()}
        listed = ", ".join(f"{name} ({n})" for name, n in (own or strange).items())
        raise InvalidModel(f"unknown operators: {listed}") if own else NoOracle(f"{NOT_ONNX}: {listed}")


def _versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """The imported version of each domain."""
    versions: dict[str, int] = {}
    for each in imports:
        domain = _domain(each.domain)
        check_name(domain)
        if domain in versions:
            raise InvalidModel(f"the domain {domain or 'ai.onnx'!r} is imported twice")
        versions[domain] = each.version
        newest = _newest().get(domain, each.version)
        if not 1 <= each.version <= newest:
            known = f"onnx {onnx.__version__} knows 1 to {newest}"
            raise InvalidModel(f"its opset of {domain or 'ai.onnx'} is {each.version}; {known}")
    return versions


@cache
def _newest() -> dict[str, int]:
    newest = Counter[str]()
    for schema in onnx.defs.get_all_schemas_with_history():
        newest[schema.domain] = max(newest[schema.domain], schema.since_version)
    return {**newest, "": onnx.defs.onnx_opset_version()}


def _domain(word: str) -> str:
    return "" if word == "ai.onnx" else word


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes and those of their subgraphs; protobuf limits the nesting to about thirty."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor that is not an initializer of the main graph."""
    for body in (model.graph.node, *(f.node for f in model.functions)):
        for node in all_nodes(body):
            for attribute in node.attribute:
                yield from attribute.tensors
                if attribute.HasField("t"):
                    yield attribute.t
            for graph in subgraphs(node):
                yield from graph.initializer


def unknown(model: onnx.ModelProto) -> dict[str, int]:
    """The operators that are neither ONNX's at the model's opsets nor its own functions, and how often each occurs."""
    functions, versions = {(f.domain, f.name) for f in model.functions}, _versions(model.opset_import)
    bodies: list[tuple[Iterable[onnx.NodeProto], Mapping[str, int]]] = [(model.graph.node, versions)]
    bodies += [(f.node, versions | _versions(f.opset_import)) for f in model.functions]
    counts = Counter[str]()
    for node, known in ((node, known) for body, known in bodies for node in all_nodes(body)):
        domain = _domain(node.domain)
        has = domain in known and onnx.defs.has(node.op_type, known[domain], domain)
        if not has and (node.domain, node.op_type) not in functions:
            counts[f"{domain}.{node.op_type}" if domain else node.op_type] += 1
    return dict(sorted(counts.items()))


def _check_calls(model: onnx.ModelProto, functions: Mapping[Function, onnx.FunctionProto]) -> None:
    """Checks that inlined functions end and stay few: a bomb doubles them with every level."""
    sizes: dict[Function, int] = {}
    calling: list[Function] = []

    def size(nodes: Iterable[onnx.NodeProto]) -> int:
        total = 0
        for node in all_nodes(nodes):
            name = (node.domain, node.op_type)
            total += call(name) if name in functions else 1
        if total > MAX_WRITTEN:
            raise InvalidModel(f"its functions have more than {MAX_WRITTEN} nodes when they are written out")
        return total

    def call(name: Function) -> int:
        if name not in sizes:
            if name in calling:
                raise InvalidModel(f"function {name[1]} calls itself")
            if len(calling) == MAX_CALLS:
                raise InvalidModel(f"more than {MAX_CALLS} functions call one another")
            calling.append(name)
            sizes[name] = size(functions[name].node)
            calling.pop()
        return sizes[name]

    if functions and sum(map(call, functions)) + size(model.graph.node) > MAX_WRITTEN:
        raise InvalidModel(f"its functions have more than {MAX_WRITTEN} nodes when they are written out")


class _Walk:
    """Walks graphs, nodes and attributes, and counts the nodes."""

    def __init__(self) -> None:
        self.count = self.graphs = 0
        self.in_function = False

    def graph(self, graph: onnx.GraphProto, outer: Scopes, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise InvalidModel(f"subgraphs are nested more than {MAX_DEPTH} deep")
        self.graphs += 1
        if graph.sparse_initializer:
            raise InvalidModel("sparse tensors are not supported")
        where = f"subgraph {plain(graph.name, 60)!r}" if depth else "the graph"
        inputs, stored = [v.name for v in graph.input], [t.name for t in graph.initializer]
        for word in (graph.name, *inputs, *(v.name for v in (*graph.output, *graph.value_info))):
            check_name(word)
        for tensor in graph.initializer:
            check_tensor(tensor, f"initializer {tensor.name!r}")
        for kind, words in (("inputs", inputs), ("initializers", stored), ("outputs", [v.name for v in graph.output])):
            if twice := [word for word, times in Counter(words).items() if times > 1 or not word]:
                raise InvalidModel(f"{where} has {kind} with the same name, or none: {twice[0]!r}")
        _check_defaults(graph)
        check_shapes(graph)
        known = self.nodes(graph.node, (*outer, {*inputs, *stored}), depth, where)
        _check_outputs((value.name for value in graph.output), known, where)

    def nodes(self, nodes: MutableSequence[onnx.NodeProto], known: Scopes, depth: int, where: str) -> Scopes:
        """Checks nodes and sorts them in place; returns the names that are known after the last."""
        made: dict[str, int] = {}
        for index, node in enumerate(nodes):
            self.count += 1
            if self.count > MAX_NODES:
                raise InvalidModel(f"it has more than {MAX_NODES} nodes")
            for word in (node.name, node.domain, node.overload, node.op_type, *node.input, *node.output):
                check_name(word)
            if not node.op_type.isidentifier() or keyword.iskeyword(node.op_type):  # it becomes program text
                raise InvalidModel(f"{plain(node.op_type, 60)!r} is not the name of an operator")
            for name in filter(None, node.output):
                if name in made or name in known[-1]:
                    raise InvalidModel(f"{name!r} is given twice in {where}")
                made[name] = index
        sort(nodes, made, known, where)
        known = (*known, set(made))
        for node in nodes:
            self.attributes(node, known, depth)
        return known

    def attributes(self, node: onnx.NodeProto, known: Scopes, depth: int) -> None:
        if node.op_type == "Constant" and not node.domain and len(node.attribute) != 1:
            raise InvalidModel(f"a Constant has {len(node.attribute)} values")
        for name, times in Counter(attribute.name for attribute in node.attribute).items():
            check_name(name)
            if times > 1 or not name.isidentifier() or keyword.iskeyword(name):
                raise InvalidModel(f"{plain(name, 60)!r}, an attribute of {node.op_type}, comes twice or is no name")
        for attribute in node.attribute:
            if attribute.ref_attr_name and not self.in_function:
                raise InvalidModel(f"a {node.op_type} outside every function takes an attribute of a function")
            if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
                raise InvalidModel("sparse tensors are not supported")
            for tensor in [*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors]:
                check_tensor(tensor, f"attribute {attribute.name} of {node.op_type}")
            for word in (attribute.s, *attribute.strings):
                _check_text(word, node)
        for graph in subgraphs(node):
            self.graph(graph, known, depth + 1)


def _check_text(word: bytes, node: onnx.NodeProto) -> None:
    try:
        word.decode()
    except UnicodeDecodeError as error:
        raise InvalidModel(f"an attribute of {node.op_type} is no UTF-8") from error


def _check_outputs(names: Iterable[str], known: Scopes, where: str) -> None:
    for name in names:
        if not is_in(name, known):
            raise InvalidModel(f"nothing computes the output {name!r} of {where}")


def _check_defaults(graph: onnx.GraphProto) -> None:
    """Checks that an input that is also an initializer declares the type and shape of its data."""
    declared = {value.name: value.type.tensor_type for value in graph.input}
    for tensor in graph.initializer:
        kind = declared.get(tensor.name)
        if kind is None:
            continue
        sizes = [axis.dim_value if axis.HasField("dim_value") else None for axis in kind.shape.dim]
        fits = len(sizes) == len(tensor.dims) and all(n in (None, m) for n, m in zip(sizes, tensor.dims))
        if kind.elem_type != tensor.data_type or (kind.HasField("shape") and not fits):
            raise InvalidModel(f"input {tensor.name!r} is declared otherwise than its data")
