"""An ONNX file in float16, int8 or int4, made by the tools that ONNX Runtime ships for it."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnxruntime import quantization
from onnxruntime.transformers.float16 import convert_float_to_float16

from xbench.converters.printable import one_line
from xbench.runtimes import Unavailable
from xbench.runtimes.support import wide as nodes
from xbench.runtimes.support.onnxruntime_int4 import compressed, compressed_nodes

READY, RANGES, KNOWN, TARGET, WEIGHTS = "ready.onnx", "ranges.json", "known.json", "model.onnx", "weights"
HALF = onnx.TensorProto.FLOAT16
MADE = (  # what ends the names that the tool gives to what it makes of a tensor
    *("_scale", "_zero_point", "_quantized", "_quantized_scale", "_quantized_zero_point", "_ReduceMin", "_ReduceMax"),
    *("_QuantizeLinear_Input", "_QuantizeLinear_Output", "_DequantizeLinear_Output"),
)


def narrowed(
    path: str,
    precision: str,
    inputs: Mapping[str, np.ndarray],
    folder: str,
    calibration: Sequence[Mapping[str, np.ndarray]] = (),
    wide: Collection[str] = (),
) -> str:
    """Writes the file in `folder`, and returns its path. Inputs and outputs stay float32, and so do the nodes that
    compute the tensors `wide`. If it was called for this folder before, ranges are not found again.

    In int8 weights and activations are quantised ahead (`QDQ`, per channel), with ranges as they are on the batches of
    `calibration`, else on `inputs`: the activations to unsigned bytes, the weights to seven bits. A CPU without VNNI
    adds two products in 16 bits, which weights of eight bits overflow: LeNet's output was off by 0.64 of its size.
    In int4 the weights of products alone are quantised (`onnxruntime_int4.py`).

    Raises:
        Unavailable: a node of `wide` stays in float32 anyway, or every node does.
    """
    target, ready = str(Path(folder) / TARGET), Path(folder) / READY
    make = {"fp16": _halved, "int8": _quantised, "int4": _compressed}[precision]
    first = not ready.exists()
    if first:
        _write_ready(path, precision, ready)
        make(ready, target, [], calibration or [inputs])
        ready.with_name(KNOWN).write_text(json.dumps(_narrow_tensors(ready, target)))
    nodes.check(wide, known(folder), precision)
    if wide or not first:
        make(ready, target, _names(ready, wide), calibration or [inputs])
    return target


def known(folder: str) -> list[str]:
    """The tensors that nodes of the file of `narrowed` can compute in the lower precision, in the order of the
    graph."""
    tensors: list[str] = json.loads((Path(folder) / KNOWN).read_text())
    return tensors


def _narrow_tensors(ready: Path, target: str) -> list[str]:
    """The tensors that nodes of a file compute in the lower precision."""
    made = _graph(Path(target))
    low = {*compressed_nodes(made)} or {each.name for each in _low_nodes(made)}
    return [node.output[0] for node in _graph(ready).node if node.name in low]


def _low_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes that compute in the lower precision: on what is dequantised, with weights that are; or in float16."""
    maker = {name: node.op_type for node in graph.node for name in node.output}
    constants = {each.name: each.data_type for each in graph.initializer}
    half = {each.name for each in graph.value_info if each.type.tensor_type.elem_type == HALF}

    def is_low(node: onnx.NodeProto) -> bool:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear", "Cast"):
            return False
        given = [name for name in node.input if name]
        if any(name in half or constants.get(name) == HALF for name in (*given, *node.output)):
            return True
        quantised = [maker.get(name) == "DequantizeLinear" for name in given]
        plain = any(constants.get(name) == onnx.TensorProto.FLOAT for name in given[:2])  # a weight in float32
        return any(quantised) and not plain

    return [node for node in graph.node if is_low(node)]


def _write_ready(path: str, precision: str, ready: Path) -> None:
    """Writes the file as the tools take it: for integers constants are folded, and every node has a name of its own."""
    if precision != "fp16":
        quantization.quant_pre_process(path, str(ready), skip_symbolic_shape=True)
        model = onnx.load(str(ready))
    else:
        model = onnx.load(path)
    if precision == "int8":
        _free_names(model.graph)
        _flatten_biases(model.graph)
    taken = {node.name for node in model.graph.node}
    for number, node in enumerate(model.graph.node):
        if not node.name:
            node.name = next(name for name in (f"node_{number}{'_' * n}" for n in range(9)) if name not in taken)
            taken.add(node.name)
    onnx.save(model, str(ready), save_as_external_data=True, location=f"{ready.name}.weights")


def _free_names(graph: onnx.GraphProto) -> None:
    """Gives weights other names that have names which the tool gives to what it makes of another tensor: it would take
    one for the other.

    Raises:
        Unavailable: another tensor has one, or a graph within this one may read the weights.
    """
    weights = {each.name: each for each in graph.initializer}
    names = {name for node in graph.node for name in (*node.input, *node.output)} | set(weights)
    clashes = [n for n in names for end in MADE if n.endswith(end) and n.removesuffix(end) in names]
    has_graphs = any(each.type == onnx.AttributeProto.GRAPH for node in graph.node for each in node.attribute)
    if others := sorted(set(clashes) - set(() if has_graphs else weights)):
        raise Unavailable(f"onnxruntime in int8: its tool needs the name {one_line(others[0])} for a tensor of its own")
    new = {name: f"{name}_{place}_of_network" for place, name in enumerate(sorted(clashes))}
    for each in graph.initializer:
        each.name = new.get(each.name, each.name)
    for node in graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]


def _flatten_biases(graph: onnx.GraphProto) -> None:
    """Makes the bias of a Gemm of shape (1, n) one of shape (n), which is the same, and all that the tool knows. Its
    own preparation makes such biases of a product and a sum."""
    weights = {each.name: each for each in graph.initializer}
    taken = {name for node in graph.node for name in (*node.input, *node.output)} | set(weights)
    for node in graph.node:
        bias = weights.get(node.input[2]) if node.op_type == "Gemm" and len(node.input) > 2 else None
        if bias is None or len(bias.dims) != 2 or bias.dims[0] != 1:
            continue
        name = f"{bias.name}_flat"
        while name in taken:
            name += "_"
        taken.add(name)
        graph.initializer.append(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias)[0], name))
        node.input[2] = name


def _graph(path: Path) -> onnx.GraphProto:
    return onnx.load(str(path), load_external_data=False).graph


def _names(ready: Path, tensors: Collection[str]) -> list[str]:
    return [node.name for node in _graph(ready).node if node.output[0] in tensors]


def _halved(ready: Path, target: str, wide: list[str], _: object) -> None:
    model = convert_float_to_float16(onnx.load(str(ready)), keep_io_types=True, node_block_list=wide or None)
    _join(model.graph)
    _save(model, target)


def _compressed(ready: Path, target: str, wide: list[str], _: object) -> None:
    _save(compressed(ready, wide), target)


def _save(model: onnx.ModelProto, target: str) -> None:
    Path(target).with_name(WEIGHTS).unlink(missing_ok=True)  # ONNX takes no file that exists
    onnx.save(model, target, save_as_external_data=True, location=WEIGHTS)


def _join(graph: onnx.GraphProto) -> None:
    """Lets nodes in float32 read what nodes in float32 give: the tool casts it to float16 and back. It also casts a
    tensor once for every node in float32 that reads it, to the same name."""
    makers = {name: node for node in reversed(graph.node) for name in node.output}
    kept = [node for node in graph.node if not node.output or makers[node.output[0]] is node]
    casts = [node for node in kept if node.op_type == "Cast"]
    down = {node.output[0]: node.input[0] for node in casts if node.attribute[0].i == HALF}
    for node in casts:
        if node.output[0] not in down:
            node.input[0] = down.get(node.input[0], node.input[0])
    del graph.node[:]
    graph.node.extend(kept)


def _quantised(ready: Path, target: str, wide: list[str], batches: Sequence[Mapping[str, np.ndarray]]) -> None:
    quantization.quantize_static(
        str(ready),
        target,
        _Batches(batches),
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        reduce_range=True,
        nodes_to_exclude=wide,
        calibration_cache_path=ready.with_name(RANGES),
    )


class _Batches(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Batches for calibration, once."""

    def __init__(self, batches: Sequence[Mapping[str, np.ndarray]]) -> None:
        self.batches = iter([dict(each) for each in batches])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.batches, None)
