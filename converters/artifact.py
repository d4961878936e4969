"""A converted model on disk: one folder, written once, addressed by its content, read by every runtime.

model.json        what it is: inputs, labels, optimizer, parameter names, operators, MACs, how long the export took
model.onnx        training form: BatchNormalization and Dropout in place, weights by PyTorch name
inference.onnx    the same without Dropout, for runtimes that read ONNX themselves
given/            the user's own ONNX file, unchanged, which those run instead, and its external weights
train_step.onnx   a complete training step (`converters/autodiff/train_step.py`), if the model has a loss
gradient.onnx     its part that gives the loss and the gradients; step.onnx: the loss and the new state
program.py        the text that `convert.py` prints
program.nhwc.py   the same with images channels last (`converters/passes/layout.py`), if the model has any
weights.bin       all arrays, one after the other; large graphs name it as their external data
weights.json      where each array is in it: `params`, the trainable ones, `state`, all others the text reads, and
                  `graph`, large ones that only the graphs have; name -> type, shape, offset

Arrays are memory-mapped: what is not accessed is never loaded, and processes share what they access.
"""

import hashlib
import json
import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xbench.converters import Program, seals

NAMED = 5  # parameters that a remark lists


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
        """The operators that the text calls: the graph's (`info["operators"]`) less those replaced by ONNX's bodies."""
        return self.info["program_operators"]

    def remarks(self) -> list[str]:
        """What its user should know of the conversion, a sentence each."""
        remarks, unused = [], self.info["unused"]
        if unused:
            count, more = sum(unused.values()), ", ..." if len(unused) > NAMED else ""
            share = f"{count:,} of its {count + self.info['parameter_count']:,} parameters"
            listed = ", ".join([*unused][:NAMED]) + more
            remarks.append(f"{share} are left out, because no output depends on them: {listed}")
        if self.info["untraced"]:
            remarks.append(f"forward alone is checked: it cannot be trained, {self.info['untraced']}")
        return remarks

    @property
    def given(self) -> Path | None:
        """The user's own ONNX file, byte by byte, with its external weights next to it."""
        return self.folder / self.info["given"] if self.info.get("given") else None

    @property
    def has_open_axes(self) -> bool:
        """Whether the user's own file leaves the size of some axis open, though it is known here."""
        return bool(self.given and self.info["open_axes"])

    @property
    def inference(self) -> Path:
        """The converted graph: without Dropout, in our opset, with constants folded."""
        return self.folder / "inference.onnx"

    @property
    def onnx(self) -> Path:
        """The file for runtimes that read ONNX themselves, forward: the user's own file, if there is one."""
        return self.given or self.inference

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts that its text was written for: one if the model has no images."""
        return tuple(layout for layout, file in TEXTS.items() if file in self.info["texts"])

    def source(self, layout: str = "nchw") -> str:
        """The text, which will be executed. A model without images has the same text in every layout.

        Raises:
            seals.Broken: the text changed since the conversion.
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
        """The trainable arrays one after the other, each read when needed and not mapped."""
        with (self.folder / WEIGHTS).open("rb") as file:
            for name, (dtype, shape, offset) in json.loads((self.folder / INDEX).read_text())["params"].items():
                file.seek(offset)
                yield name, np.frombuffer(file.read(math.prod(shape) * np.dtype(dtype).itemsize), dtype).reshape(shape)


def text_digest(text: bytes) -> str:
    """The digest of a program's text, as in `texts` of the facts."""
    return hashlib.sha256(text).hexdigest()


TEXTS = {"nchw": "program.py", "nhwc": "program.nhwc.py"}  # layout -> the file of its text
TRAINING = "train_step.onnx"
GIVEN = "given"  # the folder of the user's own file
PARTS = {"gradient": "gradient.onnx", "step": "step.onnx"}  # mode -> the part of it that the mode runs
# The names of its tensors: inputs, outputs, and the prefixes of gradients and of new state.
LABELS, DROPOUT, STEP = "labels", "dropout", "step"
LOSS, GRADIENT, NEW = "loss", "gradient.", "new."
NAMES = "xbench.step_names"  # of its metadata: what it has instead of some of these names
WEIGHTS, INDEX = "weights.bin", "weights.json"
ALIGNED, PAGE = 64, 4096  # the widest vector; arrays of a page or more begin on a page, as ONNX wants of external data
Arrays = Mapping[str, Mapping[str, np.ndarray]]


class Names(NamedTuple):
    """The names of what a training step adds to a graph."""

    labels: str = LABELS
    dropout: str = DROPOUT
    step: str = STEP
    loss: str = LOSS


def names_in(metadata: Mapping[str, str]) -> Names:
    """The names in a training step, by its metadata."""
    return Names(*json.loads(metadata.get(NAMES, "[]")))


def names_of(model: Any) -> Names:
    """The names in a training step that was written, an `onnx.ModelProto`."""
    return names_in({each.key: each.value for each in model.metadata_props})


def write_weights(folder: Path, arrays: Arrays) -> dict[str, int]:
    """Writes groups of named arrays without copying them; returns the offset of each in the file.

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
