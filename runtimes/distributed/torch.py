"""PyTorch's engine: DistributedDataParallel over `torch.distributed`, by gloo on CPUs and NCCL on GPUs."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options
from xbench.runtimes.distributed import Engine
from xbench.runtimes.torch import Torch


class TorchEngine(Engine, Torch):
    """The module of `runtimes/torch.py`, in DistributedDataParallel if there are several workers."""

    early = True

    def __init__(self, artifact: Artifact, options: Options) -> None:
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
        self.wrapped: Any = None
        self.alone = False
        super().__init__(artifact, options)

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        compiled = super().prepare(inputs, labels, dropout)
        if self.wrapped is None:
            self.wrapped = DistributedDataParallel(self.module) if dist.get_world_size() > 1 else self.module
        return compiled

    def apart(self, active: bool) -> None:
        self.alone = active

    def forward(self, *inputs: Any) -> Any:
        self.traced = self.module
        return super().forward(*inputs)

    def gradients(self, inputs: Sequence[Any], labels: Any) -> tuple[Any, Any]:
        self.traced = self.wrapped
        with self.wrapped.no_sync() if self.alone and self.wrapped is not self.module else contextlib.nullcontext():
            return super().gradients(inputs, labels)

    def messages(self) -> list[int]:
        """The buckets of DistributedDataParallel: those of the last layers first."""
        if self.wrapped is self.module:
            return [sum(p.numel() * p.element_size() for p in self.parameters)]
        logged = self.wrapped._get_ddp_logging_data()
        return [int(size) for size in (logged.get("rebuilt_bucket_sizes") or logged["bucket_sizes"]).split(",")]

    def reduction(self) -> Callable[[], object]:
        buckets = [torch.zeros(size // 4, device=self.device) for size in self.messages()]
        return lambda: self._averaged(buckets)

    def exchange(self, count: int) -> Callable[[], object]:
        arrays = [torch.zeros(count, device=self.device)]
        return lambda: self._averaged(arrays)

    def _averaged(self, arrays: list[torch.Tensor]) -> None:
        """As in DistributedDataParallel: divided, and then summed."""
        works = []
        for array in arrays:
            array.div_(dist.get_world_size())
            works.append(dist.all_reduce(array, async_op=True))
        for work in works:
            work.wait()
        self.wait(None)
