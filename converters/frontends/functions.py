"""Operators that ONNX itself defines by a body of simpler ones, expanded if no table has a row for them."""

from collections.abc import Collection
from typing import Any

import onnx
import onnx_ir as ir
from onnx_ir.passes import common

BODIES = "xbench.bodies"  # the domain of the functions made here, none of which outlives `expand`


def expand(model: ir.Model, known: Collection[str]) -> ir.Model:
    """The model with ONNX's body in place of every operator that has one and is not `known`; unchanged if all are."""
    while unknown := [node for node in model.graph.all_nodes() if node.op_type not in known and not node.domain]:
        bodies = {node: body for node in unknown if (body := _body(node, model.opset_imports[""])) is not None}
        if not bodies:
            return model
        for index, (node, body) in enumerate(bodies.items()):
            body.domain, body.name = BODIES, f"{body.name}_{index}"
            function = ir.serde.deserialize_function(body)
            model.functions[function.identifier()] = function
            node.domain, node.op_type, node.overload = BODIES, body.name, ""
        model.opset_imports[BODIES] = 1
        common.InlinePass()(model)
        model.opset_imports.pop(BODIES, None)
    return model


def _body(node: ir.Node, opset: int) -> onnx.FunctionProto | None:
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    text = b""
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= opset]
        text = schema.get_function_with_opset_version(max(versions)) if versions else b""
    elif schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        types = [_type(value) for value in node.inputs]
        if versions and None not in types:
            proto = ir.to_proto(node).SerializeToString()
            text = schema.get_context_dependent_function_with_opset_version(max(versions), proto, types)
    if not text:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(text)
    if not _raised(body, opset):
        return None
    del body.output[len(node.outputs) :]
    made = {name for each in body.node for name in each.output}
    for name in set(body.output) - made:  # the body omits outputs that this node does not use, yet declares them
        body.node.append(onnx.helper.make_node("Constant", [], [name], value_int=0))
    return body


def _raised(body: onnx.FunctionProto, opset: int) -> bool:
    """Raises a body from an older opset to ours, if none of its operators has changed since."""
    for entry in body.opset_import:
        if not entry.domain and entry.version != opset:
            used = {node.op_type for node in body.node if not node.domain}
            if any(_since(each, entry.version) != _since(each, opset) for each in used):
                return False
            entry.version = opset
    return True


def _since(op_type: str, opset: int) -> int:
    return onnx.defs.get_schema(op_type, opset, "").since_version


def _type(value: ir.Value | None) -> bytes | None:
    """The serialized type of an input; empty for an omitted one, None if the type is not known."""
    if value is None:
        return b""
    if value.dtype is None:
        return None
    kind = onnx.helper.make_tensor_type_proto(int(value.dtype), None if value.shape is None else _dims(value.shape))
    return kind.SerializeToString()


def _dims(shape: ir.Shape) -> list[int | str | None]:
    return [n if isinstance(n, int) else n.value for n in shape]
