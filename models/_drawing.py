"""Draws inputs from their specification, the same values on every machine, and describes them in words."""

import dataclasses
import zlib

import numpy as np

from xbench.models._spec import Input

UNBOUNDED = 2**31  # `high` of an input that only the batch bounds
SHARE = 8  # one place in `SHARE` has a special value, or a zero in the middle of a mask


def resolve(shape: tuple[int | str, ...], batch: int) -> tuple[int, ...]:
    return tuple(batch if isinstance(size, str) else size for size in shape)


def draw(each: Input, batch: int, seed: int = 0) -> np.ndarray:
    """Draws an array of the input's shape from [low, high), the same values on every machine.

    NumPy's uniform numbers are made by integer arithmetic and one multiplication, so they are exact everywhere. Its
    normal numbers call the C library, and PyTorch's depend on the vector instructions of the CPU.
    """
    shape, key = resolve(each.shape, batch), zlib.crc32(each.name.encode())
    generator = np.random.default_rng([seed, key])
    if each.mask:
        alone = each.mask in (1, -1) and len(shape) > 1  # else it may keep nothing at all
        kept = _kept(shape, generator, None if alone else key + seed)
        return np.asarray(~kept if each.mask == -1 else kept).astype(each.dtype)
    return np.asarray(_special(each, _uniform(each, shape, batch, generator), generator, (key + seed) % 2 == 1))


def _uniform(each: Input, shape: tuple[int, ...], batch: int, generator: np.random.Generator) -> np.ndarray:
    random, low, high = generator.random, each.low, each.high
    if each.within is not None:
        high = min(high, each.within[0] * batch + each.within[1])
    if each.quantiles:
        places = np.linspace(0, 1, len(each.quantiles))
        return np.floor(np.interp(random(shape), places, each.quantiles)).astype(each.dtype)
    if _is_whole(each):
        return (low + np.floor(random(shape) * (high - low))).astype(each.dtype)
    if each.dtype == "bfloat16":
        import ml_dtypes  # noqa: F401  which tells NumPy of the type
    return (random(shape, dtype=np.float32) * np.float32(high - low) + np.float32(low)).astype(each.dtype, copy=False)


def _is_whole(each: Input) -> bool:
    return each.dtype.startswith(("int", "uint", "bool"))


def _special(each: Input, values: np.ndarray, generator: np.random.Generator, alone: bool) -> np.ndarray:
    """Puts every special value in some places: at least one of every row, and the first of none, so that a causal
    mask made of them keeps something everywhere. If there is one place in total, every other seed has it."""
    for value in each.special:
        if values.size < 2:
            values = np.where(alone, np.asarray(value, values.dtype), values)
            continue
        rows = values.reshape(-1, values.shape[-1]) if values.shape[-1] > 1 else values.reshape(1, -1)
        taken = generator.random(rows.shape) < 1 / SHARE
        taken[np.arange(len(rows)), generator.integers(1, rows.shape[1], len(rows))] = True
        taken[:, 0] = False
        values = np.where(taken, np.asarray(value, values.dtype), rows).reshape(values.shape)
    return values


def _kept(shape: tuple[int, ...], generator: np.random.Generator, turn: int | None) -> np.ndarray:
    """The places that a mask keeps. In every row, which is the last axis of more than one place, these are the first
    place and others, never all; they end early and have a gap. If there is no row, all places are kept, so that
    something is; or every other place, by the parity of `turn`, if there is one."""
    axis = next((a for a in reversed(range(1, len(shape))) if shape[a] > 1), 0 if len(shape) == 1 else None)
    if axis is None or shape[axis] < 2:
        every = np.arange(int(np.prod(shape))).reshape(shape)
        return every >= 0 if turn is None else (every + turn) % 2 == 1
    length = shape[axis]
    rows = shape[:axis] + shape[axis + 1 :]
    ends = generator.integers((length + 1) // 2, length, rows)[..., None]
    places = np.arange(length)
    kept = places < ends
    gap = generator.integers(1, np.maximum(ends - 1, 2))
    gone = (places == gap) | (generator.random(kept.shape) < 1 / SHARE)
    kept &= ~(gone & (places > 0) & (places < ends - 1))
    return np.moveaxis(kept, -1, axis)


def narrowed(each: Input, low: float, high: float) -> Input:
    """The same input, drawn from [low, high) by the user's choice."""
    plain = Input(each.name, each.shape, each.dtype, low, high)
    return dataclasses.replace(plain, why="as --range says")


def drawn(each: Input) -> str:
    """The drawn values, in words, and the reason."""
    why = f", {each.why}" if each.why else ""
    if each.mask:
        kept = {-1: ", 0 keeps a place", 1: ", 1 keeps a place"}.get(each.mask, "")
        return (
            f"0 or 1{why}{kept if each.shape[1:] else ''}{', rows end early and have gaps' if each.shape[1:] else ''}"
        )
    if not _is_whole(each):
        return f"{each.low:.6g} to {each.high:.6g}{why}"
    last = f"{each.high - 1:.0f}"
    if each.within is not None:
        slope, rest = each.within[0], each.within[1] - 1
        grown = f"{slope} * batch" if slope != 1 else "batch"
        grown += f" {'+' if rest > 0 else '-'} {abs(rest)}" if rest else ""
        last = grown if each.high >= UNBOUNDED else f"the least of {last} and {grown}"
    specials = ", ".join(f"{value:g}" for value in each.special)
    return f"{each.low:.0f} to {last}{f', often {specials}' if specials else ''}{why}"
