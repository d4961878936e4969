"""PyTorch under `torch.compile` (Inductor). Shapes are static; compilation happens inside the first call."""

import torch

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options
from xbench.runtimes.torch import Torch


def torch_compile(artifact: Artifact, options: Options) -> Torch:
    mode, backend = options.extra.get("mode"), options.extra.get("backend", "inductor")
    return Torch(artifact, options, lambda function: torch.compile(function, dynamic=False, mode=mode, backend=backend))
