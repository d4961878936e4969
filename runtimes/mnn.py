"""MNN on the CPU: its own converter reads the ONNX file, for one size of the inputs."""

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import _tools  # MNN's converter; its command also sends the maker what was converted, and calls pip for that
import numpy as np
import onnx
from MNN import expr, nn

from xbench.converters import UnsupportedOps
from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime, Unavailable
from xbench.runtimes.support import onnx_copy

CPU = 0
WINOGRAD = 3  # the hint WINOGRAD_MEMORY_LEVEL: how many sizes of its tiles are candidates; 3 unless set, 0 for few
LACKS = r"These Op Not Support: (.+)"  # what the converter prints
FLOATS, WHOLE = ("float32", "float16"), ("int32", "int64", "uint8", "int8", "bool")  # it computes with 32 bits of both


class MNN(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        if options.device != "cpu":
            raise Unavailable("mnn: its package on PyPI has no CUDA device")
        self.path, self.threads = str(artifact.onnx), options.threads
        self.operators: dict[str, int] = artifact.info["operators"]
        self.names = [item["name"] for item in artifact.info["inputs"]]
        self.outputs: list[str] = artifact.info["outputs"]
        self.bools = _bools(artifact.onnx, self.outputs)
        self.winograd = options.extra.get("winograd", "3")
        self.form = b""

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        shapes = {name: array.shape for name, array in zip(self.names, inputs, strict=True)}
        self.form = converted(self.path, shapes, self.operators)
        manager = nn.create_runtime_manager(({"backend": CPU, "numThread": self.threads, "precision": "high"},))
        manager.set_hint(WINOGRAD, int(self.winograd))
        with tempfile.TemporaryDirectory(prefix="xbench-mnn-") as folder:
            (Path(folder) / "model.mnn").write_bytes(self.form)
            self.module = nn.load_module_from_file(
                str(Path(folder) / "model.mnn"), self.names, self.outputs, runtime_manager=manager
            )
        return True

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(_variable(array) for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        return self.module.forward(list(inputs))

    def wait(self, result: Any) -> None:
        pass  # forward() returns when the outputs are computed

    def get(self, outputs: Any) -> list[np.ndarray]:
        arrays = (np.array(expr.convert(value, expr.NCHW).read()) for value in outputs)
        return [array.astype(bool) if is_bool else array for is_bool, array in zip(self.bools, arrays, strict=True)]

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        """MNN's own file, for the size that it was prepared for."""
        (folder / f"{name}.mnn").write_bytes(self.form)
        return (f"{name}.mnn",)


def converted(path: str, shapes: Mapping[str, Sequence[int]], operators: Mapping[str, int]) -> bytes:
    """MNN's own form of a file.

    Raises:
        UnsupportedOps: the converter lacks operators, all of which it names.
    """
    with tempfile.TemporaryDirectory(prefix="xbench-mnn-") as folder:
        fixed, made = onnx_copy.linked(path, Path(folder), shapes), Path(folder) / "model.mnn"
        words = ["mnnconvert", "-f", "ONNX", "--modelFile", str(fixed), "--MNNModel", str(made), "--bizCode", "xbench"]
        # Without the last word a recurrent operator ends the process.
        printed = _printed(lambda: _tools.mnnconvert([*words, "--useOriginRNNImpl"]))
        if made.exists():
            return made.read_bytes()
    if not (match := re.search(LACKS, printed)):
        raise RuntimeError("its converter made no file: " + printed.strip().rpartition("\n")[2])
    names = [word.removeprefix("ONNX::") for word in match[1].split()]
    raise UnsupportedOps({name: operators.get(name, 1) for name in names})


def _bools(path: Path, outputs: Sequence[str]) -> list[bool]:
    """Which outputs are bool in the file. In MNN they are 0 and 1."""
    made = onnx.load(path, load_external_data=False).graph.output
    types = {value.name: value.type.tensor_type.elem_type for value in made}
    return [types[name] == onnx.TensorProto.BOOL for name in outputs]


def _variable(array: np.ndarray) -> Any:
    """
    Raises:
        Unavailable: it has no arrays of such a type.
    """
    if array.dtype.name in FLOATS:
        return expr.const(array.astype(np.float32), list(array.shape), expr.NCHW, expr.float)
    if array.dtype.name in WHOLE:
        return expr.const(array.astype(np.int32), list(array.shape), expr.NCHW, expr.int)
    raise Unavailable(f"mnn has no arrays of {array.dtype.name}")


def _printed(call: Callable[[], object]) -> str:
    """What native code writes to this process's output during a call."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            call()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode(errors="replace")
