"""Computes a network in PyTorch in any floating type: its outputs, gradients and training steps."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from xbench.converters import Program
from xbench.converters.artifact import Artifact
from xbench.converters.autodiff.loss import loss_of
from xbench.converters.ops import torch as ops
from xbench.converters.ops.torch_dropout import dropping
from xbench.converters.ops.torch_types import HALVES, from_numpy, lifted, to_numpy
from xbench.parity.verdict import loss_by_step
from xbench.runtimes.torch import (
    ProgramModule,
    module_of,
    named_tensors,
    optimizer_of,
    optimizer_state,
    set_dropout,
    trainable,
    update,
)

Tensors = dict[str, np.ndarray]
Batch = tuple[Sequence[np.ndarray], np.ndarray]  # inputs in the order of the graph, labels
Loss = Callable[[Sequence[torch.Tensor], torch.Tensor], torch.Tensor]  # of outputs and labels
NOTHING = contextlib.nullcontext()
MOVED_ULPS = 256
MOVED_SHARE = math.sqrt(MOVED_ULPS)


def run(
    artifact: Artifact,
    mode: str,
    batches: Sequence[Batch],
    dtype: torch.dtype,
    moved: int | None = None,
    exported: bool = False,
    share: float = MOVED_ULPS * 2.0**-24,
    watch: contextlib.AbstractContextManager[object] = NOTHING,
) -> Tensors:
    """Every tensor to compare, computed in one floating type; `moved` is the seed (`moves`) of a change of all weights
    by a `share` of them; `exported` takes the graph of a module instead of the module; `watch` is active while the
    outputs of mode forward are computed."""
    with default_type(dtype), dropping(False):
        made = ProgramModule(artifact.program()) if exported else module_of(artifact)
        module = in_type(made, dtype).train(mode != "forward")
        set_dropout(module, active=False)
        if moved is not None:
            move(module, moved, share)
        if mode == "forward":
            with torch.no_grad(), watch:
                outputs = outputs_of(module, arrays(batches[0][0], dtype))
            return named("output", dict(zip(artifact.info["outputs"], outputs, strict=True)))
        given = [(arrays(inputs, dtype), arrays([labels], dtype)[0]) for inputs, labels in batches]
        return trained(artifact.info, module, given, mode)


def evaluated(artifact: Artifact) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """Forward in float64 as a function, for many inputs: the network is made once."""
    with default_type(torch.float64), dropping(False):
        module = in_type(module_of(artifact), torch.float64).eval()

    def outputs(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        with default_type(torch.float64), dropping(False), torch.no_grad():
            return [to_numpy(each).copy() for each in outputs_of(module, arrays(inputs, torch.float64))]

    return outputs


def values(program: Program, inputs: Sequence[np.ndarray], training: bool) -> Tensors:
    """The outputs of a program in float64 by name, without those that are no tensors."""
    with default_type(torch.float64), dropping(False), torch.no_grad():
        module = in_type(ProgramModule(program), torch.float64).train(training)
        set_dropout(module, active=False)
        outputs = dict(zip(program.outputs, outputs_of(module, arrays(inputs, torch.float64)), strict=True))
    tensors = {n: to_numpy(v) if isinstance(v, torch.Tensor) else v for n, v in outputs.items()}
    return {name: value for name, value in tensors.items() if isinstance(value, np.ndarray)}  # shapes come as NumPy


def in_type(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The network with its floats in a type; those of 8 bits stay, as their type says how to round to them."""
    return module._apply(lambda t: t.to(dtype) if t.is_floating_point() and t.itemsize > 1 else t)


def arrays(inputs: Sequence[np.ndarray], dtype: torch.dtype) -> list[torch.Tensor]:
    """Inputs as tensors; float32 and 16-bit floats are converted to the type to compute in."""
    return [from_numpy(a).to(dtype) if a.dtype.name in ("float32", *HALVES) else from_numpy(a) for a in inputs]


def moves(count: int) -> list[int]:
    """Seeds of `move`, in pairs: what one run moves up its twin moves down, so that one of them carries the input of a
    ReLU that is nearly zero across its kink. Of two independent runs none does in a quarter of all cases."""
    return [~(each // 2) if each % 2 else each // 2 for each in range(count)]


def move(module: nn.Module, seed: int, share: float = MOVED_ULPS * 2.0**-24) -> None:
    """Changes every weight by a random part of `share` of it; the seed ~n by the same as n the other way."""
    generator = torch.Generator().manual_seed(max(seed, ~seed))
    share = share if seed >= 0 else -share
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(1 + share * (2 * torch.rand(p.shape, generator=generator) - 1))


def is_batched(info: Mapping[str, Any]) -> bool:
    """Whether the first axis of every input is the batch, where it may be anything otherwise."""
    given = info["inputs"]
    return bool(given) and all(item["shape"][:1] == ["batch"] for item in given)


def flipped(batch: Batch) -> Batch:
    """A batch with its samples in the reverse order."""
    inputs, labels = batch
    return [array[::-1].copy() for array in inputs], labels[::-1].copy()


def outputs_of(module: nn.Module, given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    outputs = module(*given)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def trained(
    info: Mapping[str, Any],
    module: nn.Module,
    batches: Sequence[tuple[list[torch.Tensor], torch.Tensor]],
    mode: str,
    changed: Callable[[Loss], Loss] | None = None,
    update: Callable[..., None] = update,
) -> Tensors:
    """Loss and gradients of the first batch; for mode step the loss of every batch, one step each, and all weights
    and the optimizer's arrays after the last. `info` is the artifact's: its loss, update rule, statistics; `changed`
    maps the loss to another; `update` is that of `runtimes/torch.py`."""
    rule, loss_function = dict(info["optimizer"]), loss_of(ops, info["loss"])
    loss_function = changed(loss_function) if changed else loss_function
    tensors, parameters = named_tensors(module), trainable(module)
    optimizer = optimizer_of(rule, list(parameters.values()))
    losses = []
    for count, (given, labels) in enumerate(batches if mode == "step" else batches[:1], 1):
        optimizer.zero_grad()
        loss = loss_function(outputs_of(module, given), labels)
        loss.backward()
        losses.append(loss.detach())
        if mode == "step":
            update(optimizer, rule, count)
    if mode == "gradient":
        grads = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in parameters.items()}
        return {"loss": np.array([float(losses[0])]), **named("gradient", grads)}
    weights = {name: tensors[name] for name in (*parameters, *info["statistics"])}
    kept = optimizer_state(optimizer, parameters)
    return {**loss_by_step(map(float, losses)), **named("weight", weights), **named("optimizer", kept)}


def named(kind: str, tensors: Mapping[str, torch.Tensor]) -> Tensors:
    """Copies of tensors as arrays, by their names in a reference."""
    return {f"{kind}/{name}": to_numpy(value).copy() for name, value in tensors.items()}


@contextlib.contextmanager
def subnormal(kept: bool) -> Iterator[None]:
    """Keeps subnormal numbers or flushes them to zero, as x86 and ARM can. The setting is per thread, so flushing uses
    one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(threads if kept else 1)
    torch.set_flush_denormal(not kept)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)


@contextlib.contextmanager
def default_type(dtype: torch.dtype) -> Iterator[None]:
    """Sets PyTorch's default type for new arrays, which the operator table uses for ONNX's float, and for its 16-bit
    floats, whose casts round. A network of float32 has the limits of float32, whatever it is computed in: a module that
    fills a mask with the least number of its inputs' type would make NaN of -1.8e308."""
    before, limits = torch.get_default_dtype(), torch.finfo

    def float32_limits(kind: torch.dtype = torch.float32) -> torch.finfo:
        return limits(torch.float32 if kind == torch.float64 else kind)

    torch.set_default_dtype(dtype)
    vars(torch)["finfo"] = float32_limits
    try:
        with lifted():
            yield
    finally:
        torch.set_default_dtype(before)
        vars(torch)["finfo"] = limits
