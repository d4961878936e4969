"""Copies of ONNX files, as the form of a network that a runtime reads."""

import shutil
from pathlib import Path

import onnx


def copy(path: str, folder: Path, name: str) -> tuple[str, ...]:
    """Copies a file as `name`.onnx, and the files of its weights that are outside it; returns their names."""
    tensors = onnx.load(path, load_external_data=False).graph.initializer
    outside = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
    files = {path: f"{name}.onnx"} | {str(Path(path).with_name(place)): place for place in outside}
    for source, target in files.items():
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / target)
    return tuple(files.values())
