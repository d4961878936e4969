"""Jobs of the exporter's worker: making artifacts, reading foreign models, computing references."""

import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from xbench import models
from xbench.case import GIVEN, SYNTHETIC
from xbench.converters.artifact import Artifact
from xbench.converters.source import Source, parse
from xbench.errors import XBenchError
from xbench.host.clock import now
from xbench.parity import candidate
from xbench.parity.verdict import read
from xbench.workers import live, samples


def export(word: str, file: str, folder: str) -> None:
    """Makes the artifact of a model; `file` is the path of its ONNX file, if it has one.

    The time is written into its facts, as `convert_s`: without importing PyTorch, except for files, for which PyTorch
    is only imported after a file is known not to crash. None for a TensorFlow model, which is mostly converted in
    another process.
    """
    from xbench.converters import build

    source = parse(word)
    if source.kind in ("zoo", "module"):
        importlib.import_module("xbench.converters.frontends.pytorch")
    start = now()
    _export(build, source, file, folder)
    taken = now() - start
    path = Path(folder) / "model.json"
    info = json.loads(path.read_text()) | {"convert_s": None if source.kind == "tensorflow" else taken}
    path.write_text(json.dumps(info, indent=1))


def _export(build: Any, source: Source, file: str, folder: str) -> None:
    if source.kind == "zoo":
        build.export_zoo(source.place, 0, Path(folder), source.optimizer, source.ranges)
    elif source.kind == "module":
        try:
            build.export_module(source, Path(folder))
        except models.BadFactory as error:
            raise XBenchError(str(error)) from error
    else:
        build.export_file(source, Path(file), Path(folder))


def import_tensorflow(path: str, file: str) -> None:
    from xbench.converters.frontends.savedmodel import BadModel, to_onnx

    try:
        to_onnx(path, file)
    except BadModel as error:
        raise XBenchError(str(error)) from error


def reference(
    artifact: str,
    mode: str,
    batch: int,
    seed: int,
    data: str,
    steps: int,
    path: str,
    precision: str = "fp32",
    own: Sequence[str] = (),
) -> None:
    """`own` are files of a user's samples, of which the batch is taken."""
    model = Artifact.read(artifact)
    if own:
        drawn = _own(model, own, mode, batch, seed)
    elif data == GIVEN:
        drawn = live.draw(model, batch, seed)
    else:
        synthetic = data == SYNTHETIC
        drawn = candidate.sample(model, batch, seed) if synthetic else samples.draw(data, model.info, batch, seed)
    _write(model, Path(path), mode, [drawn] * steps, precision)


def _own(
    model: Artifact, files: Sequence[str], mode: str, batch: int, seed: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """A batch of a user's samples. Labels are drawn if there are none, or if none are needed."""
    inputs, labels = samples.drawn(files, model.info, batch, seed)
    _, usual = candidate.sample(model, batch, seed)
    if labels is None or mode == "forward":
        return inputs, usual
    if labels.shape != usual.shape or labels.dtype.kind != usual.dtype.kind:
        wanted, given = (f"{each.dtype} of shape {each.shape}" for each in (usual, labels))
        raise XBenchError(f"the labels of a batch are {given}, and the loss of {model.name} takes {wanted}")
    return inputs, labels.astype(usual.dtype)


def training_reference(artifact: str, data: str, batch: int, seed: int, steps: int, path: str) -> None:
    """The oracle's results of the first steps of a training; `data` is a file of `samples.py`."""
    given = samples.read(Path(data))
    batches = [given.training_batch(batch, seed, step) for step in range(steps)]
    _write(Artifact.read(artifact), Path(path), "step", batches)


def _write(
    artifact: Artifact,
    path: Path,
    mode: str,
    batches: Sequence[tuple[Sequence[np.ndarray], Any]],
    precision: str = "fp32",
) -> None:
    from xbench.parity import oracle

    try:
        oracle.write(artifact, path, mode, batches, precision)
    except oracle.NotExported as error:
        raise XBenchError(f"{artifact.name} was not exported as it is: {error}") from error
    except oracle.Random as error:
        raise XBenchError(f"{artifact.name} has no fixed results to compare with: {error}") from error


def unread(artifact: str, batch: int) -> dict[str, list[str]]:
    """The outputs that do not depend on each input, by its name."""
    from xbench.parity import sensitivity

    return sensitivity.unread(Artifact.read(artifact), batch)


def rows_apart(artifact: str, batch: int) -> bool:
    """Whether each row of inputs of a fixed size decides its own row of the outputs alone."""
    from xbench.parity import sensitivity

    return sensitivity.rows_apart(Artifact.read(artifact), batch)


def coupled(artifact: str, batch: int) -> bool:
    """Whether the loss of a batch is not the mean of the losses of its halves."""
    from xbench.parity import candidate, trajectory

    model = Artifact.read(artifact)
    return trajectory.coupled(model, candidate.sample(model, batch, 0))


def layers(artifact: str) -> list[list[int]]:
    """The gradient bytes of each parameter and the multiply-accumulates that use it, in order."""
    import onnx_ir as ir

    from xbench.converters.passes import macs

    model = Artifact.read(artifact)
    counts = macs.by_parameter(ir.load(str(model.folder / "model.onnx")), model.parameters)
    return [[array.nbytes, counts[name]] for name, array in model.each_parameter()]


def explain_forward(artifact: str, reference: str, candidate: str, tensor: str) -> list[dict[str, Any]]:
    """The mistakes that explain the first wrong tensor of a model whose tensors are all outputs."""
    from xbench.parity.explain.forward import forward

    mistakes = forward(Artifact.read(artifact), read(Path(reference)), read(Path(candidate)), tensor)
    return [asdict(each) for each in mistakes]


def explain_training(artifact: str, mode: str, reference: str, candidate: str) -> list[dict[str, Any]]:
    """The mistakes that explain a training step."""
    from xbench.parity.explain.training import trained

    mistakes = trained(Artifact.read(artifact), mode, read(Path(reference)), read(Path(candidate)))
    return [asdict(each) for each in mistakes]


def match(port: str, reference: str, batch: int) -> dict[str, Any]:
    """Whether a model is the reference network, what agrees, and differences in sentences."""
    from xbench.parity import matching

    own, other = Artifact.read(port), Artifact.read(reference)
    differences = matching.architecture(other, own)
    if differences:
        return {"same": False, "agrees": None, "differences": differences}
    verdict, differences = matching.compared(own, other, batch)
    if verdict.status == "PASS":
        count, macs = other.info["parameter_count"], other.info["macs"]
        words = f"{count:,} parameters, {macs:,} multiply-accumulates, outputs {verdict.ratio:.1f} x noise"
        return {"same": True, "agrees": words, "differences": []}
    what = verdict.message if verdict.ratio is None else f"{verdict.ratio:,.0f} x noise"
    head = f"the same parameters and work, but with the same weights it gives other outputs ({what})"
    return {"same": False, "agrees": None, "differences": [head, *differences]}


JOBS = (
    export,
    import_tensorflow,
    reference,
    training_reference,
    unread,
    rows_apart,
    coupled,
    layers,
    explain_forward,
    explain_training,
    match,
)
