"""Infers the sizes of all values in an ONNX file for a batch, as far as possible without running it."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import onnx
import onnx.shape_inference
import onnx_ir as ir
from onnx_ir.passes import common

from xbench.converters import PARAMETERS
from xbench.converters.frontends.folding import fold
from xbench.converters.frontends.onnx_file import InvalidModel, attach, without_weights
from xbench.converters.frontends.tensors import check_shapes
from xbench.converters.passes import outline


def free_batch(proto: Any) -> list[Any]:
    """The axes that are the batch: the first of every input if it is dynamic, and others of the same name."""
    stored = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value.type.tensor_type.shape.dim for value in proto.graph.input if value.name not in stored]
    names = {axes[0].dim_param for axes in inputs if len(axes)} - {""}
    free = [(at, axis) for axes in inputs for at, axis in enumerate(axes) if not axis.HasField("dim_value")]
    return [axis for at, axis in free if not at or axis.dim_param in names]


def sized(proto: Any, folder: Path, batch: int, infer: bool) -> Any:
    """The model for a batch, its functions inlined, its shapes inferred as far as they can be, its constants
    initializers; its weights are not read.

    Raises:
        InvalidModel: it passes the checks but is still invalid.
        MemoryError: it does not fit.
    """
    try:
        return _sized(proto, folder, batch, infer)
    except (InvalidModel, MemoryError):
        raise
    except Exception as error:  # onnx, onnx_ir and protobuf raise many kinds
        raise InvalidModel(error) from error


def _sized(proto: Any, folder: Path, batch: int, infer: bool) -> Any:
    bare, weights = without_weights(proto)
    free = free_batch(bare)
    names = {axis.dim_param for axis in free} - {""}
    for value in (*bare.graph.output, *bare.graph.value_info):
        free += [axis for axis in value.type.tensor_type.shape.dim if axis.dim_param in names]
    for axis in free:
        axis.dim_value = batch
    if bare.functions:
        bare = ir.to_proto(common.InlinePass()(ir.from_proto(bare)).model)
    model = ir.from_proto(_inferred(bare) if infer else bare)
    sizes = (outline.dims(value) for node in model.graph for value in node.outputs)
    if infer and not all(each is not None and all(isinstance(n, int) for n in each) for each in sizes):
        model = ir.from_proto(_inferred(ir.to_proto(_with_computed_shapes(model)), trusted=True))
    attach(model, weights, [tensor.name for tensor in proto.graph.initializer], folder)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    if PARAMETERS in model.metadata_props:  # a model that we exported lists them
        model.graph.meta[PARAMETERS] = json.loads(model.metadata_props[PARAMETERS])
    return model


def _with_computed_shapes(model: Any) -> Any:
    """The model with the shapes that follow from computing its shape arithmetic, which old exporters write."""
    if not importlib.util.find_spec("onnxscript"):  # comes with PyTorch's extra
        return model
    folded = model.clone()
    try:
        fold(folded)
    except InvalidModel:
        return model
    known = {value.name: value for node in folded.graph for value in node.outputs if value.shape is not None}
    for value in (value for node in model.graph for value in node.outputs if value.name in known):
        value.shape, value.type = known[value.name].shape, known[value.name].type or value.type
    return model


def _inferred(bare: Any, trusted: bool = False) -> Any:
    """The graph with the shapes that ONNX infers; declared shapes of results are ignored, unless they are `trusted` or
    inference fails without them: a file may have been written for another batch."""
    silent = onnx.ModelProto()
    silent.CopyFrom(bare)
    del silent.graph.value_info[:]
    for proto in (bare,) if trusted else (silent, bare):
        try:
            inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True)
            check_shapes(inferred.graph)
            return inferred
        except Exception:  # C++ code raises many kinds
            continue
    return bare
