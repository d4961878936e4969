"""The exporter's table of operators, read once per process: it parses the source of its functions every time."""

import copy
import functools
from typing import Any

try:
    from torch.onnx._internal.exporter._registration import ONNXRegistry
except ImportError:  # another version of PyTorch, which reads it every time
    ONNXRegistry: Any = None  # type: ignore[no-redef]

# Left to PyTorch, which splits them into simpler operators. The exporter's own form of the cross entropy drops the
# smoothing of labels, takes probabilities for labels, and a loss of each sample for one number (torch 2.13).
DECOMPOSED = ("aten::cross_entropy_loss", "aten::nll_loss")


def read_once() -> None:
    """Makes every export of this process start with a copy of one table."""
    if ONNXRegistry is None or hasattr(ONNXRegistry.from_torchlib, "cache_info"):
        return
    read = functools.cache(ONNXRegistry.from_torchlib)

    def from_torchlib(*given: Any, **options: Any) -> Any:
        registry = copy.copy(read(*given, **options))
        registry.functions = {t: [*each] for t, each in registry.functions.items() if t not in DECOMPOSED}
        return registry

    from_torchlib.cache_info = read.cache_info  # type: ignore[attr-defined]
    ONNXRegistry.from_torchlib = staticmethod(from_torchlib)  # type: ignore[method-assign, assignment]
