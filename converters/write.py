"""Writes a converted model's folder (`xbench.converters.artifact`): the graphs, their texts, the weights, the facts."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from xbench.converters import PARAMETERS, UNUSED
from xbench.converters.artifact import GIVEN, INDEX, PARTS, TEXTS, TRAINING, WEIGHTS, text_digest, write_weights
from xbench.converters.autodiff.gradient import NoGradient
from xbench.converters.autodiff.train_step import is_statistics, select, train_step
from xbench.converters.codegen.program import convert, count_operators
from xbench.converters.passes import macs
from xbench.converters.passes.fusion import fuse
from xbench.converters.passes.layout import channels_last
from xbench.host.memory import uncollected

KEPT = ("Cast", "CastLike", "Constant", "Identity")  # operators that do not compute
NARROW = {ir.DataType.BFLOAT16: "bf16", ir.DataType.FLOAT16: "fp16"}
HALVES = {ir.DataType.BFLOAT16: "bfloat16", ir.DataType.FLOAT16: "float16"}  # of outputs, by NumPy's names
EXTERNAL = 2**30  # bytes of weights from which they are external data: protobuf ends at 2 GB
INSIDE = 1000  # bytes up to which an initializer still stays in the graph, if the text does not read it


@uncollected()
def write(folder: Path, model: ir.Model, facts: dict[str, Any]) -> None:
    trainable = json.loads(model.metadata_props.get(PARAMETERS, "[]"))
    fused = fuse(model, trainable)
    program = convert(fused, trainable)
    (folder / TEXTS["nchw"]).write_text(program.source)
    other = convert(channels_last(fused), trainable)
    if other.source != program.source:
        (folder / TEXTS["nhwc"]).write_text(other.source)
    arrays = {"params": program.params, "state": program.state}
    if weight_bytes(model) > EXTERNAL:
        _place_outside(model, folder, arrays)
    else:
        write_weights(folder, arrays)
        _bring_inside(model)
    ir.save(model, folder / "model.onnx")
    ir.save(inference(model), folder / "inference.onnx")
    narrow = narrowest(model)
    stored = any(model.graph.initializers[name].dtype in NARROW for name in trainable)
    untraced = facts.get("untraced") or ("its floats are of 16 bits" if narrow or stored else None)
    untrainable = untraced or _write_training(folder, model, trainable, facts)
    sizes = {name: int(array.size) for name, array in program.params.items()}
    info = {
        **facts,
        "outputs": list(program.outputs),
        "output_shapes": [_sizes(value) for value in model.graph.outputs],
        "operators": count_operators(model),
        "program_operators": program.operators,
        "parameters": list(program.params),
        "statistics": [str(v.name) for n in model.graph if is_statistics(n) for v in n.inputs[3:5] if v is not None],
        "parameter_count": sum(sizes.values()),
        "macs": macs.count(model),
        "dead_nodes": _dead_nodes(model),
        "unused": json.loads(model.metadata_props.get(UNUSED, "{}")),
        "narrow": narrow,
        "halves": {str(v.name): HALVES[v.dtype] for v in model.graph.outputs if v.dtype in HALVES},
        "untraced": untraced,
        "looked_up": _looked_up(model, trainable),
        "untrainable": untrainable,
        "texts": {path.name: text_digest(path.read_bytes()) for path in sorted(folder.glob("program*.py"))},
        "digest": _content(folder, facts["inputs"]),
    }
    (folder / "model.json").write_text(json.dumps(info, indent=1))


def _sizes(value: ir.Value) -> list[int | None] | None:
    """The sizes of the axes of an output, None for one that is not fixed; None if their number is not known."""
    return None if value.shape is None else [axis if isinstance(axis, int) else None for axis in value.shape]


def _write_training(folder: Path, model: ir.Model, trainable: list[str], facts: dict[str, Any]) -> str | None:
    """Writes the training step of a model that has a loss; returns why it has none for runtimes without autodiff."""
    if not facts["loss"] or not trainable:
        return "nothing to train"
    try:
        step = train_step(model, trainable, facts)
    except (NoGradient, NotImplementedError, ValueError) as error:
        return str(error)
    ir.save(step, folder / TRAINING)
    for mode, file in PARTS.items():
        ir.save(select(step, mode), folder / file)
    return None


def _bring_inside(model: ir.Model) -> None:
    """Stores the weights in the graph: the external data of the user's file is not next to ours."""
    for value in model.graph.initializers.values():
        if isinstance(tensor := value.const_value, ir.ExternalTensor):
            value.const_value = ir.Tensor(tensor.numpy(), tensor.dtype, shape=tensor.shape, name=tensor.name)


def _place_outside(model: ir.Model, folder: Path, arrays: dict[str, dict[str, np.ndarray]]) -> None:
    """Writes the weights once, for the text and the graphs, which then refer to their places in that file."""
    known = {name: array.nbytes for group in arrays.values() for name, array in group.items()}
    tensors = {name: v.const_value for name, v in model.graph.initializers.items() if v.const_value is not None}
    large = {str(name): a.numpy() for name, a in tensors.items() if name not in known and a.nbytes > INSIDE}
    offsets = write_weights(folder, arrays | {"graph": large})
    for name, tensor in tensors.items():
        if name in offsets and tensor.nbytes == known.get(name, tensor.nbytes):  # ONNX packs types below a byte
            model.graph.initializers[name].const_value = ir.ExternalTensor(
                WEIGHTS,
                offsets[name],
                tensor.nbytes,
                tensor.dtype,
                shape=ir.Shape(tensor.shape.numpy()),
                name=name,
                base_dir=folder.absolute(),
            )


def narrowest(model: ir.Model) -> str | None:
    """The 16-bit type that a model computes in, the coarser one of two; None if it only stores weights in it or rounds
    to it."""
    nodes = ir.traversal.RecursiveGraphIterator(model.graph)
    types = {value.dtype for node in nodes if node.op_type not in KEPT for value in node.outputs}
    return next((word for type_, word in NARROW.items() if type_ in types), None)


def _looked_up(model: ir.Model, trainable: list[str]) -> list[str]:
    """The parameters of which only rows are read, by Gather."""
    given = ((name, model.graph.initializers[name]) for name in trainable if name in model.graph.initializers)
    used = {name: [(node.op_type, index) for node, index in value.uses()] for name, value in given}
    return [name for name, uses in used.items() if uses and all(use == ("Gather", 0) for use in uses)]


def _dead_nodes(model: ir.Model) -> int:
    """Nodes that no output depends on."""
    alive = model.clone()
    common.RemoveUnusedNodesPass()(alive)
    return len(model.graph) - len(alive.graph)


def weight_bytes(model: ir.Model) -> int:
    """Bytes of all initializers."""
    arrays = (value.const_value for value in model.graph.initializers.values())
    return sum(array.nbytes for array in arrays if array is not None)


def _content(folder: Path, inputs: list[dict[str, Any]]) -> str:
    """A digest of the texts, the weights, the user's file and how inputs are drawn: a parity proof is tied to it."""
    drawn = [{name: value for name, value in each.items() if name != "why"} for each in inputs]
    total = hashlib.sha256(json.dumps(drawn, sort_keys=True).encode())
    brought = sorted(each for each in (folder / GIVEN).rglob("*") if each.is_file())
    for path in (*(folder / name for name in (*TEXTS.values(), TRAINING, INDEX, WEIGHTS)), *brought):
        if not path.exists():  # a model without images has one text
            continue
        with path.open("rb") as file:
            while data := file.read(1 << 20):
                total.update(data)
    return total.hexdigest()[:16]


def inference(model: ir.Model) -> ir.Model:
    """The graph without Dropout, which does nothing in evaluation; an output keeps its name through Identity."""
    inference = model.clone()
    for node in list(inference.graph):
        if node.op_type == "Dropout" and node.inputs[0] is not None:
            value, output = node.inputs[0], node.outputs[0]
            if output.is_graph_output():
                kept = ir.node("Identity", [value])
                inference.graph.insert_before(node, kept)
                value = kept.outputs[0]
                value.name, value.type, value.shape = output.name, output.type, output.shape
            ir.convenience.replace_all_uses_with(output, value, replace_graph_outputs=True)
            inference.graph.remove(node, safe=True)
    common.RemoveUnusedNodesPass()(inference)
    return inference
