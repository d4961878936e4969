"""What the exporter's worker can be asked to do: make artifacts, read what others made, compute references."""

from pathlib import Path

from xbench import models
from xbench.bench import XBenchError
from xbench.bench.source import parse
from xbench.converters.artifact import Artifact
from xbench.parity import candidate


def export(word: str, file: str, folder: str) -> None:
    """Makes the artifact of a model; `file` is where its ONNX file lies, if it comes in one."""
    from xbench.bench import convert

    source = parse(word)
    if source.kind == "zoo":
        convert.export_zoo(source.place, 0, Path(folder))
    elif source.kind == "module":
        try:
            convert.export_module(source, Path(folder))
        except models.BadFactory as error:
            raise XBenchError(str(error)) from error
    else:
        convert.export_file(source, Path(file), Path(folder))


def import_tensorflow(path: str, file: str) -> None:
    from xbench.converters.savedmodel import BadModel, to_onnx

    try:
        to_onnx(path, file)
    except BadModel as error:
        raise XBenchError(str(error)) from error


def reference(artifact: str, mode: str, batch: int, seed: int, data: str, path: str) -> None:
    from xbench.bench.data import digits
    from xbench.parity import oracle

    model = Artifact.read(artifact)
    draw = digits(model.info, batch, seed) if data == "digits" else candidate.sample(model, batch, seed)
    oracle.write(model, Path(path), mode, *draw)


EXPORT_JOBS = (export, import_tensorflow, reference)
