"""Sizes and checks while a module is traced: the size of the batch stays symbolic, that of a selection is only known at
run time, and so is any value that one of PyTorch's own functions checks.

`if index.numel() == 0` has then no answer. PyTorch's own operators take such a size to be neither 0 nor 1, and so does
the graph here. A reference is computed by the module, too: if a selection is empty and that matters, it says so.
"""

import builtins
import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from torch._C import DispatchKey
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode


@torch.ops.aten.take_along_dim.default.py_impl(DispatchKey.CompositeImplicitAutograd)
def _take_along_dim(x: torch.Tensor, index: torch.Tensor, axis: int | None = None) -> torch.Tensor:
    """`torch.take_along_dim`, whose own form makes the batch a number. Shapes broadcast, except along the axis."""
    if axis is None:
        return x.reshape(-1).gather(0, index.reshape(-1))
    axis %= x.dim()
    before, after = [
        torch.broadcast_shapes(*(each.shape[part] for each in (x, index)))
        for part in (slice(axis), slice(axis + 1, None))
    ]
    x, index = [each.expand(*before, each.shape[axis], *after) for each in (x, index)]
    return x.gather(axis, index)


@torch.ops.aten.cov.default.py_impl(DispatchKey.CompositeImplicitAutograd)
def _covariance(x: torch.Tensor, correction: int = 1, counts: Any = None, weights: Any = None) -> torch.Tensor:
    """`torch.cov`, whose own form checks values even where it has no weights.

    Raises:
        NotImplementedError: it has some.
    """
    if counts is not None or weights is not None:
        raise NotImplementedError("torch.cov with weights")
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    centered = rows - rows.mean(1, keepdim=True)
    result = centered @ centered.mT / (rows.shape[1] - correction)
    return result.reshape(()) if x.dim() < 2 else result


def _unchecked(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A loss without its check that no variance is negative."""

    @functools.wraps(loss)
    def unchecked(*given: Any, **options: Any) -> torch.Tensor:
        with mock.patch.object(torch, "any", lambda *_: False):
            return loss(*given, **options)

    return unchecked


def _length(x: Any) -> Any:
    """`len` that may be symbolic: Python takes a number alone from `Tensor.__len__`."""
    return x.shape[0] if isinstance(x, torch.Tensor) and x.dim() else builtins.len(x)


@contextlib.contextmanager
def sizes(module: nn.Module) -> Iterator[None]:
    """While it is open, `len` is symbolic in the files of a module's layers, a selection has several elements, and no
    loss checks a value."""
    evaluate = SymNode.evaluate

    def decided(node: Any, size_oblivious: bool = False) -> Any:
        try:
            return evaluate(node, size_oblivious)
        except GuardOnDataDependentSymNode:
            if size_oblivious:
                raise
            return evaluate(node, True)

    files = [names for names in _files(module) if "len" not in names]
    SymNode.evaluate = decided
    for names in files:
        names["len"] = _length
    try:
        with mock.patch.object(F, "gaussian_nll_loss", _unchecked(F.gaussian_nll_loss)):
            yield
    finally:
        SymNode.evaluate = evaluate
        for names in files:
            names.pop("len", None)


def _files(module: nn.Module) -> list[dict[str, Any]]:
    """The names of each file with a method of its layers, but of PyTorch's own: they read no length of a tensor."""
    classes = {kind for layer in module.modules() for kind in type(layer).__mro__}
    methods = [inspect.unwrap(each) for kind in classes for each in vars(kind).values() if inspect.isfunction(each)]
    files = {id(each.__globals__): each.__globals__ for each in methods}
    return [names for names in files.values() if not str(names.get("__name__")).startswith("torch.")]
