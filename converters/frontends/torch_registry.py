"""What PyTorch's exporter does slowly or wrongly, mended in this process: it parses the source of all its functions at
every export, promotes no number before a minus, and orders sums by the batch that it has seen."""

import copy
import functools
from typing import Any

import torch

try:
    from torch.onnx._internal.exporter._registration import ONNXRegistry
except ImportError:  # another version of PyTorch, which reads it every time
    ONNXRegistry: Any = None  # type: ignore[no-redef]
try:
    from torch.onnx._internal.fx.passes import type_promotion
except ImportError:
    type_promotion: Any = None  # type: ignore[no-redef]

# Left to PyTorch, which splits them into simpler operators. The exporter's own form of the cross entropy drops the
# smoothing of labels, takes probabilities for labels, and a loss of each sample for one number (torch 2.13).
DECOMPOSED = ("aten::cross_entropy_loss", "aten::nll_loss")


def mend() -> None:
    read_once()
    promote_differences()
    torch.backends.opt_einsum.enabled = False  # its choice of an order makes the batch a number


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


def promote_differences() -> None:
    """Makes the exporter accept `1.0 - mask` of integers: it promotes the mask, and then finds no overload of `sub`
    that takes a number first, though the one it had does (torch 2.13)."""
    find = getattr(type_promotion, "find_compatible_op_overload", None)
    if find is None or getattr(find, "takes_numbers", False):
        return

    def find_overload(op: Any, args: Any, kwargs: Any) -> Any:
        if op == torch.ops.aten.sub and isinstance(args[0], (int, float)):
            return torch.ops.aten.sub.Tensor
        return find(op, args, kwargs)

    find_overload.takes_numbers = True  # type: ignore[attr-defined]
    type_promotion.find_compatible_op_overload = find_overload
