"""Remarks about an ONNX file before it is used."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

import onnx

from xbench.converters.frontends import validity
from xbench.converters.frontends.tensors import is_external, plain
from xbench.converters.ops.info import where
from xbench.converters.passes import macs
from xbench.converters.passes.order import subgraphs

SAME_EVERYWHERE = ("", "ai.onnx")
NAMED = 3  # number of names listed, if there are many


def remarks(model: onnx.ModelProto) -> list[str]:
    """One line each; a plain feed-forward network of fixed shapes in float32 has none."""
    nodes = list(_nodes(model))
    lines = [*_axes(model), *(line for rule in RULES if (line := rule(nodes)))]
    for about in (_external(model), _functions(model), _types(model), _defaults(model)):
        lines += [about] if about else []
    return lines


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for body in (model.graph.node, *(function.node for function in model.functions)):
        yield from validity.all_nodes(body)


def _counted(nodes: list[onnx.NodeProto], words: Collection[str]) -> str:
    counts = Counter[str](node.op_type for node in nodes if node.domain in SAME_EVERYWHERE and node.op_type in words)
    return ", ".join(f"{name} ({n})" for name, n in sorted(counts.items()))


def _control(nodes: list[onnx.NodeProto]) -> str | None:
    if not (counts := _counted(nodes, where("control"))):
        return None
    inside = [inner for node in nodes for graph in subgraphs(node) for inner in graph.node]
    work = sum(node.op_type in macs.RULES for node in inside)
    hidden = f"; {work} inside that have multiply-accumulates are not counted" if work else ""
    return f"control flow: {counts}: what runs depends on the inputs{hidden}"


def _random(nodes: list[onnx.NodeProto]) -> str | None:
    counts = _counted(nodes, where("random"))
    return f"not deterministic: {counts}: no two runs agree, and no parity can be proved" if counts else None


def _quantised(nodes: list[onnx.NodeProto]) -> str | None:
    counts = _counted(nodes, where("quantised"))
    return f"quantised: {counts}: they round, and gradients do not pass them" if counts else None


def _training(nodes: list[onnx.NodeProto]) -> str | None:
    norms = [
        node
        for node in nodes
        if node.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i for a in node.attribute)
    ]
    if not norms:
        return None
    return f"in training form: BatchNormalization ({len(norms)}): its output depends on the whole batch"


def _dropout(nodes: list[onnx.NodeProto]) -> str | None:
    counts = _counted(nodes, ("Dropout",))
    return (
        f"exported for training: {counts}: off where the model is evaluated, on where it is trained" if counts else None
    )


def _uncounted(nodes: list[onnx.NodeProto]) -> str | None:
    counts = _counted(nodes, where("uncounted"))
    return f"not among the multiply-accumulates: {counts}" if counts else None


RULES: tuple[Callable[[list[onnx.NodeProto]], str | None], ...] = (
    *(_control, _random, _quantised, _training, _dropout, _uncounted),
)


def _axes(model: onnx.ModelProto) -> Iterator[str]:
    """Dynamic axes but the first of an input, which is the batch."""
    stored = {tensor.name for tensor in model.graph.initializer}
    for value in (each for each in model.graph.input if each.name not in stored):
        axes = list(enumerate(value.type.tensor_type.shape.dim))
        free = [f"{at} ({plain(d.dim_param, 40)})" if d.dim_param else str(at) for at, d in axes if _free(d)]
        later = free[1:] if axes and _free(axes[0][1]) else free
        if later:
            yield f"dynamic axes of input {value.name!r} beside the batch: {', '.join(later)}"


def _free(axis: Any) -> bool:
    return not axis.HasField("dim_value")


def _external(model: onnx.ModelProto) -> str | None:
    tensors = [tensor for tensor in (*model.graph.initializer, *validity.tensors(model)) if is_external(tensor)]
    places = sorted({e.value for tensor in tensors for e in tensor.external_data if e.key == "location"})
    named = ", ".join(plain(place, 60) for place in places[:NAMED]) + (", ..." if len(places) > NAMED else "")
    return f"weights outside the file, in {named}" if tensors else None


def _functions(model: onnx.ModelProto) -> str | None:
    if not model.functions:
        return None
    calls = Counter((node.domain, node.op_type) for node in _nodes(model))
    named = [f"{f.domain}.{f.name} ({calls[f.domain, f.name]})" for f in model.functions]
    rest = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f"functions of its own, counted as what they are made of: {', '.join(named[:NAMED])}{rest}"


def _types(model: onnx.ModelProto) -> str | None:
    """Inputs and outputs that are not numeric tensors, and weights in another precision than float32."""
    stored = {tensor.name for tensor in model.graph.initializer}
    odd = [
        value.name
        for value in (*model.graph.input, *model.graph.output)
        if value.name not in stored
        and (
            value.type.WhichOneof("value") not in ("tensor_type", None)
            or value.type.tensor_type.elem_type == onnx.TensorProto.STRING
        )
    ]
    return f"no tensors of numbers: {', '.join(map(repr, odd[:NAMED]))}" if odd else None


def _defaults(model: onnx.ModelProto) -> str | None:
    stored = {tensor.name for tensor in model.graph.initializer}
    given = [value.name for value in model.graph.input if value.name in stored]
    return f"{len(given)} initializers are inputs as well, which a caller may replace" if given else None
