"""Channels last: a graph with images as (N, *spatial, C), and a Transpose before operators that cannot take them.

ONNX is channels first. `channels_last` puts a Transpose before every convolution and pooling and one back after it;
such a Transpose moves on after every node that works on any order of axes (elementwise operators, and those that name
their axes), and cancels with its inverse. The remaining ones are at the borders: at inputs, at outputs, and around
operators that support only ONNX's order.

The attribute `channels_last=1` is our own, for the operator tables. Weights keep ONNX's order.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from xbench.converters.codegen.printer import constant
from xbench.converters.ops.info import OPERATORS, info, where

OURS = "xbench.layout"  # metadata_props: a Transpose inserted here

# Reductions over all spatial axes, and their form with named axes.
GLOBAL = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}


def last(rank: int) -> list[int]:
    """The permutation from ONNX's order to channels last."""
    return [0, *range(2, rank), 1]


def first(rank: int) -> list[int]:
    """The permutation from channels last to ONNX's order; also, the place of each of ONNX's axes in channels last."""
    return [0, rank - 1, *range(1, rank - 1)]


def channels_last(model: ir.Model) -> ir.Model:
    """A copy of the graph with its images channels last; its inputs, outputs and weights keep ONNX's order."""
    model = model.clone()
    for node in list(model.graph):
        if node.domain or not node.inputs or _rank(node.inputs[0]) is None:
            continue
        if node.op_type == "Transpose":
            _compose(node)
        elif node.op_type in ("Flatten", "Reshape"):
            _take_points(node)
        elif node.op_type in FORMS and (info(node.op_type).image or any(map(_is_inserted, node.inputs))):
            form, rank = FORMS[node.op_type], max(_rank(value) or 0 for value in node.inputs)
            if (arguments := form(node, rank)) is not None:
                _replace(node, rank, **arguments)
    common.RemoveUnusedNodesPass()(model)
    return model


def _rank(value: ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


# ***** transposes *****


def _perm(node: ir.Node) -> list[int]:
    return list(node.attributes.get_ints("perm", []))


def _came_last(value: ir.Value | None) -> ir.Value | None:
    """The channels-last tensor that a value is the transpose of, if it is."""
    producer = value.producer() if value is not None else None
    if producer is None or producer.op_type != "Transpose" or (rank := _rank(value)) is None:
        return None
    return producer.inputs[0] if _perm(producer) == first(rank) else None


def _is_inserted(value: ir.Value | None) -> bool:
    """Whether a value was transposed back to ONNX's order here; a model's own transposes are not moved."""
    producer = value.producer() if value is not None else None
    return producer is not None and OURS in producer.metadata_props


def _insert(before: ir.Node, op_type: str, inputs: list[ir.Value], name: str, **attributes: list[int]) -> ir.Value:
    node = ir.node(op_type, inputs, attributes, metadata_props={OURS: ""} if op_type == "Transpose" else None)
    node.outputs[0].name, node.outputs[0].type = name, inputs[0].type
    assert before.graph is not None
    before.graph.insert_before(before, node)
    return node.outputs[0]


def _axes(before: ir.Node, axes: Iterable[int]) -> ir.Value:
    node = ir.node("Constant", [], {"value_ints": list(axes)})
    assert before.graph is not None
    before.graph.insert_before(before, node)
    return node.outputs[0]


def _as_last(value: ir.Value, rank: int, reader: ir.Node) -> ir.Value:
    """The tensor channels last, for the node `reader`; one of fewer axes is broadcast, so it gets leading axes."""
    own, name = _rank(value), value.name
    if own == rank and (came := _came_last(value)) is not None:
        return came
    for node, _ in value.uses():  # a node inserted for an earlier reader is before this one
        if OURS in node.metadata_props and _perm(node) == last(rank):
            return node.outputs[0]
    if own is not None and own < rank:
        value = _insert(reader, "Unsqueeze", [value, _axes(reader, range(rank - own))], f"{name}_{rank}d")
    return _insert(reader, "Transpose", [value], f"{name}_nhwc", perm=last(rank))


def _compose(node: ir.Node) -> None:
    """Merges a Transpose with the one before it, and removes two that are inverse."""
    came, perm = _came_last(node.inputs[0]), _perm(node)
    if came is None or not perm:
        return
    composed = [first(len(perm))[axis] for axis in perm]
    if composed == sorted(composed) and not node.outputs[0].is_graph_output():
        ir.convenience.replace_all_uses_with(node.outputs[0], came)
    else:
        node.replace_input_with(0, came)
        node.attributes["perm"] = ir.AttrInt64s("perm", composed)


def _take_points(node: ir.Node) -> None:
    """Flattening images of one pixel needs no transpose: both orders are the same in memory."""
    came = _came_last(node.inputs[0])
    if came is None or any(n != 1 for n in node.inputs[0].shape[2:]):  # type: ignore[index, union-attr]
        return
    target = constant(node.inputs[1]) if node.op_type == "Reshape" else np.array([node.attributes.get_int("axis", 1)])
    if target is not None and (target[1:] != 0).all() and (node.op_type == "Reshape" or target[0] == 1):
        node.replace_input_with(0, came)


# ***** nodes *****


def _replace(
    node: ir.Node,
    rank: int,
    images: Iterable[int],
    attributes: Mapping[str, Any] | None = None,
    axes: list[int] | None = None,
    turned: bool = True,
) -> None:
    """Replaces a node by one that takes its inputs `images` channels last, with new attributes, and axes as an input.

    Its result is transposed back for readers in ONNX's order; without `turned` it is in ONNX's order.
    """
    assert node.graph is not None
    kind, inputs = GLOBAL.get(node.op_type, node.op_type), list(node.inputs)
    for index in images:
        inputs[index] = _as_last(inputs[index], rank, node)  # type: ignore[arg-type]
    if axes is not None:
        place, value = info(kind).axes, _axes(node, axes)
        assert place is not None
        inputs = [*[*inputs, None, None][:place], value, *inputs[place + 1 :]]
    own, props = {**node.attributes, **(attributes or {})}, {**node.metadata_props}
    new = ir.node(kind, inputs, own, num_outputs=len(node.outputs), version=node.version, metadata_props=props)
    node.graph.insert_before(node, new)
    for index, (old, made) in enumerate(zip(node.outputs, new.outputs, strict=True)):
        made.name, made.type, seen = old.name, old.type, made
        if turned and (index == 0 or kind == "Split"):
            seen = _insert(node, "Transpose", [made], f"{old.name}_nchw", perm=first(rank))
            if old.is_graph_output():
                made.name, seen.name = f"{old.name}_nhwc", old.name
        seen.shape = old.shape or (ir.Shape([None] * rank) if seen is not made else None)
        ir.convenience.replace_all_uses_with(old, seen, replace_graph_outputs=True)
    node.graph.remove(node, safe=True)


def _kernel(node: ir.Node, rank: int) -> dict[str, Any] | None:
    """Operators that the tables run with `channels_last`, in the form that they have a kernel for."""
    image = node.inputs[0]
    floating = image is not None and image.dtype is not None and image.dtype.is_floating_point()
    if node.op_type == "MaxPool" and (len(node.outputs) > 1 or not floating):
        return None
    pool_dilated = "Pool" in node.op_type and max(node.attributes.get_ints("dilations", [1])) > 1
    return None if pool_dilated or rank not in (3, 4, 5) else {"images": [0], "attributes": {"channels_last": 1}}


def _elementwise(node: ir.Node, rank: int) -> dict[str, Any] | None:
    images = [i for i, value in enumerate(node.inputs) if value is not None and not _is_single(value)]
    known = all(_rank(node.inputs[i]) == rank or not _is_inserted(node.inputs[i]) for i in images)
    known &= all(_rank(node.inputs[i]) is not None for i in images)
    read = any(output.uses() or output.is_graph_output() for output in node.outputs[1:])
    return {"images": images} if known and not read else None


def _is_single(value: ir.Value) -> bool:
    """One number, which has no order of axes."""
    return value.shape is not None and all(n == 1 for n in value.shape)


def _one_axis(node: ir.Node, rank: int) -> dict[str, Any] | None:
    default = info(node.op_type).axis
    assert default is not None
    axis = node.attributes.get_int("axis", default) % rank
    images = range(len(node.inputs) if node.op_type == "Concat" else 1)
    lost = [axis] if node.op_type in ("ArgMax", "ArgMin") else []
    turned = _turned(node, rank, lost)
    known = all(_rank(node.inputs[i]) == rank for i in images)
    if turned is None or not known:
        return None
    return {"images": images, "attributes": {"axis": first(rank)[axis]}, "turned": turned}


def _turned(node: ir.Node, rank: int, lost: Collection[int]) -> bool | None:
    """Whether a node's result is channels last without these axes; None if the rest has no such order."""
    if not lost or node.attributes.get_int("keepdims", True):
        return True
    left = [first(rank)[axis] for axis in range(rank) if axis not in lost]
    return False if left == sorted(left) else None


def _axes_input(node: ir.Node, rank: int) -> dict[str, Any] | None:
    about, given = info(node.op_type), None
    place = about.axes
    assert place is not None
    if len(node.inputs) > place and node.inputs[place] is not None:
        given = constant(node.inputs[place])
    elif node.op_type == "Slice":
        starts = constant(node.inputs[1])
        given = None if starts is None else np.arange(len(starts))
    elif node.op_type == "Pad" or not node.attributes.get_int("noop_with_empty_axes", 0):
        given = np.arange(rank)
    if given is None:
        return None
    axes = [int(axis) % rank for axis in given]
    turned = _turned(node, rank, axes if about.reduction else [])
    moved = [first(rank)[axis] for axis in axes]
    return None if turned is None else {"images": [0], "axes": moved, "turned": turned}


def _over_space(node: ir.Node, rank: int) -> dict[str, Any]:
    return {"images": [0], "axes": list(range(1, rank - 1))}


def _resize(node: ir.Node, rank: int) -> dict[str, Any]:
    axes = node.attributes.get_ints("axes", list(range(rank)))
    return {"images": [0], "attributes": {"axes": [first(rank)[axis % rank] for axis in axes]}}


FORMS: dict[str, Callable[[ir.Node, int], dict[str, Any] | None]] = {
    **dict.fromkeys([*where("image"), "BatchNormalization"], _kernel),
    **dict.fromkeys(where("elementwise"), _elementwise),
    **{name: _one_axis for name, each in OPERATORS.items() if each.axis is not None},
    **{name: _axes_input for name, each in OPERATORS.items() if each.axes is not None},
    **dict.fromkeys(GLOBAL, _over_space),
    "Resize": _resize,
}
