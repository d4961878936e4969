"""The environment variables of a worker."""

import os
import platform
import re
from pathlib import Path

from xbench.converters import cache

# Memory that a step frees stays with the process. By glibc's own rule it varies from process to process whether it
# is released, and its pages faulted in again by the next step: PyTorch takes 29 or 39 ms for one of lstm_ptb, JAX 34
# to 49 (tools/measure/allocator.txt). One arena, because those of other threads are released whatever the thresholds.
# Before 2.35 glibc accepts no larger number for the first.
NEW = tuple(map(int, re.findall(r"\d+", platform.libc_ver()[1]))) >= (2, 35)
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30 if NEW else 2**25), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
MEMORY |= {"MALLOC_ARENA_MAX": "1"}
# Threads of GNU's OpenMP spin 300,000 times before they sleep, and an operator ends when all have ended: beside busy
# processes an oracle took up to 12 times as long. A worker that times nothing spins less
# (tools/measure/oracle_time.txt).
PATIENT = {"GOMP_SPINCOUNT": "500"}


def environment(device: str, threads: int, folder: Path | None = None, timed: bool = True) -> dict[str, str]:
    """The worker's environment: the same number of threads for every library, float32 computed as float32; its
    temporary files are in the `folder` of its parent, which removes it at the end. `timed` is False for a worker that
    times nothing."""
    settings = dict(os.environ) | ({"TMPDIR": str(folder.absolute())} if folder else {})
    for name in ("OMP", "MKL", "OPENBLAS", "TVM", "VECLIB_MAXIMUM", "NUMEXPR"):
        settings[f"{name}_NUM_THREADS"] = str(threads)
    settings.pop("ONEDNN_DEFAULT_FPMATH_MODE", None)  # would let oneDNN compute in bfloat16
    settings = MEMORY | ({} if timed else PATIENT) | settings
    settings |= {
        "NVIDIA_TF32_OVERRIDE": "0",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONUNBUFFERED": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": str(threads),
    }
    settings["XBENCH_CACHE"] = str(cache.root())
    settings.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache.root() / "inductor"))
    if device == "cpu":
        settings |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    else:  # JAX would take three quarters of the GPU's memory, which all live cells share
        settings.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return settings
