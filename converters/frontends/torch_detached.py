"""Exports what passes on no gradient: `Tensor.detach` and results computed under `torch.no_grad`.

ONNX has no operator for either. During export it is an Identity in our own domain, which no pass removes; then an
ordinary one marked in its `metadata_props`.
"""

import contextlib
import functools
import inspect
from collections.abc import Collection, Iterator
from typing import Any

import onnx_ir as ir
import torch
from onnxscript import opset18 as op
from torch import nn
from torch.overrides import TorchFunctionMode

from xbench.converters import DETACHED

OURS = "xbench"


class _Detaching(TorchFunctionMode):
    """Detaches every result that is computed without gradients, which the exporter's graph does not tell. Not within a
    `torch.autograd.Function`: it has a gradient, though its `forward` runs without."""

    within = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        fresh = isinstance(result, torch.Tensor) and not any(result is given for given in args)
        without = fresh and result.is_floating_point() and not torch.is_grad_enabled() and not self.within
        return result.detach() if without else result

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Notices when a function with a gradient of its own is called."""
        apply = torch.autograd.Function.__dict__["apply"]

        def counted(cls: Any, *args: Any, **kwargs: Any) -> Any:
            self.within += torch.is_grad_enabled()
            try:
                return apply.__func__(cls, *args, **kwargs)
            finally:
                self.within -= torch.is_grad_enabled()

        torch.autograd.Function.apply = classmethod(counted)  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            torch.autograd.Function.apply = apply  # type: ignore[method-assign]


@contextlib.contextmanager
def detaching(module: nn.Module) -> Iterator[None]:
    """While a module is exported."""
    forward, own = module.forward, "forward" in vars(module)

    @functools.wraps(forward)
    def call(*inputs: Any) -> Any:
        with _Detaching() as mode, mode.watching():
            return forward(*inputs)

    call.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]  # without the module itself
    module.forward = call
    try:
        yield
    finally:
        if own:
            module.forward = forward
        else:
            del module.forward


def detach(x: Any) -> Any:
    """aten::detach."""
    y = op.Identity(x)
    y.producer().domain = OURS
    return y


def drop_idle(model: ir.Model, trainable: Collection[str]) -> None:
    """Removes detached values that depend on no parameter: constants, of which the exporter makes many."""
    reached = {value for name, value in model.graph.initializers.items() if name in trainable}
    for node in list(model.graph):
        depends = any(value in reached for value in node.inputs)
        if node.domain == OURS and not depends and not node.outputs[0].is_graph_output():
            assert node.inputs[0] is not None
            ir.convenience.replace_all_uses_with(node.outputs[0], node.inputs[0])
            model.graph.remove(node, safe=True)
        elif depends and node.domain != OURS:
            reached.update(node.outputs)


def write(model: ir.Model) -> None:
    """Makes the remaining ones ordinary Identity nodes."""
    for node in (node for node in model.graph.all_nodes() if node.domain == OURS):
        node.domain = ""
        node.metadata_props[DETACHED] = "1"
    model.graph.opset_imports.pop(OURS, None)
