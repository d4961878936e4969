"""Makes converted models: export, print, count, and write the folder in one piece. Runs in a worker, with PyTorch."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from xbench import models
from xbench.bench import XBenchError
from xbench.converters import PARAMETERS, convert, macs
from xbench.converters.artifact import Artifact

OPSET = 20


def export_zoo(name: str, seed: int, folder: Path) -> None:
    """Exports a reference network into an empty folder."""
    from xbench.converters.onnx import export

    spec = models.find(name)
    network = models.build(spec, seed)
    inputs, _ = models.sample(spec, 2, seed)
    model = export(network, inputs)
    given = [asdict(each) | {"shape": list(each.shape)} for each in spec.inputs]
    facts = {"classes": spec.classes, "labels": list(spec.labels), "optimizer": asdict(spec.optimizer)}
    _write(folder, model, {"name": name, "origin": "zoo", "seed": seed, "inputs": given, **facts})


def export_file(path: str, folder: Path) -> None:
    """Reads an ONNX file, checks it, brings it to our opset and writes it as an artifact. It has no loss to train with.

    Raises:
        XBenchError: not an ONNX file, truncated, invalid, or with shapes that are not known.
    """
    model = _canonical(Path(path))
    from xbench.converters.onnx import clean  # which imports PyTorch: a broken file is told without that

    model = clean(model)
    graph = model.graph
    given = [_input(path, model, value) for value in graph.inputs if value.name not in graph.initializers]
    statistics = {v.name for n in graph if n.op_type == "BatchNormalization" for v in n.inputs[3:] if v is not None}
    weights = [
        str(name)
        for name, value in graph.initializers.items()
        if (array := value.const_value) is not None
        and array.dtype == ir.DataType.FLOAT
        and array.size > 1
        and name not in statistics
    ]
    model.metadata_props[PARAMETERS] = json.dumps(weights)
    facts = {"classes": 0, "labels": ["batch"], "optimizer": asdict(models.Optimizer())}
    _write(folder, model, {"name": path, "origin": "onnx", "seed": 0, "inputs": given, **facts})


def _canonical(path: Path) -> ir.Model:
    import onnx
    from onnx_ir.passes.common import InlinePass

    try:
        proto = onnx.load(path)
        onnx.checker.check_model(proto)
        opset = next((each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")), 0)
        if not proto.graph.node:
            raise XBenchError(f"{path} is not an ONNX model: it has no nodes")
        if opset < OPSET:
            proto = onnx.version_converter.convert_version(proto, OPSET)
        model = ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    except XBenchError:
        raise
    except Exception as error:  # onnx and protobuf raise many kinds for what is always the same: a broken file
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise XBenchError(f"{path} is not a valid ONNX file: {reason[:200]}") from error
    InlinePass()(model)
    common.ShapeInferencePass()(model)
    return model


def _input(path: str, model: ir.Model, value: ir.Value) -> dict[str, Any]:
    """How an input is drawn: its first symbolic axis is the batch, integers stay inside the table they look up."""
    if value.shape is None or value.dtype is None:
        raise XBenchError(f"{path}: the shape of input {value.name} is not known")
    shape = [n if isinstance(n, int) else "batch" if axis == 0 else None for axis, n in enumerate(value.shape)]
    if None in shape:
        raise XBenchError(f"{path}: axis {shape.index(None)} of input {value.name} is dynamic; fix it in the file")
    dtype = value.dtype.numpy().name
    whole = np.issubdtype(dtype, np.integer)
    low, high = (0, _vocabulary(value)) if whole else (models.Input.low, models.Input.high)
    return {"name": value.name, "shape": shape, "dtype": dtype, "low": low, "high": high}


def _vocabulary(value: ir.Value) -> int:
    """The rows of the smallest table the integers index; 256, a byte, where they index none."""
    sizes = [256]
    for node, index in value.uses():
        table = node.inputs[0]
        if node.op_type == "Gather" and index == 1 and table is not None and table.shape is not None:
            rows = table.shape[node.attributes.get_int("axis", 0)]
            sizes = [*sizes[1:], rows] if isinstance(rows, int) else sizes
    return min(sizes)


def _write(folder: Path, model: ir.Model, facts: dict[str, Any]) -> None:
    trainable = json.loads(model.metadata_props.get(PARAMETERS, "[]"))
    program = convert(model, trainable)
    np.savez(folder / "params.npz", allow_pickle=False, **program.params)
    np.savez(folder / "state.npz", allow_pickle=False, **program.state)
    (folder / "program.py").write_text(program.source)
    ir.save(model, folder / "model.onnx")
    ir.save(_inference(model), folder / "inference.onnx")
    sizes = {name: int(array.size) for name, array in program.params.items()}
    info = {
        **facts,
        "outputs": list(program.outputs),
        "operators": program.operators,
        "parameters": list(program.params),
        "parameter_count": sum(sizes.values()),
        "macs": macs.count(model),
        "digest": _content(folder),
    }
    (folder / "model.json").write_text(json.dumps(info, indent=1))


def _content(folder: Path) -> str:
    """A digest of the text and the weights: what a parity proof is tied to."""
    total = hashlib.sha256()
    for name in ("program.py", "params.npz", "state.npz"):
        total.update((folder / name).read_bytes())
    return total.hexdigest()[:16]


def _inference(model: ir.Model) -> ir.Model:
    """The graph without Dropout, which does nothing in evaluation."""
    inference = model.clone()
    for node in list(inference.graph):
        if node.op_type == "Dropout" and node.inputs[0] is not None:
            ir.convenience.replace_all_uses_with(node.outputs[0], node.inputs[0], replace_graph_outputs=True)
            inference.graph.remove(node, safe=True)
    common.RemoveUnusedNodesPass()(inference)
    return inference


def export_prefix(artifact: Artifact, nodes: int | None, folder: Path) -> dict[str, Any]:
    """Cuts a model after its first `nodes` nodes (None: after the last) and makes every floating tensor an output.

    Returns the number of nodes and of outputs.
    """
    model = ir.load(artifact.onnx)
    graph = model.graph
    kept = list(graph)[:nodes]
    values = [
        value for node in kept for value in node.outputs if (value.name and value.uses()) or value in graph.outputs
    ]
    graph.outputs.clear()
    for node in reversed(list(graph)[len(kept) :]):
        graph.remove(node, safe=False)
    graph.outputs.extend(value for value in values if value.dtype in (None, ir.DataType.FLOAT))
    common.ShapeInferencePass()(model)
    facts = {**artifact.info, "origin": "onnx", "name": f"{artifact.name} (prefix)"}
    _write(folder, model, facts)
    return {"nodes": len(kept), "outputs": len(graph.outputs)}
