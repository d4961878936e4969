"""Handles operators with steps: rounding, casts to integers and to floats of 8 or 16 bits, comparisons, indices of
extremes. Near a tie float32 may take another side than float64, and the result is then a step off, however small the
error before it.

So a network with steps is computed in float32 once more with every step taken from the oracle (`Forced`): its errors
are those between the steps, and the errors of a step's inputs say how near to a tie float32 cannot choose sides. Then
the oracle is computed again, with everything that near to a tie moved to either side (`Moved`): the results of these
runs are what right float32 arithmetic may give. What a clip leaves is exact (`clips.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from xbench.parity import clips
from xbench.parity.verdict import HALF_ULP, LIMITS, SPREAD, distance

ROUND = ("round", "floor", "ceil", "trunc", "sign", "heaviside", "floor_divide", "remainder", "fmod")
COMPARE = ("lt", "le", "gt", "ge", "bucketize", "searchsorted")
EXTREME = ("argmax", "argmin", "max.dim", "min.dim", "median.dim", "kthvalue", "cummax", "cummin")
PLACE = (*EXTREME, "topk", "sort", "argsort")
FAKE = (
    "fake_quantize_per_tensor_affine_cachemask",
    "fake_quantize_per_channel_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)
HALVES = (torch.float16, torch.bfloat16)
ALL, NARROW = 32, 16  # casts to floats of fewer bits are steps; those to 16 bits not in a network that computes in them
STEPS = frozenset((*ROUND, *COMPARE, *PLACE, *FAKE))
PAIRS = 12  # of runs of the oracle; one moves up what the other moves down, so that both sides of each tie are seen
# Every second pair moves by the usual error of float32, not the largest: where one value in hundreds is near a tie, the
# others change the inputs of later steps, so that exact ties there are no longer ties.
SHARES = (1.0, 1 / LIMITS["fp32"])
FARTHER, OPEN, OUTSIDE = 1.25, 1.5, 2.0  # factors beyond these few runs; larger where steps change others


class Unaligned(Exception):
    """Two runs of a network call different operators with steps: its control flow depends on values."""


@dataclass
class Step:
    """One call of an operator with steps in the oracle: its floating inputs, its result, and how far float32 may be
    off in each input. Large networks have 100 million of these numbers, so an input is None where the result has the
    same values, as a cast of integers has, and `near` where float32 is exact. `ends` are the ends of each input's range
    that a clip made, and `before` the clips since the last step."""

    name: str
    shapes: list[torch.Size]
    inputs: list[torch.Tensor | None]
    result: Any
    near: list[torch.Tensor | None]
    ends: list[tuple[float, float]] = field(default_factory=list)
    before: list[clips.Clip] = field(default_factory=list)

    def input(self, index: int) -> torch.Tensor:
        value = self.inputs[index]
        return self.result if value is None else value


class _Watch(TorchDispatchMode):
    """Intercepts the calls of operators with steps, in order. A cast to floats of less than `bits` bits has steps."""

    def __init__(self, bits: int = ALL) -> None:
        super().__init__()
        self.bits = bits

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _has_steps(func, args, kwargs, self.bits):
            handle = self.step
        elif clips.is_clip(func):
            handle = self.clip
        else:
            return func(*args, **kwargs)
        if not func._schema.is_mutable:
            return handle(func, args, kwargs)
        name, overload = func.overloadpacket.__name__, func._overloadname
        pure = getattr(getattr(torch.ops.aten, name.removesuffix("_")), overload)
        return args[0].copy_(handle(pure, args, kwargs))

    def step(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError

    def clip(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs)


class Recorded(_Watch):
    """Records every step of the oracle."""

    def __init__(self, bits: int = ALL) -> None:
        super().__init__(bits)
        self.steps: list[Step] = []
        self.clips, self.bounds = list[clips.Clip](), set[float]()  # since the last step; of all clips

    def step(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        result, given = func(*args, **kwargs), _floating(args)
        inputs = [None if _is_same(each, result) else each.clone() for each in given]
        shapes = [each.shape for each in given]
        # Which of equal values comes first is no matter of rounding, but of the operator.
        ends = [clips.UNBOUNDED if _has_places(func) else clips.ends(each, self.bounds) for each in given]
        step = Step(func.__name__, shapes, inputs, _copied(result), [None] * len(given), ends, self.clips)
        self.steps.append(step)
        self.clips = []
        return result

    def clip(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        clip = clips.recorded(func, args, kwargs)
        self.clips.append(clip)
        self.bounds |= clip.bounds
        return func(*args, **kwargs)


class _Replay(_Watch):
    """Follows a recording: each call meets its own entry."""

    def __init__(self, steps: Sequence[Step], bits: int = ALL) -> None:
        super().__init__(bits)
        self.steps = iter(steps)
        self._advance()

    def _advance(self) -> None:
        self.ahead = next(self.steps, None)
        self.clips = iter(self.ahead.before if self.ahead else ())

    def _next(self, func: Any, given: Sequence[torch.Tensor]) -> Step:
        step = self.ahead
        if step is None or step.name != func.__name__ or step.shapes != [a.shape for a in given]:
            raise Unaligned
        self._advance()
        return step


class Forced(_Replay):
    """Takes every step from a recording, and records how far off its own inputs were."""

    def step(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        given = _floating(args)
        step = self._next(func, given)
        for index, value in enumerate(given):
            before, near = step.near[index], _near(value, step.input(index), step.ends[index])
            step.near[index] = near if before is None else before if near is None else before.maximum(near)
        return _like(given[0].dtype, step.result)

    def clip(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if clip := clips.next_of(self.clips, func, args):
            clips.compare(clip, args)
        return func(*args, **kwargs)


class Moved(_Replay):
    """Moves the inputs of every step by a share of the error float32 may have, at random up or down."""

    def __init__(self, steps: Sequence[Step], seed: int, share: float, bits: int = ALL) -> None:
        super().__init__(steps, bits)
        self.share, self.generator = share, torch.Generator().manual_seed(seed)

    def step(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        step = self._next(func, _floating(args))
        own = iter(zip(step.near, step.ends, strict=True))
        moved = [self._moved(each, *next(own)) if _is_floating(each) else each for each in args]
        return func(*moved, **kwargs)

    def _moved(self, value: torch.Tensor, near: torch.Tensor | None, ends: tuple[float, float]) -> torch.Tensor:
        if near is None:
            return value
        return clips.signs(value, self.generator).mul_(near).mul_(self.share).add_(value).clamp_(*ends)

    def clip(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if clip := clips.next_of(self.clips, func, args):
            args = clips.moved(clip, args, self.share * LIMITS["fp32"], self.generator)
        return func(*args, **kwargs)


class Unrounded(_Watch):
    """Keeps all bits where the network casts to 16 of them, as compilers do that fuse such casts away."""

    def step(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        kind = kwargs.get("dtype")
        return args[0].clone() if kind in HALVES else func(*args, **kwargs)


def has_halves(steps: Sequence[Step]) -> bool:
    """Whether some step is a cast to 16 bits."""
    return any(isinstance(each.result, torch.Tensor) and each.result.dtype in HALVES for each in steps)


def are_near(steps: Sequence[Step]) -> bool:
    """Whether float32 is off at all in the inputs of any step."""
    return any(near is not None for step in steps for near in step.near)


class Spread:
    """The range of one tensor over right runs: the least and the largest of each element, the largest distance of a run
    from the oracle (`far`: L2, element), and how far one may be outside of this range.

    If an element changes only by a tie of its own, the first pair of runs shows its range, and no later run is outside.
    Otherwise a step changes the inputs of the next ones, in more ways than there are runs.
    """

    def __init__(self, expected: np.ndarray) -> None:
        self.expected, self.low, self.high = expected, expected, expected
        self.far, self.outside, self.is_closed = np.zeros(2), np.zeros(2), True

    def add(self, value: np.ndarray, pair: int) -> None:
        """Adds a run; one with another shape or other infinities is left out."""
        away = distance(value, self.expected)
        if not np.isfinite(away[0]):
            return
        beyond = distance(value, np.clip(value, self.low, self.high))
        self.is_closed = self.is_closed and (not pair or not beyond[0])
        if pair >= PAIRS // 2:
            self.outside = np.maximum(self.outside, beyond)
        self.low, self.high = np.minimum(self.low, value), np.maximum(self.high, value)
        self.far = np.maximum(self.far, away)

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """The entries of a reference. Among many elements hardly near a tie, some runtime meets one that no run did: if
        a step changes others, one such step is allowed."""
        outside = np.zeros(2) if self.is_closed else np.maximum(OUTSIDE * self.outside, self.far[1])
        far = self.far * (FARTHER if self.is_closed else OPEN)
        entries = {"low": self.low, "high": self.high, "far": far, "outside": outside}
        return {f"{SPREAD}{kind}/{name}": value for kind, value in entries.items()}


def _has_places(func: Any) -> bool:
    name = func.overloadpacket.__name__
    return name in PLACE or f"{name}.{func._overloadname}" in PLACE


def _has_steps(func: Any, args: Sequence[Any], kwargs: dict[str, Any], bits: int) -> bool:
    name = func.overloadpacket.__name__.removesuffix("_")
    if not _floating(args):
        return False
    if name == "_to_copy":
        kind = kwargs.get("dtype")
        return kind is not None and not kind.is_complex and (not kind.is_floating_point or 8 * kind.itemsize < bits)
    if name == "div":
        return kwargs.get("rounding_mode") is not None
    return name in STEPS or f"{name}.{func._overloadname}" in STEPS


def _copied(result: Any) -> Any:
    return tree_map(lambda each: each.clone() if isinstance(each, torch.Tensor) else each, result)


def _floating(args: Sequence[Any]) -> list[torch.Tensor]:
    return [each for each in args if _is_floating(each)]


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _is_same(value: torch.Tensor, result: Any) -> bool:
    """Whether a result has the values of an input."""
    if not isinstance(result, torch.Tensor) or result.shape != value.shape:
        return False
    return bool((result.to(value.dtype) == value).all())


def _near(value: torch.Tensor, expected: torch.Tensor, ends: tuple[float, float]) -> torch.Tensor | None:
    """How far float32 may be off in each element, if it is off at all. An element that is right here by chance need not
    be right elsewhere, but what a clip left at the ends of the range is."""
    expected = expected.to(torch.float64)
    off = value - expected
    if not off.any():
        return None
    clipped = torch.zeros_like(off, dtype=torch.bool)
    for end in ends:
        clipped |= (expected == end) & (value == torch.tensor(end, dtype=value.dtype))
    usual = float(torch.linalg.vector_norm(off.nan_to_num_(0.0, 0.0, 0.0))) / math.sqrt(off.numel())
    if not usual:
        return None
    least = torch.abs(expected, out=off).nan_to_num_(0.0, 0.0).mul_(HALF_ULP)
    return least.clamp_(min=usual).mul_(LIMITS["fp32"]).masked_fill_(clipped, 0.0)


def _like(kind: torch.dtype, recorded: Any) -> Any:
    """The recorded values, those of floating types in this one."""

    def converted(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        return each.to(kind, copy=True) if each.is_floating_point() and each.itemsize > 2 else each.clone()

    return tree_map(converted, recorded)
