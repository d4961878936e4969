"""tract on the CPU, which reads ONNX files: an engine in Rust, by one thread."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tract

from xbench.converters import UnsupportedOps
from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime, Unavailable
from xbench.runtimes.support import onnx_copy

LACKS = r"Unimplemented\((\w+)\)"  # in a message about an operator of ONNX's that it has none for


class Tract(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        if options.device != "cpu":
            raise Unavailable("tract: its package on PyPI has no CUDA device")
        self.path = str(artifact.onnx)
        self.operators: dict[str, int] = artifact.info["operators"]
        self.names = [item["name"] for item in artifact.info["inputs"]]

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        self.shapes = {name: array.shape for name, array in zip(self.names, inputs, strict=True)}
        self.runnable, order = compiled(self.path, self.shapes, self.operators)
        self.order = [self.names.index(name) for name in order]
        return True

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(tract.Tensor.from_numpy(array) for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        return self.runnable.run([inputs[place] for place in self.order])

    def wait(self, result: Any) -> None:
        pass  # run() returns when the outputs are computed

    def get(self, outputs: Any) -> list[np.ndarray]:
        return [tensor.to_numpy() for tensor in outputs]

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        """The ONNX file for the sizes that it was prepared for, and weights outside it."""
        return onnx_copy.of_one_size(self.path, folder, name, self.shapes)


def compiled(path: str, shapes: Mapping[str, Sequence[int]], operators: Mapping[str, int]) -> tuple[Any, list[str]]:
    """The file compiled for inputs of these shapes, and the names of its inputs in its order.

    Raises:
        UnsupportedOps: it lacks an operator; it names one of them.
    """
    with tempfile.TemporaryDirectory(prefix="xbench-tract-") as folder:
        # With an open batch its recurrent operators end the process; it takes no size for one that a file declares.
        fixed = onnx_copy.linked(path, Path(folder), shapes)
        try:
            model = tract.onnx().load(fixed)
            names = [model.input_name(place) for place in range(model.input_count())]
            return model.into_model().into_runnable(), names
        except tract.TractError as error:
            if match := re.search(LACKS, str(error)):
                raise UnsupportedOps({match[1]: operators.get(match[1], 1)}) from error
            raise RuntimeError(reason(str(error))) from error


def reason(message: str) -> str:
    """What it was doing and why it failed, without the places in its source."""
    doing, _, causes = message.partition("Stack backtrace:")[0].partition("Caused by:")
    return ": ".join(line.strip() for line in (*doing.splitlines(), *causes.splitlines()) if line.strip())
