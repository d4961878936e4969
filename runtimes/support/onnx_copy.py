"""Copies of ONNX files: the form that a runtime reads, and files of one size for runtimes that need one."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx


def copy(path: str, folder: Path, name: str) -> tuple[str, ...]:
    """Copies a file as `name`.onnx, and the files of its weights that are outside it; returns their names."""
    shutil.copyfile(path, folder / f"{name}.onnx")
    return (f"{name}.onnx", *_with_weights(onnx.load(path, load_external_data=False), path, folder, shutil.copyfile))


def of_one_size(path: str, folder: Path, name: str, shapes: Mapping[str, Sequence[int]]) -> tuple[str, ...]:
    """As `copy`, but the inputs have these shapes, and no other tensor has a declared one."""
    return (f"{name}.onnx", *_with_weights(_fixed(path, folder, name, shapes), path, folder, shutil.copyfile))


def linked(path: str, folder: Path, shapes: Mapping[str, Sequence[int]]) -> Path:
    """As `of_one_size`, for reading it at once: files of weights are linked, not copied."""
    _with_weights(_fixed(path, folder, "model", shapes), path, folder, os.symlink)
    return folder / "model.onnx"


def _fixed(path: str, folder: Path, name: str, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    model = onnx.load(path, load_external_data=False)
    for value in model.graph.input:
        for axis, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            axis.dim_value = size
    for value in model.graph.output:
        for axis in value.type.tensor_type.shape.dim:
            axis.Clear()
    del model.graph.value_info[:]
    onnx.save(model, folder / f"{name}.onnx")
    return model


def _with_weights(
    model: onnx.ModelProto, path: str, folder: Path, put: Callable[[Path, Path], object]
) -> tuple[str, ...]:
    """Puts the files of weights outside the model where they are in relation to it; returns their names."""
    entries = (entry for tensor in model.graph.initializer for entry in tensor.external_data)
    places = sorted({entry.value for entry in entries if entry.key == "location"})
    for place in places:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        put(Path(path).with_name(place).resolve(), folder / place)
    return tuple(places)
