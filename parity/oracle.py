"""The oracle: the network in float64 PyTorch, and the noise floor: what float32 PyTorch loses against it, per tensor.

A reference is one `.npz` file: the inputs, every tensor to compare in float64, and for each tensor the two floors of
`xbench.parity.verdict`. The floor is the largest error of several float32 runs, because one alone may be lucky. They
differ in the order of their sums (the samples of the batch reversed, oneDNN on and off) and in whether what is below
float32's normal numbers is zero: TensorFlow and XLA make it so, PyTorch by itself does not. Both are float32, so of a
network whose signal vanishes nothing can be told.

Gradients have kinks: a ReLU input that rounding carries across zero changes them by far more than rounding itself.
ResNet-50 has 20 million such inputs a batch of 2, and correct runtimes met kinks in layers where no plain float32 run
did: 11,669 floors off. So in training two more runs move every weight by about 256 units in the last place, and meet
all the kinks that rounding may meet. Errors made by kinks grow with the square root of the noise (they add up with
random signs; MobileNetV2: 3.6e-3 with float32's noise, 3.3e-2 with 256 times as much), so a sixteenth of their error is
a floor too. The verdict allows 64 floors: 4 times what noise of 2^-16 does. TF32 is noise of 2^-11.

What is told to compute in less has a floor of that precision, too (`lower/`): the largest error of three float32 runs
whose weights are moved by as much as rounding them to it may move them.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from xbench.converters import Program
from xbench.converters import torch as ops
from xbench.converters.artifact import Artifact
from xbench.converters.loss import loss_of
from xbench.converters.torch_dropout import dropping
from xbench.parity.verdict import BLIND, LOSS, LOWER, TYPE, blind, distance, join, judge, loss_by_step, size_of
from xbench.runtimes.torch import (
    MODULES,
    ProgramModule,
    module_of,
    named_tensors,
    optimizer_of,
    optimizer_state,
    set_dropout,
    trainable,
    update,
)


class NotExported(Exception):
    """The graph of a module computes something else than the module: there is no common network to compare."""


Tensors = dict[str, np.ndarray]
Batch = tuple[Sequence[np.ndarray], np.ndarray]  # inputs in the order of the graph, labels
Loss = Callable[[Sequence[torch.Tensor], torch.Tensor], torch.Tensor]  # of outputs and labels
MOVED_ULPS = 256
MOVED_SHARE = math.sqrt(MOVED_ULPS)
RUNS = (  # batch reversed, oneDNN, subnormal numbers kept, seed of the moved weights
    (False, True, True, None),
    (True, True, True, None),
    (True, False, False, None),
    (False, True, True, 0),
    (False, True, True, 1),
)
ROUNDED = {"tf32": 2.0**-12, "fp16": 2.0**-12, "bf16": 2.0**-9}  # half a unit in the last place


def write(artifact: Artifact, path: Path, mode: str, batches: Sequence[Batch], precision: str = "fp32") -> None:
    """Computes a reference and writes it in one piece: nobody ever sees half a file. Mode step does one training step a
    batch; the inputs in the file are those of the first.

    Rounding grows from step to step, on some networks until nothing could be told any more: then of half as many steps,
    one in the end, behind which a verdict says so: that momentum is carried on shows at the second.

    Raises:
        NotExported: the artifact's graph is not what its module computes.
    """
    inputs, labels = batches[0]
    given = {**{f"input/{index}": array for index, array in enumerate(inputs)}, "labels": labels}
    while True:
        oracle, floors, types = measured(artifact, mode, batches)
        reference = {**oracle, **types, **{f"floor/{name}": np.array(value) for name, value in _grown(floors).items()}}
        if len(batches) == 1 or not blind(reference, list(oracle)):
            break
        batches = batches[: len(batches) // 2]
    if artifact.info["origin"] in MODULES:
        _compare_export(artifact, mode, batches, reference)
    lower = _lowered(artifact, mode, batches, oracle, ROUNDED[precision]) if precision in ROUNDED else {}
    join(path, {**given, **reference, **lower})


def _lowered(
    artifact: Artifact, mode: str, batches: Sequence[Batch], oracle: Tensors, share: float
) -> dict[str, np.ndarray]:
    """The floors of a precision whose rounding moves a weight by this share of it at most."""
    runs = [_run(artifact, mode, batches, torch.float32, seed, share=share) for seed in range(3)]
    errors = {name: [distance(made[name], expected) for made in runs] for name, expected in oracle.items()}
    return {f"{LOWER}{name}": np.max(found, axis=0) for name, found in errors.items()}


def _compare_export(artifact: Artifact, mode: str, batches: Sequence[Batch], reference: Tensors) -> None:
    """Raises NotExported where the graph, computed by PyTorch's table, is off in float64 and in float32.

    Float64 alone would blame a graph whose module rounds a part to float32 by itself, as LLaMA's positions are.
    """
    for dtype in (torch.float64, torch.float32):
        try:
            found = judge(_run(artifact, mode, batches, dtype, exported=True), reference)
        except Exception as error:  # what a graph raises that does not fit this batch is up to its operators
            raise NotExported(f"its graph cannot be computed at batch {len(batches[0][1])}: {error}") from error
        if found.status != "FAIL":
            return
    raise NotExported(f"its graph computes something else in PyTorch, too: {found.message}, first {found.first_wrong}")


def measured(
    artifact: Artifact, mode: str, batches: Sequence[Batch]
) -> tuple[Tensors, dict[str, tuple[float, float]], Tensors]:
    """Every tensor to compare in float64, its floors, and its type where it has 64 bits in float32 PyTorch, too."""
    oracle = _run(artifact, mode, batches, torch.float64)
    floors, types = {name: (0.0, 0.0) for name in oracle}, dict[str, np.ndarray]()
    given = artifact.info["inputs"]
    batched = bool(given) and all(item["shape"][:1] == ["batch"] for item in given)
    for flip, onednn, subnormal, moved in RUNS[: 3 if mode == "forward" else None]:
        flipped = flip and batched  # elsewhere the first axis may be anything
        with torch.backends.mkldnn.flags(enabled=onednn), _subnormal(subnormal):
            made = _run(artifact, mode, [_flipped(b) for b in batches] if flipped else batches, torch.float32, moved)
        types |= {f"{TYPE}{name}": np.array("float64") for name in oracle if _is_double(name, made)}
        for name, expected in oracle.items():
            turned = flipped and name.startswith("output/")
            found = distance(_turned_back(made[name], expected, len(batches[0][1])) if turned else made[name], expected)
            l2, peak = (each / (1 if moved is None else MOVED_SHARE) for each in found)
            floors[name] = (max(floors[name][0], l2), max(floors[name][1], peak))
    return oracle, floors, types


def _is_double(name: str, made: Tensors) -> bool:
    return made[name].dtype == np.float64 and not name.startswith("loss")  # which are numbers of Python's


def _turned_back(made: np.ndarray, expected: np.ndarray, batch: int) -> np.ndarray:
    """What was computed of the reversed batch in the order of the batch: along whichever axis holds the samples, alone
    or as the slower part; as expected where no axis does, so that nothing is learned of its noise."""
    ways = [made, *(np.flip(made, axis) for axis, size in enumerate(made.shape) if size == batch)]
    if made.ndim and made.shape[0] % batch == 0:
        ways.append(made.reshape(batch, -1)[::-1].reshape(made.shape))
    nearest = min(ways, key=lambda way: distance(way, expected)[0])
    return nearest if distance(nearest, expected)[0] <= BLIND * size_of(expected)[0] else expected


def _grown(floors: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The floors of the losses, none below that of a step before: an error stays in the weights, and that it happens
    not to show in one number says nothing. On digits correct runtimes were 26 such lucky floors off LeNet's loss/15."""
    losses = [name for name in floors if name.startswith(LOSS)]
    if not losses:
        return floors
    grown = np.maximum.accumulate([floors[name] for name in losses])
    return {**floors, **{name: (float(l2), float(peak)) for name, (l2, peak) in zip(losses, grown, strict=True)}}


def _flipped(batch: Batch) -> Batch:
    inputs, labels = batch
    return [array[::-1].copy() for array in inputs], labels[::-1].copy()


def _run(
    artifact: Artifact,
    mode: str,
    batches: Sequence[Batch],
    dtype: torch.dtype,
    moved: int | None = None,
    exported: bool = False,
    share: float = MOVED_ULPS * 2.0**-24,
) -> Tensors:
    """Every tensor to compare, computed in one floating type; `moved` is the seed of a change of all weights by a
    `share` of them; `exported` takes the graph of a module instead of the module."""
    with default_type(dtype), dropping(False):
        made = ProgramModule(artifact.program()) if exported else module_of(artifact)
        module = made.to(dtype).train(mode != "forward")
        set_dropout(module, active=False)
        if moved is not None:
            move(module, moved, share)
        if mode == "forward":
            with torch.no_grad():
                outputs = _outputs(module, arrays(batches[0][0], dtype))
            return _named("output", dict(zip(artifact.info["outputs"], outputs, strict=True)))
        given = [(arrays(inputs, dtype), arrays([labels], dtype)[0]) for inputs, labels in batches]
        return trained(artifact.info, module, given, mode)


def outputs(artifact: Artifact, inputs: Sequence[np.ndarray], labels: np.ndarray) -> Tensors:
    """What the network gives in float64, as references name it."""
    return _run(artifact, "forward", [(inputs, labels)], torch.float64)


def values(program: Program, inputs: Sequence[np.ndarray], training: bool) -> Tensors:
    """What a program gives in float64, by the names of its outputs; less what is no tensor."""
    with default_type(torch.float64), dropping(False), torch.no_grad():
        module = ProgramModule(program).to(torch.float64).train(training)
        set_dropout(module, active=False)
        outputs = dict(zip(program.outputs, _outputs(module, arrays(inputs, torch.float64)), strict=True))
    found = {n: v.detach().numpy() if isinstance(v, torch.Tensor) else v for n, v in outputs.items()}
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}  # shapes come as NumPy


def arrays(inputs: Sequence[np.ndarray], dtype: torch.dtype) -> list[torch.Tensor]:
    """Inputs as tensors, ONNX's float in the type to compute in."""
    return [torch.from_numpy(a).to(dtype) if a.dtype == np.float32 else torch.from_numpy(a) for a in inputs]


def move(module: nn.Module, seed: int, share: float = MOVED_ULPS * 2.0**-24) -> None:
    """Changes every weight by a random part of that share of it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(1 + share * (2 * torch.rand(p.shape, generator=generator) - 1))


def _outputs(module: nn.Module, given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
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
    and the optimizer's arrays behind the last. `info` is the artifact's: which loss, update rule, statistics; `changed`
    makes of the loss another; `update` is that of `runtimes/torch.py`."""
    rule, loss_function = dict(info["optimizer"]), loss_of(ops, info["loss"])
    loss_function = changed(loss_function) if changed else loss_function
    tensors, parameters = named_tensors(module), trainable(module)
    optimizer = optimizer_of(rule, list(parameters.values()))
    losses = []
    for count, (given, labels) in enumerate(batches if mode == "step" else batches[:1], 1):
        optimizer.zero_grad()
        loss = loss_function(_outputs(module, given), labels)
        loss.backward()
        losses.append(loss.detach())
        if mode == "step":
            update(optimizer, rule, count)
    if mode == "gradient":
        grads = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in parameters.items()}
        return {"loss": np.array([float(losses[0])]), **_named("gradient", grads)}
    weights = {name: tensors[name] for name in (*parameters, *info["statistics"])}
    kept = optimizer_state(optimizer, parameters)
    return {**loss_by_step(map(float, losses)), **_named("weight", weights), **_named("optimizer", kept)}


def _named(kind: str, tensors: Mapping[str, torch.Tensor]) -> Tensors:
    return {f"{kind}/{name}": value.detach().numpy().copy() for name, value in tensors.items()}


@contextlib.contextmanager
def _subnormal(kept: bool) -> Iterator[None]:
    """Whether subnormal numbers are kept or taken for zero, as x86 and ARM can. It is a thread that does either, so
    that without them there is one."""
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
    """The type PyTorch gives to new arrays, which the operator table uses for ONNX's float."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
