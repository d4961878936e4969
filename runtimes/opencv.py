"""OpenCV's dnn module on the CPU, which reads ONNX files: its newer engine, or the classic one where that cannot."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from xbench.converters import UnsupportedOps
from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime, Unavailable
from xbench.runtimes.support import onnx_copy

ENGINES = {"auto": "ENGINE_AUTO", "new": "ENGINE_NEW", "classic": "ENGINE_CLASSIC"}  # of OpenCV 5; before it had one
REFUSED = r"Node \[(\w+)@([\w.]+)\]"  # in a message about an operator that it cannot read
SILENT = 0


class OpenCV(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        if options.device != "cpu":
            raise Unavailable("opencv: its packages on PyPI have no CUDA device")
        cv2.utils.logging.setLogLevel(SILENT)  # it prints every message that it raises
        cv2.setNumThreads(options.threads)
        self.path, self.engine = str(artifact.onnx), options.extra.get("engine", "auto")
        self.operators: dict[str, int] = artifact.info["operators"]
        self.names = [item["name"] for item in artifact.info["inputs"]]
        self.outputs: list[str] = artifact.info["outputs"]
        self.net = _read(self.path, self.engine, self.operators)
        self.shapes: list[tuple[int, ...]] = []

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        shapes = [array.shape for array in inputs]
        if self.shapes and shapes != self.shapes:  # its GRU and LSTM keep the batch of the first call
            self.net = _read(self.path, self.engine, self.operators)
        self.shapes = shapes
        return False  # buffers are made in the first call

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(np.array(array, order="C") for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        for name, array in zip(self.names, inputs, strict=True):
            self.net.setInput(array, name)
        return self.net.forward(self.outputs)

    def wait(self, result: Any) -> None:
        pass  # forward() returns when the outputs are computed

    def get(self, outputs: Any) -> list[np.ndarray]:
        return [np.array(array) for array in outputs]

    def placed(self) -> dict[str, int]:
        return {"cpu": len(self.net.getLayerNames())}

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        """The ONNX file, and weights that are too large for it in files next to it."""
        return onnx_copy.copy(self.path, folder, name)


def _read(path: str, engine: str, operators: dict[str, int]) -> Any:
    """
    Raises:
        UnsupportedOps: it lacks an operator; it names one of them.
        Unavailable: it has no such engine.
    """
    if engine != "auto" and not hasattr(cv2.dnn, ENGINES[engine]):
        raise Unavailable(f"opencv:engine={engine}: OpenCV {cv2.__version__} has one engine; OpenCV 5 has two")
    try:
        return cv2.dnn.readNetFromONNX(path, *([] if engine == "auto" else [getattr(cv2.dnn, ENGINES[engine])]))
    except cv2.error as error:
        if not (match := re.search(REFUSED, str(error))):
            raise
        name = match[1] if match[2] == "ai.onnx" else f"{match[2]}.{match[1]}"
        raise UnsupportedOps({name: operators.get(name, 1)}) from error
