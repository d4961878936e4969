"""How a quantiser rounds, and how one with a fitting range would: scales, zero points and the limits of a type.

Arrays are float64. Nothing here knows a graph.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

LIMITS = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (2, 4, 8, 16, 32)}
LIMITS |= {f"uint{bits}": (0, 2**bits - 1) for bits in (2, 4, 8, 16, 32)}
TINY = 1e-30


@dataclass(frozen=True)
class Rounding:
    """`scale` and `zero` are one number, or one for each index of `axis`, or for each block of `block` indices of it;
    integers are from `low` to `high`."""

    scale: np.ndarray
    zero: np.ndarray
    low: int
    high: int
    axis: int = 0
    block: int = 0

    def applied(self, values: np.ndarray) -> np.ndarray:
        """The values after they were rounded to integers and back."""
        scale, zero = self.spread(self.scale, values.shape), self.spread(self.zero, values.shape)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            return np.asarray((np.clip(np.rint(values / scale) + zero, self.low, self.high) - zero) * scale)

    def cut(self, values: np.ndarray) -> np.ndarray:
        """The values cut to the range alone, and not rounded."""
        return np.asarray(np.clip(values, *self.ends(values.shape)))

    def stepped(self, values: np.ndarray) -> np.ndarray:
        """The values rounded alone, without limits."""
        scale = self.spread(self.scale, values.shape)
        return np.asarray(np.rint(values / scale) * scale)

    def ends(self, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest number that has an integer, in a shape that broadcasts with the values'."""
        scale, zero = self.spread(self.scale, shape), self.spread(self.zero, shape)
        return (self.low - zero) * scale, (self.high - zero) * scale

    def clipped(self, values: np.ndarray) -> float:
        """The share of the values that are more than half a step outside."""
        low, high = self.ends(values.shape)
        half = np.abs(self.spread(self.scale, values.shape)) / 2
        return float(np.mean((values < low - half) | (values > high + half))) if values.size else 0.0

    @property
    def is_symmetric(self) -> bool:
        """Whether zero is in the middle of the integers."""
        middle = 0 if self.low < 0 else (self.high + 1) // 2
        return bool(np.all(self.zero == middle))

    def fitted(self, values: Sequence[np.ndarray], times: float = 1.0) -> "Rounding":
        """One of the same kind whose range is that of the values, or so many times as wide."""
        reduced = [self._reduced(each) for each in values]
        low = times * np.minimum(np.minimum.reduce([each[0] for each in reduced]), 0.0)
        high = times * np.maximum(np.maximum.reduce([each[1] for each in reduced]), 0.0)
        if self.is_symmetric:
            scale = np.maximum(-low, high) / ((self.high - self.low) // 2)
            return replace(self, scale=np.maximum(scale, TINY), zero=np.broadcast_to(self.zero.flat[0], scale.shape))
        scale = np.maximum((high - low) / (self.high - self.low), TINY)
        return replace(self, scale=scale, zero=np.clip(np.rint(self.low - low / scale), self.low, self.high))

    def along(self, axis: int, values: np.ndarray) -> "Rounding":
        """One of the same kind with a fitting range for each index of an axis."""
        one = np.full(values.shape[axis], self.zero.flat[0])
        return replace(self, scale=np.ones_like(one), zero=one, axis=axis % values.ndim, block=0).fitted([values])

    def apart(self, axis: int, values: np.ndarray, rest: "Rounding", far: np.ndarray) -> "Rounding":
        """One of the same kind with a fitting range for each index of an axis that is `far`, and that of `rest`, which
        is one number, for all others."""
        own = self.along(axis, values)
        scale, zero = (np.where(far, a, b.flat[0]) for a, b in ((own.scale, rest.scale), (own.zero, rest.zero)))
        return replace(own, scale=scale, zero=zero)

    def sparing(self, axis: int, values: np.ndarray) -> "Rounding":
        """One with the range of the values without the few indices of an axis that are far larger, which have their
        own."""
        places = far(values, axis)
        return self.apart(axis, values, self.fitted([np.compress(~places, values, axis)]), places)

    def _reduced(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest of the finite values that share a scale."""
        values = np.where(np.isfinite(values), values, 0.0)
        if self.scale.size == 1:
            shape = self.scale.shape
            return np.full(shape, values.min(initial=0.0)), np.full(shape, values.max(initial=0.0))
        axis = self.axis % values.ndim
        if not self.block:
            others = tuple(each for each in range(values.ndim) if each != axis)
            return values.min(axis=others), values.max(axis=others)
        starts = np.arange(0, values.shape[axis], self.block)
        return np.minimum.reduceat(values, starts, axis), np.maximum.reduceat(values, starts, axis)

    def spread(self, array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        if array.size == 1:
            return array.reshape((1,) * len(shape))
        axis = self.axis % len(shape)
        if self.block:
            return np.repeat(array, self.block, axis).take(np.arange(shape[axis]), axis)
        return array.reshape([-1 if each == axis else 1 for each in range(len(shape))])


BITS = {"float16": 11, "bfloat16": 8}  # of the digits of a float


def halved(values: np.ndarray, name: str) -> np.ndarray:
    """The values as floats of 16 bits: too large ones are infinite, too small ones zero."""
    import ml_dtypes

    with np.errstate(over="ignore"):
        return values.astype(np.dtype(getattr(ml_dtypes, name, name))).astype(np.float64)


def unbounded(values: np.ndarray, name: str) -> np.ndarray:
    """The values with as many digits as such a float has, however large or small they are."""
    digits, exponents = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(digits * 2.0 ** BITS[name]) / 2.0 ** BITS[name], exponents))


def far(values: np.ndarray, axis: int) -> np.ndarray:
    """The indices of an axis, at most an eighth of them and at least one, whose largest numbers are the farthest from
    those of the next, as true and false."""
    others = tuple(each for each in range(values.ndim) if each != axis % values.ndim)
    sizes = np.abs(np.where(np.isfinite(values), values, 0.0)).max(axis=others, initial=0.0)
    order = np.argsort(-sizes, kind="stable")
    most = max(1, len(sizes) // 8)
    ratios = [sizes[order[n]] / max(sizes[order[n + 1]], TINY) for n in range(min(most, len(sizes) - 1))]
    chosen = np.zeros(len(sizes), bool)
    if ratios:
        chosen[order[: int(np.argmax(ratios)) + 1]] = True
    return chosen


def apart(made: np.ndarray, right: np.ndarray) -> float:
    """The L2 norm of the difference as a share of that of the right values; infinite if a number is not finite where
    the right one is."""
    with np.errstate(invalid="ignore", over="ignore"):
        same = (made == right) | (np.isnan(made) & np.isnan(right))
        difference = np.where(same, 0.0, made - right)
        size = np.linalg.norm(np.where(np.isfinite(right), right, 0.0))
    if not np.isfinite(difference).all():
        return math.inf
    error = float(np.linalg.norm(difference))
    return 0.0 if error == 0 else error / max(float(size), TINY)
