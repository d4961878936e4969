"""A converted model on disk: one folder, written once, addressed by its content, read by every runtime.

model.json        what it is: inputs, labels, optimizer, parameter names, operators, MACs, versions
model.onnx        training form: BatchNormalization and Dropout in place, weights by PyTorch name
inference.onnx    the same without Dropout, for runtimes that read ONNX themselves
program.py        the text of `xbench.converters.source`
params.npz        trainable arrays by name
state.npz         all other arrays the text reads
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xbench.converters import Program


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
    def onnx(self) -> Path:
        """The file for runtimes that read ONNX themselves."""
        return self.folder / "inference.onnx"

    def program(self) -> Program:
        info = self.info
        return Program(
            source=(self.folder / "program.py").read_text(),
            params=_arrays(self.folder / "params.npz"),
            state=_arrays(self.folder / "state.npz"),
            inputs=tuple(item["name"] for item in info["inputs"]),
            outputs=tuple(info["outputs"]),
            operators=info["operators"],
        )


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
