"""Reads an untrusted ONNX file and normalises it.

The order is the defence. Sizes and locations are checked before a byte is read, the protobuf before ONNX's C++ code
sees it (`validity.py`), and that code sees the graph without its weights: it copies its input several times and takes
no more than 2 GB. Weights outside the file are mapped into memory only when they are read.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import onnx
import onnx.external_data_helper
import onnx.version_converter
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx_ir.passes import common

from xbench.converters import files
from xbench.converters.frontends import low_bits, validity
from xbench.converters.frontends.tensors import (
    InvalidModel,
    NoOracle,
    check_external,
    check_shapes,
    data_size,
    is_external,
    plain,
)

OPSET = 20
OLDEST = 7  # opset that runtimes promise to read
MAX_FILE = 2**31 - 1  # protobuf's own limit; larger weights are external data
SMALL = 1000  # bytes; smaller tensors may be shapes, whose values ONNX's shape inference reads
MAX_LOADED = 2**28  # bytes of external data outside the main graph's initializers, loaded at once


def read(path: Path, foreign: bool = False) -> onnx.ModelProto:
    """A model that is safe to work with; its large external weights are still outside.

    With `foreign` it may have unknown operators: ONNX's own checker is not run on such a model.

    Raises:
        InvalidModel: not an ONNX file, truncated, invalid, not known to this version of onnx, or hostile.
        OSError: it cannot be read.
        MemoryError: its content does not fit.
    """
    try:
        model = _parsed(path)
        validity.check(model, foreign)
        _settle_external(model, path.parent)
        if not foreign or not validity.unknown(model):
            onnx.checker.check_model(without_weights(model)[0])
    except (InvalidModel, OSError, MemoryError):
        raise
    except Exception as error:  # onnx and protobuf raise many kinds of errors for a broken file
        raise InvalidModel(error) from error
    return model


def stored(model: onnx.ModelProto) -> int:
    """The bytes of a checked model's tensors, in the file and outside."""
    return sum(map(data_size, (*model.graph.initializer, *validity.tensors(model))))


def besides(model: onnx.ModelProto) -> int:
    """The bytes of a checked model's file that are not tensors."""
    tensors = (*model.graph.initializer, *validity.tensors(model))
    return max(0, model.ByteSize() - sum(data_size(each) for each in tensors if not is_external(each)))


def _parsed(path: Path) -> onnx.ModelProto:
    with files.opened(path) as file:
        about = os.fstat(file.fileno())
        if not 0 < about.st_size <= MAX_FILE:
            raise InvalidModel(f"it has {about.st_size} bytes; 1 to {MAX_FILE}, and weights beyond in external data")
        data = file.read(about.st_size)
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        if "alloc" in str(error):  # protobuf's message when memory is exhausted
            raise MemoryError(f"{len(data)} bytes of protobuf do not fit") from error
        raise InvalidModel(f"it is truncated, or no protobuf of ONNX's: {plain(error)}") from error
    del model.training_info[:]  # separate graphs, which are not run here
    _free_axes(model.graph)
    return model


def _free_axes(graph: onnx.GraphProto) -> None:
    """Makes axes of size -1 dynamic, as PaddlePaddle's exporter writes them and ONNX Runtime reads them."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_value == -1:
                axis.Clear()


def _settle_external(model: onnx.ModelProto, folder: Path) -> None:
    """Checks every external location, then loads what is small or not an initializer of the main graph."""
    inner = [tensor for tensor in validity.tensors(model) if is_external(tensor)]
    weights = [tensor for tensor in model.graph.initializer if is_external(tensor)]
    for tensor in (*inner, *weights):
        check_external(tensor, folder)
    if sum(map(data_size, inner)) > MAX_LOADED:
        raise InvalidModel("it keeps more than 256 MiB of constants outside that are no initializers")
    for tensor in (*inner, *(each for each in weights if data_size(each) <= SMALL)):
        if not data_size(tensor):  # nothing to read; the named file may have any length
            del tensor.external_data[:]
            tensor.data_location = onnx.TensorProto.DEFAULT
        else:
            if not any(entry.key == "length" for entry in tensor.external_data):
                tensor.external_data.add(key="length", value=str(data_size(tensor)))
            onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]


def without_weights(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[onnx.TensorProto]]:
    """A copy with inputs instead of its larger initializers, and those initializers, not copied."""
    weights = [t for t in model.graph.initializer if is_external(t) or data_size(t) > SMALL]
    names = {tensor.name for tensor in weights}
    graph = onnx.GraphProto(name=model.graph.name or "graph", doc_string=model.graph.doc_string)
    for field in ("node", "output", "value_info", "quantization_annotation", "metadata_props"):
        getattr(graph, field).extend(getattr(model.graph, field))
    graph.input.extend(value for value in model.graph.input if value.name not in names)
    graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name not in names)
    for tensor in weights:
        graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    copy = onnx.ModelProto(ir_version=model.ir_version, graph=graph)
    copy.opset_import.extend(model.opset_import)
    copy.functions.extend(model.functions)
    copy.metadata_props.extend(model.metadata_props)
    return copy, weights


def canonical(proto: onnx.ModelProto, folder: Path | None = None) -> ir.Model:
    """The model at our opset or a later one, its own functions inlined, its shapes inferred.

    `folder` has its external weights; they are not read.

    Raises:
        InvalidModel: it passes the checks but cannot be converted to this form.
        MemoryError: it does not fit.
    """
    try:
        bare, weights = without_weights(proto)
        if bare.functions:  # before the version is converted, which does not support functions
            bare = ir.to_proto(common.InlinePass()(ir.from_proto(bare)).model)
        opset = next((each.version for each in bare.opset_import if each.domain in ("", "ai.onnx")), 0)
        if opset < 9 and any(node.op_type == "Scan" for node in bare.graph.node):
            raise InvalidModel("it has a Scan of opset 8, whose batch axis ONNX's version converter leaves in place")
        if opset < OPSET:
            bare = _converted(bare, opset)
        bare = onnx.shape_inference.infer_shapes(bare, data_prop=True)
        check_shapes(bare.graph)
        model = ir.from_proto(bare)
        attach(model, weights, [tensor.name for tensor in proto.graph.initializer], folder)
        low_bits.widen(model)
    except (InvalidModel, MemoryError):
        raise
    except Exception as error:  # C++ code raises many kinds for a well-formed model without meaning
        raise InvalidModel(error) from error
    return model


def _converted(bare: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model at our opset.

    Raises:
        NoOracle: it is older than what runtimes promise to read, and ONNX's converter fails.
    """
    try:
        return onnx.version_converter.convert_version(bare, OPSET)
    except Exception as error:
        if opset >= OLDEST:
            raise
        raise NoOracle(f"its opset is {opset}; before {OLDEST} ONNX converts few files: {plain(error)}") from error


def attach(model: ir.Model, weights: Iterable[onnx.TensorProto], order: Iterable[str], folder: Path | None) -> None:
    """Replaces those inputs with the weights again, with all initializers in the order of the file."""
    inputs = {value.name: value for value in model.graph.inputs}
    stored = dict(model.graph.initializers)
    for tensor in weights:
        value = inputs[tensor.name]
        value.const_value = ir.serde.deserialize_tensor(tensor)
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value.base_dir = (folder or Path()).absolute()
        model.graph.inputs.remove(value)
        stored[tensor.name] = value
    model.graph.initializers.clear()
    for name in dict.fromkeys((*order, *stored)):  # version conversion adds some and may drop some
        if name in stored:
            model.graph.register_initializer(stored[name])
