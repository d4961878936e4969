"""Switches all of PyTorch's dropout in this process: layers, functions, and what attention does with one.

Modules may call `torch.nn.functional.dropout` with no layer of their own, which nobody could find to set its rate.
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

_DROPOUT = [True]  # whether dropout drops anything in this process


def _switched(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function, assigned=("__doc__",))  # with torch's own name Dynamo would not look inside
    def call(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        # In place it is no operator to the exporter, but random numbers and a product, that nothing could switch off.
        return function(x, p, training and _DROPOUT[0], inplace and not torch.compiler.is_exporting())

    return call


def _of_channels(function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    """Dropout of whole channels, for images of so many axes: to the exporter a product with ones that were dropped."""

    @functools.wraps(function, assigned=("__doc__",))
    def call(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        if torch.compiler.is_exporting() and x.dim() == axes + 2:
            ones = x.new_ones(*x.shape[:2], *[1] * axes)
            return x * nn.functional.dropout(ones, p, training)
        return function(x, p, training and _DROPOUT[0], inplace)

    return call


def _switched_attention(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function, assigned=("__doc__",))  # with torch's own name Dynamo would not look inside
    def call(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, *given: Any, **named: Any) -> Any:
        return function(q, k, v, attn_mask, dropout_p if _DROPOUT[0] else 0.0, *given, **named)

    return call


for _name in ("dropout", "alpha_dropout", "feature_alpha_dropout"):
    setattr(nn.functional, _name, _switched(getattr(nn.functional, _name)))
for _axes in (1, 2, 3):
    _name = f"dropout{_axes}d"
    setattr(nn.functional, _name, _of_channels(getattr(nn.functional, _name), _axes))
nn.functional.scaled_dot_product_attention = _switched_attention(nn.functional.scaled_dot_product_attention)


def switch(active: bool) -> None:
    if _DROPOUT[0] != active and "torch._dynamo" in sys.modules:
        torch.compiler.reset()  # compiled code keeps what it was traced with
    _DROPOUT[0] = active


@contextlib.contextmanager
def dropping(active: bool) -> Iterator[None]:
    """For a while."""
    before = _DROPOUT[0]
    switch(active)
    try:
        yield
    finally:
        switch(before)
