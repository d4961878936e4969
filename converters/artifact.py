"""A converted model on disk: one folder, written once, addressed by its content, read by every runtime.

model.json        what it is: inputs, labels, optimizer, parameter names, operators, MACs, how long the export took
model.onnx        training form: BatchNormalization and Dropout in place, weights by PyTorch name
inference.onnx    the same without Dropout, for runtimes that read ONNX themselves
given/            the file that was brought, as it is, which those run instead, and its weights where they are outside
train_step.onnx   a whole training step (`converters/autodiff/train_step.py`), where the model has a loss
gradient.onnx     what of it gives the loss and the gradients; step.onnx what gives the loss and the new state
program.py        the text that `convert.py` prints
program.nhwc.py   the same with images channels last (`converters/passes/layout.py`), where the model has any
weights.bin       all arrays, one behind the other; both graphs name it as their external data where they are large
weights.json      where each array lies in it: `params`, the trainable ones, `state`, all others the text reads, and
                  `graph`, large ones that only the graphs hold; name -> type, shape, offset

Arrays are mapped into memory and not read: what nobody touches is never loaded, and processes share what they touch.
"""

import hashlib
import json
import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xbench.converters import Program, seals


@dataclass(frozen=True)
class Artifact:
    """The folder of a converted model and the content of its `model.json`."""

    folder: Path
    info: dict[str, Any]

    @staticmethod
    def read(folder: Path | str) -> "Artifact":
        folder = Path(folder)
        return Artifact(folder, json.loads((folder / "model.json").read_text()))

    @property
    def name(self) -> str:
        return self.info["name"]

    @property
    def digest(self) -> str:
        return self.info["digest"]

    @property
    def parameters(self) -> list[str]:
        return self.info["parameters"]

    @property
    def has_dropout(self) -> bool:
        return "Dropout" in self.info["operators"]

    @property
    def operators(self) -> dict[str, int]:
        """What the text calls; the graph's own (`info["operators"]`) less those that ONNX's bodies stand for."""
        return self.info["program_operators"]

    @property
    def given(self) -> Path | None:
        """The ONNX file that somebody brought, byte by byte, its weights beside it where they were."""
        return self.folder / self.info["given"] if self.info.get("given") else None

    @property
    def inference(self) -> Path:
        """The graph that we made: without Dropout, in our opset, with what is constant computed."""
        return self.folder / "inference.onnx"

    @property
    def onnx(self) -> Path:
        """The file for runtimes that read ONNX themselves, forward: the one that was brought, if one was."""
        return self.given or self.inference

    @property
    def layouts(self) -> tuple[str, ...]:
        """The orders of axes that its text was written for: one where the model has no images."""
        return tuple(layout for layout, file in TEXTS.items() if file in self.info["texts"])

    def source(self, layout: str = "nchw") -> str:
        """The text, which will be executed. A model without images has the same in every layout.

        Raises:
            seals.Broken: it is not the one that was converted.
        """
        file = TEXTS[layout if layout in self.layouts else "nchw"]
        text = (self.folder / file).read_bytes()
        if text_digest(text) != self.info["texts"][file]:
            raise seals.Broken(f"{self.folder / file} was changed, and is not executed")
        return text.decode()

    def program(self, layout: str = "nchw") -> Program:
        """The text and its arrays, which may be written to: the file stays as it is."""
        info, arrays = self.info, read_weights(self.folder)
        return Program(
            source=self.source(layout),
            params=arrays["params"],
            state=arrays["state"],
            inputs=tuple(item["name"] for item in info["inputs"]),
            outputs=tuple(info["outputs"]),
            operators=self.operators,
        )

    def each_parameter(self) -> Iterator[tuple[str, np.ndarray]]:
        """The trainable arrays one after the other, each read when its turn comes and not mapped."""
        with (self.folder / WEIGHTS).open("rb") as file:
            for name, (dtype, shape, offset) in json.loads((self.folder / INDEX).read_text())["params"].items():
                file.seek(offset)
                yield name, np.frombuffer(file.read(math.prod(shape) * np.dtype(dtype).itemsize), dtype).reshape(shape)


def text_digest(text: bytes) -> str:
    """What `texts` in the facts says of a program's text."""
    return hashlib.sha256(text).hexdigest()


TEXTS = {"nchw": "program.py", "nhwc": "program.nhwc.py"}  # layout -> the file of its text
TRAINING = "train_step.onnx"
GIVEN = "given"  # the folder of a file that was brought
PARTS = {"gradient": "gradient.onnx", "step": "step.onnx"}  # mode -> what of it that mode runs
# The names of its tensors: of inputs, of outputs, and what those of gradients and of new state begin with.
LABELS, DROPOUT, STEP = "labels", "dropout", "step"
LOSS, GRADIENT, NEW = "loss", "gradient.", "new."
WEIGHTS, INDEX = "weights.bin", "weights.json"
ALIGNED, PAGE = 64, 4096  # the widest vector; from a page on, arrays begin on one, as ONNX wants of external data
Arrays = Mapping[str, Mapping[str, np.ndarray]]


def write_weights(folder: Path, arrays: Arrays) -> dict[str, int]:
    """Writes groups of named arrays, none of which is copied, and returns where in the file each begins.

    Raises:
        ValueError: an array of Python's objects.
    """
    index: dict[str, dict[str, Any]] = {kind: {} for kind in arrays}
    offsets: dict[str, int] = {}
    with (folder / WEIGHTS).open("wb") as file:
        for kind, group in arrays.items():
            for name, array in group.items():
                if array.dtype.hasobject:
                    raise ValueError(f"{name} holds objects, not numbers")
                file.write(bytes(-file.tell() % (PAGE if array.nbytes >= PAGE else ALIGNED)))
                offsets[name] = file.tell()
                foreign = array.dtype.isbuiltin == 2  # bfloat16 and float8 are types of ml_dtypes
                dtype = array.dtype.name if foreign else array.dtype.str
                index[kind][name] = [dtype, list(array.shape), offsets[name]]
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    (folder / INDEX).write_text(json.dumps(index))
    return offsets


def read_weights(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    """The groups of arrays, mapped copy-on-write.

    Raises:
        ValueError: the file is shorter than it should be.
    """
    with (folder / WEIGHTS).open("rb") as file:
        size = file.seek(0, 2)
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if size else b""
    index = json.loads((folder / INDEX).read_text())
    return {
        kind: {
            name: np.frombuffer(data, dtype, math.prod(shape), offset).reshape(shape)
            for name, (dtype, shape, offset) in group.items()
        }
        for kind, group in index.items()
    }
