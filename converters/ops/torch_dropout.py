"""Switches all of PyTorch's dropout in this process: layers, functions, and attention's dropout.

Modules may call `torch.nn.functional.dropout` without a layer, whose rate could not be set from outside.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

_DROPOUT = [True]  # whether dropout drops anything in this process
_ACTIVE = {"cpu": torch.ones(())}  # the same as 1 or 0, by device, for compiled code to read
_TRACED = [False]  # whether a function was compiled unchanged: Dynamo does not look inside functions with torch's names
EAGER = (torch.Tensor, nn.Parameter)


def _drops(x: torch.Tensor) -> bool:
    _TRACED[0] |= type(x) not in EAGER
    return _DROPOUT[0]


def _switched(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function, assigned=("__doc__",))  # with torch's own name Dynamo would not look inside
    def call(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        # In place the exporter sees no operator, but random numbers and a product, which cannot be switched off.
        return function(x, p, training and _drops(x), inplace and not torch.compiler.is_exporting())

    return call


def _of_channels(function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    """Dropout of whole channels, for images of this number of axes: to the exporter a product with dropped-out ones."""

    @functools.wraps(function, assigned=("__doc__",))
    def call(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        if torch.compiler.is_exporting() and x.dim() == axes + 2:
            ones = x.new_ones(*x.shape[:2], *[1] * axes)
            return x * nn.functional.dropout(ones, p, training)
        return function(x, p, training and _drops(x), inplace)

    return call


def _switched_attention(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function, assigned=("__doc__",))  # with torch's own name Dynamo would not look inside
    def call(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, *given: Any, **named: Any) -> Any:
        return function(q, k, v, attn_mask, dropout_p if _drops(q) else 0.0, *given, **named)

    return call


def _layer(self: nn.Dropout, x: torch.Tensor) -> torch.Tensor:
    """`nn.Dropout.forward`. Compiled, Inductor's own at its rate times a number that the code reads: the code
    proved while it drops nothing is the code that is timed."""
    if not (torch.compiler.is_dynamo_compiling() and self.training and 0 < self.p < 1) or self.inplace:
        return nn.functional.dropout(x, self.p, self.training, self.inplace)
    rate = self.p * _ACTIVE.get(x.device.type, _ACTIVE["cpu"])
    return (torch.rand_like(x) >= rate) * x * (1 / (1 - rate))


for _name in ("dropout", "alpha_dropout", "feature_alpha_dropout"):
    setattr(nn.functional, _name, _switched(getattr(nn.functional, _name)))
for _axes in (1, 2, 3):
    _name = f"dropout{_axes}d"
    setattr(nn.functional, _name, _of_channels(getattr(nn.functional, _name), _axes))
nn.functional.scaled_dot_product_attention = _switched_attention(nn.functional.scaled_dot_product_attention)
nn.Dropout.forward = _layer


def switch(active: bool) -> None:
    if _DROPOUT[0] != active and _TRACED[0]:
        torch.compiler.reset()
        _TRACED[0] = False
    if torch.cuda.is_initialized():
        _ACTIVE.setdefault("cuda", torch.ones((), device="cuda"))
    for number in _ACTIVE.values():
        number.fill_(active)
    _DROPOUT[0] = active


@contextlib.contextmanager
def dropping(active: bool) -> Iterator[None]:
    """In a context."""
    before = _DROPOUT[0]
    switch(active)
    try:
        yield
    finally:
        switch(before)
