"""Makes converted models: export, print, count, write the folder atomically. Runs in a worker, with PyTorch."""

import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from xbench import models
from xbench.converters import PARAMETERS, cache
from xbench.converters.artifact import GIVEN
from xbench.converters.frontends.axes import fix_axes, inputs_of
from xbench.converters.frontends.onnx_file import InvalidModel, besides, canonical, is_external, plain, read, stored
from xbench.converters.frontends.validity import all_nodes
from xbench.converters.inputs import settled
from xbench.converters.ops.info import info
from xbench.converters.source import BATCH, Source, sized
from xbench.converters.write import weight_bytes, write
from xbench.errors import XBenchError
from xbench.host.memory import at_most, uncollected

OWN = models.Input("labels", (BATCH,))  # which a loss of the module's own does not read


def export_zoo(
    name: str,
    seed: int,
    folder: Path,
    optimizer: models.Optimizer | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> None:
    """Exports a reference network into an empty folder, to be trained by its own update rule or by another.

    Raises:
        XBenchError: a range for something that is not an input, or the exporter fails.
    """
    from xbench.converters.frontends.pytorch import export
    from xbench.converters.frontends.torch_errors import explained

    spec = models.find(name)
    ranged = {each.name: each for each in with_ranges(name, ranges or {}, spec.inputs)}
    network = models.build(spec, seed)
    inputs, _ = models.sample(spec, 2, seed)
    try:
        model = export(network, inputs)
    except MemoryError:  # says nothing of the network
        raise
    except Exception as raised:
        raise XBenchError(f"{name} cannot be exported: {explained(raised)}") from raised
    given = [models.plain(each) for each in ranged.values()]
    rule = asdict(optimizer or spec.optimizer)
    labels = None if spec.labels is None else models.plain(ranged.get(spec.labels.name, spec.labels))
    facts = {"labels": labels, "loss": spec.loss and asdict(spec.loss), "optimizer": rule}
    write(folder, model, {"name": name, "origin": "zoo", "seed": seed, "inputs": given, **facts})


def export_module(source: Source, folder: Path) -> None:
    """Exports what a user's factory makes.

    Raises:
        XBenchError: the factory cannot be imported or called, or makes no module; or weights are of another one.
    """
    from xbench.converters.frontends.torch_call import BadCall, flat

    made = {"factory": source.place, "weights": source.weights}
    network = models.make(**made)
    inputs = source.inputs or sized(source.place, models.usual_inputs(network), source.shapes, auto=True)
    source = dataclasses.replace(source, inputs=inputs)
    try:
        network = flat(
            network, [each.name for each in source.inputs], models.function(source.loss) if source.loss else None
        )
    except BadCall as error:
        raise XBenchError(f"{source.place}: {plain(error)}") from error
    model, untraced = _traced(source, network)
    given, trained = drawing(source, model, source.inputs), training_of(source, model)
    trained |= {"labels": None, "loss": None} if untraced else {}
    facts = {
        "name": source.word,
        "origin": "module",
        "made": made,
        "loss_function": source.loss,
        "seed": 0,
        "untraced": untraced,
        **trained,
    }
    write(folder, model, facts | {"inputs": given})


def _traced(source: Source, network: Any) -> tuple[ir.Model, str | None]:
    """The graph in training form; if that cannot be traced, as with layers that are skipped at random, the evaluation
    form, and why.

    Raises:
        XBenchError: neither can be.
    """
    from xbench.converters.frontends.pytorch import export
    from xbench.converters.frontends.torch_call import BadCall
    from xbench.converters.frontends.torch_errors import explained
    from xbench.converters.frontends.torch_trial import only_evaluated

    example = {i.name: np.zeros(models.resolve(i.shape, 2), i.dtype) for i in source.inputs}
    fixed = [each.name for each in source.inputs if BATCH not in each.shape]
    try:
        untraced = only_evaluated(network, example)
    except BadCall as error:
        raise XBenchError(f"{source.place} {plain(error)}") from error
    try:
        return export(network, example, fixed, training=not untraced), untraced
    except Exception as raised:  # the tracer raises whatever the user's code and its own hundred passes raise
        untraced = untraced or explained(raised)
    try:
        return export(network, example, fixed, training=False), untraced
    except Exception as raised:
        raise XBenchError(f"{source.place} cannot be exported: {explained(raised)}") from raised


def training_of(source: Source, model: ir.Model) -> dict[str, Any]:
    """How a model that does not specify its training is trained: by the mean cross entropy over the last axis of its
    first output, if that has two or three axes, as logits have. A module otherwise: by its first output, if that is one
    number, else by the mean squared error. A file has then no loss."""
    first = model.graph.outputs[0]
    sizes = [n if isinstance(n, int) else BATCH if axis == 0 else None for axis, n in enumerate(first.shape or ())]
    shape = tuple(size for size in sizes if size is not None)
    loss = labels = None
    if first.dtype == ir.DataType.FLOAT and first.shape is not None and None not in sizes:
        if len(shape) in (2, 3) and isinstance(shape[-1], int) and shape[-1] > 1:
            loss, labels = "cross_entropy", models.Input("labels", shape[:-1], "int64", 0, shape[-1])
        elif source.kind == "module":
            loss, labels = ("mean_squared_error", models.Input("labels", shape)) if shape else ("own_loss", OWN)
    return {
        "labels": labels and models.plain(labels),
        "loss": loss and asdict(models.Loss(loss)),
        "optimizer": asdict(source.optimizer or models.Optimizer()),
    }


@uncollected()
def export_file(source: Source, path: Path, folder: Path) -> None:
    """Reads an ONNX file, checks it, brings it to our opset and writes it as an artifact.

    Raises:
        XBenchError: not an ONNX file, truncated, invalid, or with unknown shapes.
    """
    try:
        with at_most(0, path.stat().st_size):
            proto = read(path)
        facts = _brought(proto, path, folder) if source.kind == "onnx" else {}
        fix_axes(proto, source)
        rest = besides(proto)
        with at_most(stored(proto), rest):
            model = canonical(proto, path.parent)
            del proto
            from xbench.converters.frontends.pytorch import (
                clean,  # which imports PyTorch: not needed to report a broken file
            )

            model = clean(model)
    except OSError as error:
        raise XBenchError(f"cannot read {plain(source.place)}: {error.strerror or plain(error)}") from error
    except InvalidModel as error:
        raise XBenchError(f"{plain(source.place)} {error.what}: {error}") from error
    with at_most(weight_bytes(model), rest):
        _write_file(folder, source, model, facts)


def _brought(proto: onnx.ModelProto, path: Path, folder: Path) -> dict[str, Any]:
    """Keeps a file unchanged, with its external data, for runtimes that read it themselves.

    Not a file whose Dropout is active: its results are random, and only the graph without it can be compared.
    """
    if _drops(proto.graph):
        return {}
    for each in (path, *cache.external(path)):
        target = folder / GIVEN / each.relative_to(path.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(each, target)
    names = [tensor.name for tensor in proto.graph.initializer]
    return {"given": f"{GIVEN}/{path.name}", "initializers": names, "open_axes": _has_open_axes(proto.graph)}


def _has_open_axes(graph: onnx.GraphProto) -> bool:
    """Whether some input has an axis of any size."""
    shapes = [each.type.tensor_type.shape.dim for each in graph.input]
    return any(not axis.HasField("dim_value") for shape in shapes for axis in shape)


def _drops(graph: onnx.GraphProto) -> bool:
    """Whether some Dropout of a file is in training mode, or may be."""
    nodes = list(all_nodes(graph.node))
    modes = {node.input[2] for node in nodes if node.op_type == "Dropout" and len(node.input) > 2} - {""}
    known = {tensor.name: tensor for tensor in graph.initializer}
    known |= {o: a.t for n in nodes if n.op_type == "Constant" for o in n.output for a in n.attribute}
    return not all(name in known and _is_false(known[name]) for name in modes)


def _is_false(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor is False. An external one is not read."""
    readable = tensor.data_type == onnx.TensorProto.BOOL and not is_external(tensor)
    return readable and not onnx.numpy_helper.to_array(tensor).any()


def _write_file(folder: Path, source: Source, model: ir.Model, brought: dict[str, Any]) -> None:
    graph = model.graph
    given = drawing(source, model, inputs_of(source, [v for v in graph.inputs if v.name not in graph.initializers]))
    model.metadata_props[PARAMETERS] = json.dumps(trainable(graph))
    facts = {"name": source.word, "origin": "onnx", "seed": 0, "inputs": given, **training_of(source, model)}
    write(folder, model, facts | brought)


def trainable(graph: ir.Graph) -> list[str]:
    """The parameters of a file, which does not mark them: arrays of float32, or of 16 bits, except running statistics
    and inputs that decide a shape."""
    statistics = {v.name for n in graph if n.op_type == "BatchNormalization" for v in n.inputs[3:] if v is not None}
    # The scales of a Resize are floats that decide a shape.
    fixed = {value.name for node in graph.all_nodes() for value in _static(node)}
    return [
        str(name)
        for name, value in graph.initializers.items()
        if (array := value.const_value) is not None
        and array.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
        and array.size > 1
        and name not in statistics | fixed
    ]


def _static(node: ir.Node) -> list[ir.Value]:
    """The inputs of a node that must be known when it is compiled."""
    given = (node.inputs[i] for i in info(node.op_type).static if i < len(node.inputs))
    return [value for value in given if value is not None]


def drawing(source: Source, model: ir.Model, inputs: Sequence[models.Input]) -> list[dict[str, Any]]:
    """How the inputs of a graph are drawn, as JSON data: as the graph needs them, or as `--range` says.

    Raises:
        XBenchError: a range for something that is not an input.
    """
    return [models.plain(each) for each in with_ranges(source.place, source.ranges, settled(model, inputs))]


def with_ranges(
    place: str, ranges: Mapping[str, tuple[float, float]], inputs: Sequence[models.Input]
) -> list[models.Input]:
    """The inputs, with the ranges of `--range`.

    Raises:
        XBenchError: there is no input of a name, or its type cannot hold the range.
    """
    names = [each.name for each in inputs]
    for name, (low, high) in ranges.items():
        option = f"{place}: --range {name}={low:g}:{high:g}"
        if name not in names:
            raise XBenchError(f"{option}: there is no input of this name; there are {', '.join(names)}")
        kind = np.dtype(inputs[names.index(name)].dtype)
        ends = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max) if kind.kind in "iu" else None
        if ends and not ends[0] <= low <= high - 1 <= ends[1]:
            raise XBenchError(f"{option}: {kind.name} holds whole numbers from {ends[0]} to {ends[1]}")
    return [models.narrowed(each, *ranges[each.name]) if each.name in ranges else each for each in inputs]
