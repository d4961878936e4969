"""PyTorch's times of single layers, by hooks around the modules without children."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from xbench.runtimes import Layer


def layers_of(module: nn.Module, step: Callable[[], None], wait: Callable[[], None], count: int) -> list[Layer]:
    """Seconds of every innermost module in each of `count` steps, all its calls in one step together; `wait` returns
    when the device is idle. Computation between modules is in none of them."""
    seconds: dict[str, list[float]] = {}
    begun: dict[str, float] = {}

    def watched(name: str, each: nn.Module) -> list[Any]:
        def begin(*_: Any) -> None:
            wait()
            begun[name] = time.perf_counter()

        def end(*_: Any) -> None:
            wait()
            seconds.setdefault(name, []).append(time.perf_counter() - begun[name])

        return [each.register_forward_pre_hook(begin), each.register_forward_hook(end)]

    inner = {name: each for name, each in module.named_modules() if name and next(each.children(), None) is None}
    handles = [handle for name, each in inner.items() for handle in watched(name, each)]
    try:
        for _ in range(count):
            step()
    finally:
        for handle in handles:
            handle.remove()
    return [
        Layer(name, type(inner[name]).__name__, np.reshape(times, (count, -1)).sum(1).tolist())
        for name, times in seconds.items()
    ]
