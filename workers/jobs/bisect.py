"""Jobs of the exporter's worker for a bisection: parts of a converted model, with their references."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from xbench import models
from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.codegen.program import convert
from xbench.converters.frontends import onnx_file
from xbench.converters.passes import subgraph
from xbench.converters.source import parse
from xbench.converters.write import write
from xbench.parity import candidate, verdict
from xbench.parity.verdict import REFERENCE
from xbench.workers import reproduce

ONNX = ("", "ai.onnx")


class Stored(Mapping[str, np.ndarray]):
    """The arrays of an `.npz` file by their own names, each read on demand. NumPy's mapping gives `x` for `x.npy` if
    there are both."""

    def __init__(self, file: np.lib.npyio.NpzFile) -> None:
        self.file = file

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self.file[f"{name}.npy"])

    def __iter__(self) -> Iterator[str]:
        return iter(self.file.files)

    def __len__(self) -> int:
        return len(self.file.files)


@functools.lru_cache(maxsize=2)
def _graph(artifact: str, training: bool) -> ir.Model:
    """The graph of a search, which must not be changed. Of a file with operators that ONNX does not define or that
    computes in 16 bits, in evaluation, it is the file's own, which some runtimes read; otherwise the converted one, in
    training form."""
    own = None if training else _own(artifact)
    if own is None:
        return ir.load(Path(artifact) / "model.onnx")
    types = {value.name: value for node in _canonical(artifact).graph for value in node.outputs}
    for value in (value for node in own.graph for value in node.outputs if value.name in types):
        value.type, value.shape = types[value.name].type, types[value.name].shape  # nothing else infers them
    return own


@functools.lru_cache(maxsize=1)
def _own(artifact: str) -> ir.Model | None:
    made = Artifact.read(artifact)
    if made.given is None:
        return None
    model = ir.load(made.given)
    foreign = any(node.domain not in ONNX for node in model.graph.all_nodes())
    return model if foreign or made.info.get("narrow") else None


def _canonical(artifact: str) -> ir.Model:
    """The own file of an artifact in ONNX's operators; its tensors keep their names."""
    given = Artifact.read(artifact).given
    assert given
    return onnx_file.canonical(onnx_file.read(given), given.parent)


def tensors(artifact: str, reference: str, training: bool, path: str) -> list[dict[str, Any]]:
    """Writes all tensors of a model in float64, its inputs too, for the inputs of a reference; returns its nodes."""
    from xbench.parity import network

    model, inputs = _graph(artifact, training), candidate.inputs_of(verdict.read(Path(reference)))
    every = model.clone() if training or not _own(artifact) else _canonical(artifact)
    every.graph.outputs[:] = subgraph.tensors(every)
    program = convert(every, subgraph.trainable(every))
    given = dict(zip(program.inputs, inputs, strict=True))
    verdict.join(Path(path), {**given, **network.values(program, inputs, training)})
    return subgraph.describe(model)


def mark(artifact: str, reference: str, folder: str, precision: str = "fp32") -> None:
    """Writes a model with all floating tensors as outputs, and their float64 values for a reference's inputs."""
    given = verdict.read(Path(reference))
    model = subgraph.mark(_graph(artifact, False))
    if _own(artifact):
        fed = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
        for value, array in zip(fed, candidate.inputs_of(given), strict=True):
            value.shape = ir.Shape(array.shape)
        _written_own(Path(folder), model, given, precision)
    else:
        _written(artifact, Path(folder), model, "forward", given, _fixed(artifact, given), precision)


def mark_gradients(artifact: str, reference: str, values: str, folder: str) -> dict[str, tuple[str, int]]:
    """Writes a model with the gradients of all tensors among those of its parameters; returns their places."""
    given = verdict.read(Path(reference))
    with np.load(values) as file:
        model, places = subgraph.mark_gradients(_graph(artifact, True), Stored(file))
    _written(artifact, Path(folder), model, "gradient", given, _fixed(artifact, given))
    return places


def _fixed(artifact: str, given: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The inputs for this batch alone: the oracle must not reverse the batch to find the noise, because not every
    tensor, and no gradient of one, has the samples in its first axis."""
    inputs, arrays = Artifact.read(artifact).info["inputs"], candidate.inputs_of(given)
    return {"inputs": [item | {"shape": list(a.shape)} for item, a in zip(inputs, arrays, strict=True)]}


def part(artifact: str, values: str, nodes: Sequence[int], mode: str, folder: str, precision: str = "fp32") -> bool:
    """Writes some nodes of a model, given their inputs; False if they compute nothing, have nothing to train, or begin
    or end in floats of 8 bits, which runtimes neither take nor give.

    For training, the part's output is the logits; labels are drawn.
    """
    with np.load(values) as file:
        known = Stored(file)
        model = subgraph.cut(_graph(artifact, mode != "forward"), nodes, known, trains=mode != "forward")
        if not model.graph.outputs or (mode != "forward" and not subgraph.trainable(model)):
            return False
        ends = [value.dtype.name for value in (*model.graph.inputs, *model.graph.outputs) if value.dtype]
        if any(name.startswith("FLOAT8") for name in ends):
            return False
        inputs = [subgraph.typed(value, known[str(value.name)]) for value in model.graph.inputs]
        last = model.graph.outputs[0]
        logits = known[str(last.name)] if last.name in known else np.zeros(last.shape.numpy())  # type: ignore[union-attr]
    labels = _labels(logits) if mode != "forward" else np.zeros(1, np.int64)
    given = {f"input/{index}": array for index, array in enumerate(inputs)} | {"labels": labels}
    if mode == "forward" and _own(artifact):
        _written_own(Path(folder), model, given, precision)
        return True
    declared = [
        models.plain(models.Input(str(value.name), array.shape, array.dtype.name, 0, 1))
        for value, array in zip(model.graph.inputs, inputs, strict=True)
    ]
    facts: dict[str, Any] = {"inputs": declared, "labels": None, "loss": None}
    if mode != "forward":
        drawn = models.Input("labels", labels.shape, "int64", 0, logits.shape[-1])
        facts |= {"labels": models.plain(drawn), "loss": asdict(models.Loss())}
    _written(artifact, Path(folder), model, mode, given, facts, precision)
    return True


def _labels(logits: np.ndarray) -> np.ndarray:
    """A class per row, random among those with a finite logit."""
    order = np.random.default_rng(0).random(logits.shape)
    return np.asarray(np.where(np.isfinite(logits), order, -1.0).argmax(-1))


def _written(
    artifact: str,
    folder: Path,
    model: ir.Model,
    mode: str,
    given: Mapping[str, np.ndarray],
    facts: Mapping[str, Any],
    precision: str = "fp32",
) -> None:
    from xbench.parity import oracle

    original = Artifact.read(artifact)
    write(folder, model, {**original.info, "given": None, "origin": "onnx", "name": f"{original.name} (part)", **facts})
    made = Artifact.read(folder)
    oracle.write(made, folder / REFERENCE, mode, [(candidate.inputs_of(given), given["labels"])], precision)


def _written_own(folder: Path, model: ir.Model, given: Mapping[str, np.ndarray], precision: str) -> None:
    """A part of a file is a file, too, and is brought like one."""
    from xbench.parity import oracle

    file = folder / "part.onnx"
    ir.save(model, file)
    build.export_file(parse(str(file)), file, folder)
    batch = candidate.inputs_of(given), given["labels"]
    oracle.write(Artifact.read(folder), folder / REFERENCE, "forward", [batch], precision)


def write_reproduction(
    folder: str, mode: str, runtimes: Sequence[Mapping[str, Any]], title: str, out: str, reference: str | None = None
) -> list[str]:
    """Writes a part, or a network with a reference of its own, that runs without xbench; returns the names of the
    files."""
    results = Path(reference or Path(folder) / REFERENCE)
    return reproduce.write(Artifact.read(folder), results, mode, runtimes, title, Path(out))


def write_times(
    folder: str, reference: str, runtime: Mapping[str, Any], requirements: Sequence[str], title: str, out: str
) -> list[str]:
    """Writes a network and a script that times it in two releases of a runtime; returns the names of the files."""
    return reproduce.write_times(Artifact.read(folder), Path(reference), runtime, requirements, title, Path(out))


JOBS = (tensors, mark, mark_gradients, part, write_reproduction, write_times)
