"""PyTorch's exported programs, which run without the network's Python code: `torch_export`, compiled ahead of time by
Inductor (AOTInductor), and `torchscript`, the older form."""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime
from xbench.runtimes.support.torch_exported import exported_program
from xbench.runtimes.torch import ProgramModule, Torch, set_dropout
from xbench.runtimes.torch_compile import keep_headers

Program = Callable[..., Any]


class Exported(Runtime):
    """A subclass defines the form of the program for inputs of one size: how it is written to a file, and loaded."""

    suffix = ""

    def __init__(self, artifact: Artifact, options: Options) -> None:
        self.torch = Torch(artifact, options)
        self.folder = tempfile.mkdtemp(prefix="xbench-exported-")
        self.file = Path(self.folder, f"model{self.suffix}")

    def written(self, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        raise NotImplementedError

    def loaded(self) -> Program:
        raise NotImplementedError

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        set_dropout(self.torch.module, False)
        with torch.no_grad():
            self.written(self.torch.module.eval(), self.put(inputs))
        self.program = self.loaded()
        return True

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return self.torch.put(arrays)

    def forward(self, *inputs: Any) -> Any:
        with torch.inference_mode():
            outputs = self.program(*inputs)
        return outputs if isinstance(outputs, (tuple, list)) else (outputs,)

    def wait(self, result: Any) -> None:
        self.torch.wait(result)

    def get(self, outputs: Any) -> list[np.ndarray]:
        return self.torch.get(outputs)

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        shutil.copyfile(self.file, folder / f"{name}{self.suffix}")
        return (f"{name}{self.suffix}",)


class TorchExport(Exported):
    suffix = ".pt2"

    def written(self, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        exported = torch.export.export(module, inputs, strict=False)
        keep_headers()
        torch._inductor.aoti_compile_and_package(exported, package_path=os.fspath(self.file))

    def loaded(self) -> Program:
        loaded: Program = torch._inductor.aoti_load_package(os.fspath(self.file))
        return loaded


class TorchScript(Exported):
    suffix = ".pt"

    def written(self, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        if isinstance(module, ProgramModule):  # a trace has tensors for the numbers of a shape, which NumPy cannot take
            module = exported_program(module, inputs)
        traced = torch.jit.freeze(torch.jit.trace(module, inputs, check_trace=False).eval())
        torch.jit.save(traced, os.fspath(self.file))

    def loaded(self) -> Program:
        loaded: Program = torch.jit.load(os.fspath(self.file))
        return loaded
