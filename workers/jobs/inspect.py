"""Jobs of a worker on an ONNX file that is not converted.

They import libraries that read graphs, when they are called, and no framework. `inspect_file` reads a file as it is, at
its own opset, its functions expanded, unknown operators included; `lower_file` brings it to the form in which
xbench gives it to runtimes, as `xbench convert` does except for the last clean-up, which PyTorch's worker does.
"""

import json
from pathlib import Path
from typing import Any

from xbench.errors import XBenchError
from xbench.host.memory import at_most, uncollected

INFERENCE, FACTS = "inference.onnx", "model.json"


@uncollected()
def inspect_file(word: str, file: str, batch: int | None, infer: bool = True) -> dict[str, Any]:
    """The facts of a file (docs/results.md, "What `xbench inspect --json` prints"); without `infer` sizes are known
    only if the file has them: ONNX's own code crashes the process on some files that pass every check.

    Raises:
        XBenchError: it cannot be read, is no valid ONNX file, or has no batch that could be `batch`.
    """
    from xbench.converters.frontends.axes import fix_axes
    from xbench.converters.passes import remarks
    from xbench.converters.passes.shapes import free_batch, sized
    from xbench.converters.source import parse

    source, path = parse(word), Path(file)
    with _clear(source.place), at_most(0, path.stat().st_size):
        proto = _read(path, foreign=True)
        facts = _header(proto, path) | {"unknown": _undefined(proto)}
        fix_axes(proto, source)
        facts["remarks"] = remarks.remarks(proto)
        free = free_batch(proto)
        if batch is not None and not free:
            raise XBenchError(f"--batch {batch}: the first axis of no input of {source.place} is dynamic")
        one = sized(proto, path.parent, 1, infer).graph
        many = sized(proto, path.parent, batch, infer).graph if batch not in (None, 1) else one
        return facts | {"batch": (batch or 1) if free else None} | _counts(one, many)


def _undefined(proto: Any) -> dict[str, int]:
    """The operators that neither ONNX, the file nor xbench defines, with their counts."""
    from xbench.converters.frontends import validity
    from xbench.converters.frontends.onnx_file import without_weights
    from xbench.converters.ops import contrib

    bare, _ = without_weights(proto)
    contrib.define(bare)
    return validity.unknown(bare)


def _counts(one: Any, many: Any) -> dict[str, Any]:
    """Counts in the graph for one sample, and memory in the graph for the batch."""
    from xbench.converters import PARAMETERS
    from xbench.converters.build import trainable
    from xbench.converters.passes import outline

    given = one.meta.get(PARAMETERS)
    named = [name for name in (trainable(one) if given is None else given) if name in one.initializers]
    rows, (most, at) = outline.layers(one, named), outline.live(many)
    stored, total = outline.stored(one), outline.total(row["macs"] for row in rows)
    memory = {"weight_bytes": stored["bytes"], "live_bytes": most, "at": at}
    shown = outline.layers(many, named)
    return {
        "nodes": sum(1 for _ in one.all_nodes()),
        "operators": _operators(one),
        "parameters": outline.stored(one, named),
        "stored": stored,
        "macs": total,
        "flop": None if total is None else 2 * total,
        "memory": memory | {"bytes": outline.total((stored["bytes"], most))},
        "layers": [row | {"macs": own["macs"]} for row, own in zip(shown, rows, strict=True)],
    }


def _read(path: Path, foreign: bool = False) -> Any:
    from xbench.converters.frontends.onnx_file import read

    return read(path, foreign)


def _clear(place: str) -> Any:
    """Turns errors of reading into one line."""
    import contextlib

    from xbench.converters.frontends.onnx_file import InvalidModel, plain

    @contextlib.contextmanager
    def clear() -> Any:
        try:
            yield
        except OSError as error:
            raise XBenchError(f"cannot read {plain(place)}: {error.strerror or plain(error)}") from error
        except InvalidModel as error:
            raise XBenchError(f"{plain(place)} {error.what}: {error}") from error

    return clear()


def _header(proto: Any, path: Path) -> dict[str, Any]:
    """The header of the file."""
    from xbench.converters.frontends.onnx_file import plain

    stored = {tensor.name for tensor in proto.graph.initializer}
    producer = " ".join(filter(None, (proto.producer_name, proto.producer_version)))
    return {
        "file_bytes": path.stat().st_size,
        "producer": plain(producer) if producer else None,
        "ir_version": proto.ir_version,
        "opsets": {each.domain or "ai.onnx": each.version for each in proto.opset_import},
        "functions": len(proto.functions),
        "inputs": [_value(value) for value in proto.graph.input if value.name not in stored],
        "outputs": [_value(value) for value in proto.graph.output],
    }


def _value(value: Any) -> dict[str, Any]:
    """An input or an output as the file declares it: `shape` null if it does not, an axis a number, a name or
    null."""
    from xbench.converters.passes.outline import type_name

    kind = value.type.WhichOneof("value") or "tensor_type"
    if kind != "tensor_type":
        return {"name": value.name, "dtype": kind.removesuffix("_type"), "shape": None}
    tensor = value.type.tensor_type
    axes = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]
    dtype = type_name(tensor.elem_type)
    return {"name": value.name, "dtype": dtype, "shape": axes if tensor.HasField("shape") else None}


def _operators(graph: Any) -> dict[str, int]:
    """The operators of the graph and its branches and bodies, the most frequent first."""
    from collections import Counter

    from xbench.converters.passes.outline import word

    counts = Counter(word(node) for node in graph.all_nodes())
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


@uncollected()
def lower_file(word: str, file: str, folder: str) -> dict[str, Any]:
    """Writes `inference.onnx` of a file into a folder, with the facts for runtimes (`model.json`); a file
    with unknown operators is written as it is.

    Returns `program`, the operators that our own tables must have; `drawn`, what is drawn for each input; `wants`, what
    must be specified of the inputs before conversion; `trains`, whether it has parameters and a loss, and
    `gradients`, the operators without a gradient rule.

    Raises:
        XBenchError: ONNX's own code cannot bring it to our opset.
    """
    from xbench.converters import TABLES, operators_of
    from xbench.converters.autodiff.train_step import without_gradient
    from xbench.converters.build import trainable, training_of
    from xbench.converters.codegen.program import count_operators
    from xbench.converters.frontends import validity
    from xbench.converters.frontends.axes import fix_axes
    from xbench.converters.frontends.functions import expand
    from xbench.converters.frontends.onnx_file import besides, canonical, stored
    from xbench.converters.ops import contrib
    from xbench.converters.source import parse

    source, path = parse(word), Path(file)
    with _clear(source.place):
        proto = _read(path, foreign=True)
        fix_axes(proto, source)
        contrib.define(proto)
        strange = validity.unknown(proto)
        with at_most(stored(proto), besides(proto)):
            if strange:
                program = _as_it_is(proto, path, Path(folder))
                return {"program": program, "wants": None, "drawn": {}, "trains": False, "gradients": {}}
            model = _folded(canonical(proto, path.parent))
            del proto
            facts = training_of(source, model)
            named = trainable(model.graph)
            known = set[str].intersection(*map(operators_of, TABLES))
            expanded = expand(model.clone(), known)
            _save(model, Path(folder), path)
            answer = {"program": count_operators(expanded)} | _drawn(source, model)
            trains = bool(facts["loss"] and named)
            return {**answer, "trains": trains, "gradients": without_gradient(model, named) if trains else {}}


def _drawn(source: Any, model: Any) -> dict[str, Any]:
    """What is drawn for every input, in words, or why one cannot be drawn as it is (`wants`)."""
    from xbench import models
    from xbench.converters.build import drawing
    from xbench.converters.frontends.axes import inputs_of

    given = [each for each in model.graph.inputs if each.name not in model.graph.initializers]
    try:
        drawn = drawing(source, model, inputs_of(source, given))
    except XBenchError as error:
        return {"wants": str(error).removeprefix(f"{source.place}: "), "drawn": {}}
    return {"wants": None, "drawn": {each["name"]: models.drawn(models.Input(**each)) for each in drawn}}


def _folded(model: Any) -> Any:
    """Without constant parts and no-ops, as far as possible without PyTorch."""
    import importlib.util

    from onnx_ir.passes import common

    from xbench.converters.frontends.folding import fold
    from xbench.converters.passes import identities

    if importlib.util.find_spec("onnxscript"):  # comes with PyTorch's extra
        fold(model)
    identities.drop(model)
    common.RemoveUnusedNodesPass()(model)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    return model


def _as_it_is(proto: Any, path: Path, target: Path) -> dict[str, int]:
    """A file with unknown operators, for runtimes that may know them."""
    import onnx_ir as ir

    from xbench.converters.frontends.onnx_file import attach, without_weights

    bare, weights = without_weights(proto)
    model = ir.from_proto(bare)
    attach(model, weights, [tensor.name for tensor in proto.graph.initializer], path.parent)
    _save(model, target, path)
    return _operators(model.graph)


def _save(model: Any, folder: Path, file: Path) -> None:
    """Writes the graph without Dropout, large weights to another file, and the facts for adapters."""
    import onnx_ir as ir

    from xbench.converters.write import EXTERNAL, inference, weight_bytes

    given = [
        {"name": value.name, "shape": [], "dtype": "float32"}
        for value in model.graph.inputs
        if value.name not in model.graph.initializers
    ]
    outputs = [value.name for value in model.graph.outputs]
    outside = any(isinstance(value.const_value, ir.ExternalTensor) for value in model.graph.initializers.values())
    large = outside or weight_bytes(model) > EXTERNAL
    ir.save(inference(model), folder / INFERENCE, external_data="weights.bin" if large else None)
    operators = _operators(model.graph)
    facts = {"name": "inspected", "inputs": given, "outputs": outputs, "operators": operators, "parameters": []}
    facts |= {"given": str(file.absolute())}
    (folder / FACTS).write_text(json.dumps(facts))


JOBS = (inspect_file, lower_file)
