"""Calls a user's module before it is exported: its own errors, and state that it changes, get their own message; and
differences between training and evaluation that one graph cannot express are detected in time.
"""

import contextlib
import copy
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import nn

from xbench.converters.frontends.onnx_file import plain
from xbench.converters.frontends.torch_call import BadCall, Leaves, output_paths
from xbench.converters.frontends.torch_random import Least, culprits
from xbench.converters.ops.torch_dropout import dropping

CLOSE = 1e-3  # relative to the largest value: evaluation has faster kernels, whose rounding differs
# Layers whose training form the converters support: dropout of others is off.
KNOWN = (nn.modules.batchnorm._BatchNorm, nn.RNNBase)
Arrays = Mapping[str, np.ndarray]


def only_evaluated(network: nn.Module, inputs: Arrays) -> str | None:
    """Calls a copy of a network, which shares its parameters, with arrays of these shapes. Returns why it has no graph
    that holds in training as well as in evaluation; None if it has one.

    Raises:
        BadCall: it raises an error, changes its inputs, or returns something else when called again.
    """
    copied = _copied(network)
    given, first = _first(copied, inputs)
    with torch.no_grad():
        again = _called(copied.eval(), given)
        if _differ(first, again):
            changed = [name for name, b in copied.named_buffers() if not _same(b, network.get_buffer(name))]
            why = f": it changes its buffer {changed[0]}" if changed else ""
            raise BadCall(f"gives another result when it is called again{why}")
    try:
        with _training(copied):
            trained = _called(copied, given)
            with Least():
                least = _called(copied, given)
    except Exception as error:
        return f"its training form raises {_described(error)}"
    if difference := _differ(first, trained) or _differ(first, least):
        with torch.no_grad(), dropping(False):
            said = culprits(copied, lambda seed: _called(copied, given, seed), _differ)
        return f"{difference}, as {said}" if said else difference
    differentiable = trained[0][1].requires_grad or not trained[0][1].is_floating_point()
    needed = any(p.requires_grad for p in copied.parameters()) and not differentiable
    return "its first output hands no gradient to its parameters" if needed else None


def _copied(network: nn.Module) -> nn.Module:
    """A copy with its own buffers and cached values; parameters are shared."""
    with contextlib.suppress(Exception):  # not all can be copied, and a copy of a torch.fx module has another class
        copied = copy.deepcopy(network, {id(p): p for p in network.parameters()})
        return copied if type(copied) is type(network) else network
    return network


def _first(network: nn.Module, inputs: Arrays) -> tuple[list[torch.Tensor], Leaves]:
    """Arrays that it accepts, and its result: integers are zeros, or ones if it rejects zeros."""
    raised: list[Exception] = []
    for integer in (0, 1):
        given = [_drawn(array, integer) for array in inputs.values()]
        copies = [tensor.clone() for tensor in given]
        try:
            with torch.no_grad():
                result = _called(network.eval(), copies)
        except BadCall:
            raise
        except Exception as error:
            raised.append(error)
            continue
        for name, before, after in zip(inputs, given, copies, strict=True):
            if not _same(before, after):
                raise BadCall(f"changes its input {name} in place: let it change a copy, as of {name}.clone()")
        return given, result
    raise BadCall(f"raises {_described(raised[0])}") from raised[0]


def _drawn(array: np.ndarray, integer: int) -> torch.Tensor:
    if array.dtype.kind != "f":
        return torch.from_numpy(np.full_like(array, integer))
    return torch.from_numpy(np.random.default_rng(0).normal(size=array.shape).astype(array.dtype))


def _called(network: nn.Module, given: list[torch.Tensor], seed: int = 0) -> Leaves:
    torch.manual_seed(seed)  # a network may draw numbers in evaluation, too
    outputs = network(*given)
    return [(path, tensor.clone()) for path, tensor in zip(output_paths(network), outputs, strict=True)]


@contextlib.contextmanager
def _training(network: nn.Module) -> Iterator[None]:
    for layer in network.train().modules():
        layer.training &= not isinstance(layer, KNOWN)
    with dropping(False):
        yield


def _differ(expected: Leaves, actual: Leaves) -> str | None:
    """What differs between two results; None if they are the same."""
    if [path for path, _ in expected] != [path for path, _ in actual]:
        return f"its training form has {len(actual)} outputs, its evaluation {len(expected)}"
    for (path, a), (_, b) in zip(expected, actual, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype or not _same(a, b, CLOSE):
            where = f" in its output {path}" if path and not path.isdecimal() else ""
            return f"its training form computes something else{where}"
    return None


def _same(a: torch.Tensor, b: torch.Tensor, close: float = 0.0) -> bool:
    if a.is_complex() or not a.is_floating_point():
        return torch.equal(a, b)
    a, b = a.detach().double(), b.detach().double()
    scale = float(a[a.isfinite()].abs().max()) if a.isfinite().any() else 0.0
    return torch.allclose(a, b, rtol=0.0, atol=close * scale, equal_nan=True)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {plain(error)}"
