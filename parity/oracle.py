"""The oracle: the network in float64 PyTorch, and the noise floor: the error of float32 PyTorch against it per tensor.

A reference is one `.npz` file: the inputs, every tensor to compare in float64, and for each tensor the two floors of
`xbench.parity.verdict`. The floor is the largest error of several float32 runs, because one alone may be lucky. They
differ in the order of their sums (the samples of the batch reversed, compared with that batch in float64 where their
order matters; oneDNN on and off) and in whether subnormal numbers are flushed to zero: TensorFlow and XLA do so,
PyTorch by default does not. Both are float32, so a network whose signal vanishes cannot be judged.

Gradients have kinks: a ReLU input that rounding carries across zero changes them by far more than rounding itself.
ResNet-50 has 20 million such inputs per batch of 2, and correct runtimes met kinks in layers where no plain float32
run did: 11,669 floors off. So in training two more runs move every weight by about 256 units in the last place, one up
what the other moves down: between them they meet every kink that is nearer than that. (Of two independent runs neither
met one in a quarter of the cases: right runtimes were up to 535 floors off ResNet-50.) Errors from kinks grow with the
square root of the noise (they add up with random signs; MobileNetV2: 3.6e-3 with float32's noise, 3.3e-2 with 256 times
as much), so a sixteenth of their error is a floor too. The verdict allows 64 floors: 4 times the effect of noise of
2^-16. TF32 is noise of 2^-11.

A lower requested precision has a floor of its own (`lower/`): the largest error of three float32 runs whose weights are
moved by as much as rounding to that precision may move them.
"""

import contextlib
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from xbench.converters.artifact import Artifact
from xbench.converters.ops.info import info
from xbench.parity import node_by_node, steps
from xbench.parity.network import (
    MOVED_SHARE,
    NOTHING,
    Batch,
    Tensors,
    flipped,
    is_batched,
    moves,
    run,
    subnormal,
)
from xbench.parity.verdict import (
    LIMITS,
    LOSS,
    LOWER,
    NARROW,
    TYPE,
    blind,
    bounds,
    distance,
    join,
    judge,
)
from xbench.runtimes.torch import MODULES


class NotExported(Exception):
    """The graph of a module computes something else than the module: there is no common network to compare."""


class Random(Exception):
    """The outputs are random: every runtime draws other numbers."""


RUNS = (  # oneDNN, subnormal numbers kept, seed of the moved weights
    (True, True, None),
    (False, False, None),
    *((True, True, seed) for seed in moves(2)),
)
ORDERED = 4.0  # floors of the other runs, from which the reversed batch is compared with itself in float64
SEEN = set[Path]()  # artifacts whose nodes this process has computed one by one and found equal
F64 = torch.float64
ROUNDED = {"tf32": 2.0**-12, "fp16": 2.0**-12, "bf16": 2.0**-9}  # half a unit in the last place


def write(artifact: Artifact, path: Path, mode: str, batches: Sequence[Batch], precision: str = "fp32") -> None:
    """Computes a reference and writes it atomically. Mode step does one training step per batch; the inputs in the file
    are those of the first.

    Rounding grows from step to step, on some networks until nothing can be judged: then the number of steps is halved,
    down to one. A verdict reports it then, as whether momentum is carried on shows only at the second step.

    Raises:
        NotExported: the artifact's graph differs from its module, or its program from its file.
        Random: it has no fixed results.
    """
    if drawing := [name for name in artifact.operators if info(name).random and name != "Dropout"]:
        raise Random(f"{', '.join(drawing)} draws other numbers at every call and on every runtime")
    inputs, labels = batches[0]
    given = {**{f"input/{index}": array for index, array in enumerate(inputs)}, "labels": labels}
    while True:
        oracle, floors, more = measured(artifact, mode, batches)
        reference = {**oracle, **more, **{f"floor/{name}": np.array(value) for name, value in _grown(floors).items()}}
        if len(batches) == 1 or not blind(reference, list(oracle)):
            break
        batches = batches[: len(batches) // 2]
    if artifact.info["origin"] in MODULES:
        _compare_export(artifact, mode, batches, reference)
    elif artifact.given and artifact.folder not in SEEN:
        _compare_nodes(artifact, inputs, reference if mode == "forward" else _forward(artifact, batches[:1]))
        SEEN.add(artifact.folder)
    narrow = artifact.info.get("narrow")
    least = precision if precision in ROUNDED else narrow
    lower = _lowered(artifact, mode, batches, oracle, ROUNDED[least]) if least else {}
    types = {f"{TYPE}output/{name}": np.array(word) for name, word in artifact.info.get("halves", {}).items()}
    types |= {NARROW: np.array(narrow)} if narrow else {}
    join(path, {**given, **reference, **lower, **types})


def _lowered(
    artifact: Artifact, mode: str, batches: Sequence[Batch], oracle: Tensors, share: float
) -> dict[str, np.ndarray]:
    """The floors of a precision whose rounding moves a weight by at most this share of it."""
    runs = [run(artifact, mode, batches, torch.float32, seed, share=share) for seed in range(3)]
    errors = {name: [distance(made[name], expected) for made in runs] for name, expected in oracle.items()}
    return {f"{LOWER}{name}": np.max(distances, axis=0) for name, distances in errors.items()}


def _compare_export(artifact: Artifact, mode: str, batches: Sequence[Batch], reference: Tensors) -> None:
    """Raises NotExported if the graph, computed by PyTorch's table, is off in both float64 and float32.

    Float64 alone would reject a graph whose module itself rounds a part to float32, such as LLaMA's positions.
    """
    for dtype in (F64, torch.float32):
        try:
            verdict = judge(run(artifact, mode, batches, dtype, exported=True), reference)
        except Exception as error:  # a graph that does not fit this batch may raise anything
            raise NotExported(f"its graph cannot be computed at batch {len(batches[0][1])}: {error}") from error
        if verdict.status != "FAIL":
            return
    raise NotExported(
        f"its graph computes something else in PyTorch, too: {verdict.message}, first {verdict.first_wrong}"
    )


def _forward(artifact: Artifact, batches: Sequence[Batch]) -> Tensors:
    """The reference of mode forward, without the floors of a lower precision."""
    oracle, floors, others = measured(artifact, "forward", batches)
    return {**oracle, **{f"floor/{name}": np.array(floor) for name, floor in floors.items()}, **others}


def _compare_nodes(artifact: Artifact, inputs: Sequence[np.ndarray], reference: Tensors) -> None:
    """Raises NotExported if the nodes of a given file, computed one by one, give different results."""
    try:
        verdict = judge(node_by_node.outputs(artifact, inputs), reference)
    except Exception as error:
        raise NotExported(f"its nodes cannot be computed one by one: {error}") from error
    if verdict.status == "FAIL":
        raise NotExported(
            f"its nodes, one by one, compute something else: {verdict.message}, first {verdict.first_wrong}"
        )


def measured(
    artifact: Artifact, mode: str, batches: Sequence[Batch]
) -> tuple[Tensors, dict[str, tuple[float, float]], Tensors]:
    """Every tensor to compare in float64, its floors, and what else a verdict needs: its type if it has 64 bits in
    float32 PyTorch too, and what right float32 arithmetic may give if the network has steps (`steps.py`)."""
    recorded = steps.Recorded(_bits(artifact))
    oracle = run(artifact, mode, batches, F64, watch=recorded if mode == "forward" else NOTHING)
    floors, types = {name: (0.0, 0.0) for name in oracle}, dict[str, np.ndarray]()
    plain = list[Tensors]()  # the float32 results
    for onednn, kept, moved in RUNS[: 2 if mode == "forward" else None]:
        with torch.backends.mkldnn.flags(enabled=onednn), subnormal(kept):
            made = run(artifact, mode, batches, torch.float32, moved)
        types |= {f"{TYPE}{name}": np.array("float64") for name in oracle if _is_double(name, made)}
        share = 1 if moved is None else MOVED_SHARE
        for name, expected in oracle.items():
            l2, peak = (each / share for each in distance(made[name], expected))
            floors[name] = _larger(floors[name], (l2, peak))
        plain += [made] if recorded.steps else []
    if is_batched(artifact.info):
        turned_back = _reversed(artifact, mode, batches, oracle, floors)
        plain += [turned_back] if recorded.steps and turned_back else []
    between, spread = _stepped(artifact, batches, recorded.steps, oracle, plain) if recorded.steps else ({}, {})
    return oracle, {**floors, **between}, {**types, **spread}


def _stepped(
    artifact: Artifact,
    batches: Sequence[Batch],
    recorded: Sequence[steps.Step],
    oracle: Tensors,
    plain: Sequence[Tensors],
) -> tuple[dict[str, tuple[float, float]], Tensors]:
    """For tensors that float32 may get a step off: the floors of what is between the steps, and their spread. The sides
    that `plain` float32 takes are right too: with many ties, no run of the oracle need take the same ones."""
    floors = {name: (0.0, 0.0) for name in oracle}
    spreads, bits = {name: steps.Spread(expected) for name, expected in oracle.items()}, _bits(artifact)
    if steps.has_halves(recorded):
        with contextlib.suppress(RuntimeError):  # a module whose own code needs the types
            plain = [*plain, run(artifact, "forward", batches, F64, watch=steps.Unrounded(bits))]
    for made, (name, spread) in itertools.product(plain, spreads.items()):
        spread.add(made[name], 0)

    def jump() -> list[str]:
        return [n for n in oracle if spreads[n].far[0] > LIMITS["fp32"] * bounds(oracle[n], floors[n])[0]]

    try:
        for onednn in (True, False):
            with torch.backends.mkldnn.flags(enabled=onednn):
                made = run(artifact, "forward", batches, torch.float32, watch=steps.Forced(recorded, bits))
            floors = {name: _larger(floors[name], distance(made[name], oracle[name])) for name in oracle}
        for pair in range(steps.PAIRS if steps.are_near(recorded) else 0):
            share = steps.SHARES[pair % len(steps.SHARES)]
            for sign in (1, -1):
                try:
                    moved = steps.Moved(recorded, pair, sign * share, bits)
                    made = run(artifact, "forward", batches, F64, watch=moved)
                except (IndexError, RuntimeError):  # moved out of a table: no right arithmetic does
                    continue
                for name, spread in spreads.items():
                    spread.add(made[name], pair)
            if pair + 1 >= len(steps.SHARES) and not jump():  # both sides of every tie have been taken
                break
    except steps.Unaligned:
        return {}, {}
    names = jump()
    return {n: floors[n] for n in names}, {key: value for n in names for key, value in spreads[n].arrays(n).items()}


def _bits(artifact: Artifact) -> int:
    return steps.NARROW if artifact.info.get("narrow") else steps.ALL


def _larger(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return max(one[0], other[0]), max(one[1], other[1])


def _is_double(name: str, made: Tensors) -> bool:
    return made[name].dtype == np.float64 and not name.startswith("loss")  # losses are Python numbers


def _reversed(
    artifact: Artifact, mode: str, batches: Sequence[Batch], oracle: Tensors, floors: dict[str, tuple[float, float]]
) -> Tensors | None:
    """Raises the floors to the errors of float32 on the reversed batches; returns its results in the order of the
    batch, None where the order of the samples matters. There the reversed batch has an oracle of its own, if it can be
    computed: a first sample that others are compared with, or a sum over neighbours, is no noise."""
    turned = [flipped(each) for each in batches]
    try:
        made = run(artifact, mode, turned, torch.float32)
    except Exception:  # a module may refuse it, such as offsets or lengths that fall
        return None
    results = {
        name: _turned_back(made[name], expected, len(batches[0][1])) if name.startswith("output/") else made[name]
        for name, expected in oracle.items()
    }
    errors = {name: distance(results[name], expected) for name, expected in oracle.items()}
    matters = False
    if any(map(_beyond, errors.values(), floors.values())):
        exact = run(artifact, mode, turned, F64)
        own = {name: distance(made[name], exact[name]) for name in oracle}
        matters, errors = any(map(_beyond, errors.values(), own.values())), own
    for name, error in errors.items():
        floors[name] = _larger(floors[name], error)
    return None if matters else results


def _beyond(error: tuple[float, float], floor: tuple[float, float]) -> bool:
    return error[0] > ORDERED * floor[0] or error[1] > ORDERED * floor[1]


def _turned_back(made: np.ndarray, expected: np.ndarray, batch: int) -> np.ndarray:
    """A result of the reversed batch, put back in the order of the batch along the axis of the samples, which may be
    its slower part, or as it is: whichever is nearest."""
    ways = [made, *(np.flip(made, axis) for axis, size in enumerate(made.shape) if size == batch)]
    if made.ndim and made.shape[0] % batch == 0:
        ways.append(made.reshape(batch, -1)[::-1].reshape(made.shape))
    return min(ways, key=lambda way: distance(way, expected)[0])


def _grown(floors: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The floors with those of the losses never falling from step to step: an error stays in the weights, though one
    number may not show it. On digits correct runtimes were 26 such lucky floors off LeNet's loss/15."""
    losses = [name for name in floors if name.startswith(LOSS)]
    if not losses:
        return floors
    grown = np.maximum.accumulate([floors[name] for name in losses])
    return {**floors, **{name: (float(l2), float(peak)) for name, (l2, peak) in zip(losses, grown, strict=True)}}


def outputs(artifact: Artifact, inputs: Sequence[np.ndarray], labels: np.ndarray) -> Tensors:
    """The outputs of the network in float64, as references name them."""
    return run(artifact, "forward", [(inputs, labels)], F64)
