"""PyTorch under `torch.compile` (Inductor). Shapes are static; compilation happens inside the first call."""

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.config

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options
from xbench.runtimes.torch import Torch


def torch_compile(artifact: Artifact, options: Options) -> Torch:
    mode, backend = options.extra.get("mode"), options.extra.get("backend", "inductor")

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        made: Callable[..., Any] = torch.compile(function, dynamic=False, mode=mode, backend=backend)
        keep_headers()
        return made

    # Inductor's kernels of int8 take weights that are constants. As an option of torch.compile it fails in torch 2.13:
    # "UnsupportedOperatorException: onednn.qconv_prepack.default".
    torch._inductor.config.freezing = options.precision == "int8"
    return Torch(artifact, options, compiled)


def keep_headers() -> None:
    """Keeps the precompiled headers of kernels where kernels are kept. Inductor has them in the folder for temporary
    files, of which a worker has its own: the first call of each worker would compile them, which takes seconds."""
    codecache, folder = sys.modules.get("torch._inductor.codecache"), os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if folder and hasattr(codecache, "_HEADER_DIR"):
        codecache._HEADER_DIR = os.path.join(folder, "precompiled_headers")  # type: ignore[union-attr]
        codecache._HEADER_LOCK_DIR = os.path.join(folder, "precompiled_headers", "locks")  # type: ignore[union-attr]
