"""Values that a clip leaves: the zeros of a ReLU, the ends of a Clip, the fill of a padding. They are exact on every
runtime, so a step after them is no tie, however near to it they are.

Only an input of the clip itself that is within the error of float32 of a bound may be clipped on one runtime and not on
another. Its error is estimated from a sample, as large networks clip 100 million values.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

CLIPS = ("relu", "relu6", "hardtanh", "clamp", "clamp_min", "clamp_max", "threshold", "maximum", "minimum")
FILLS = ("where", "masked_fill", "constant_pad_nd")  # their inputs are no nearer to a bound than others
SAMPLE = 4096  # elements
UNBOUNDED = (-math.inf, math.inf)


@dataclass
class Clip:
    """One call of a clip in the oracle: its bounds, a sample of its input, and how far float32 usually is off there."""

    name: str
    shape: torch.Size
    bounds: set[float]
    sample: torch.Tensor
    near: float = 0.0


def is_clip(func: Any) -> bool:
    return _name(func) in (*CLIPS, *FILLS)


def recorded(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Clip:
    name = _name(func)
    numbers = [_number(each) for each in (*args, *kwargs.values())]
    bounds = {0.0} if name == "relu" else {each for each in numbers if each is not None}
    value = _input(args)
    sample = _sampled(value).clone() if name in CLIPS and value.is_floating_point() else value.new_empty(0)
    return Clip(name, value.shape, bounds, sample)


def next_of(clips: Iterator[Clip], func: Any, args: Sequence[Any]) -> Clip | None:
    """The recorded clip that this call is; none is left if the calls differ."""
    clip = next(clips, None)
    if clip is None or (clip.name, clip.shape) == (_name(func), _input(args).shape):
        return clip
    for _ in clips:
        pass
    return None


def compare(clip: Clip, args: Sequence[Any]) -> None:
    """Notes the usual error of a float32 run."""
    if clip.sample.numel():
        off = (_sampled(_input(args)) - clip.sample).nan_to_num_(0.0, 0.0, 0.0)
        clip.near = max(clip.near, float(torch.linalg.vector_norm(off)) / math.sqrt(off.numel()))


def moved(clip: Clip, args: Sequence[Any], share: float, generator: torch.Generator) -> Sequence[Any]:
    """The arguments with what is as near to a bound as `share` usual errors moved up or down by these."""
    if not (clip.near and clip.bounds):
        return args
    value, reach = _input(args), abs(share) * clip.near
    close = torch.zeros_like(value, dtype=torch.bool)
    for bound in clip.bounds:
        close |= (value - bound).abs_() < reach
    changed = torch.where(close, value + signs(value, generator) * reach, value)
    return [changed if each is value else each for each in args]


def signs(value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """1 or -1 for each element."""
    return torch.randint(0, 2, value.shape, generator=generator, dtype=value.dtype).mul_(2).sub_(1)


def ends(value: torch.Tensor, bounds: set[float]) -> tuple[float, float]:
    """The ends of the range of a tensor, each infinite if no clip made it."""
    if not bounds or not value.numel():
        return UNBOUNDED
    low, high = (float(each) for each in value.aminmax())
    return low if low in bounds else -math.inf, high if high in bounds else math.inf


def _name(func: Any) -> str:
    return str(func.overloadpacket.__name__).removesuffix("_")


def _input(args: Sequence[Any]) -> torch.Tensor:
    """The largest tensor: the operands of a maximum may come in any order."""
    return max((each for each in args if isinstance(each, torch.Tensor)), key=torch.Tensor.numel)


def _sampled(value: torch.Tensor) -> torch.Tensor:
    return value.reshape(-1)[:: max(1, value.numel() // SAMPLE)]


def _number(value: Any) -> float | None:
    if isinstance(value, torch.Tensor):
        return float(value) if value.numel() == 1 and value.is_floating_point() else None
    return float(value) if isinstance(value, (int, float)) else None
