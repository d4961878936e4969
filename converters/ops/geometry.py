"""Shape arithmetic that every operator table shares: padding, pooling windows, slices. Plain integers and NumPy."""

from collections.abc import Sequence

import numpy as np

Pads = list[tuple[int, int]]


def conv_pads(
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str = "NOTSET",
) -> Pads:
    """Padding (before, after) of each spatial axis, from ONNX's `pads` and `auto_pad` (operator Conv)."""
    if auto_pad in ("NOTSET", "VALID"):
        flat = pads if pads is not None and auto_pad == "NOTSET" else [0] * 2 * len(size)
        return list(zip(flat[: len(size)], flat[len(size) :], strict=True))
    result = []
    for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        small, large = total // 2, total - total // 2
        result.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    return result


def transpose_crops(
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str = "NOTSET",
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
) -> Pads:
    """Elements (before, after) to cut off each spatial axis of a full ConvTranspose; if negative, zeros to add."""
    rank, same = len(size), auto_pad in ("SAME_UPPER", "SAME_LOWER")
    extra = output_padding or [0] * rank
    full = [(n - 1) * s + d * (k - 1) + 1 for n, k, s, d in zip(size, kernel, strides, dilations, strict=True)]
    if output_shape is None and not same:
        flat = pads if pads is not None and auto_pad == "NOTSET" else [0] * 2 * rank
        return [(low, high - more) for low, high, more in zip(flat[:rank], flat[rank:], extra, strict=True)]
    target = [n * s for n, s in zip(size, strides, strict=True)] if output_shape is None else output_shape[-rank:]
    result = []
    for length, more, out in zip(full, extra, target, strict=True):
        total = max(length + more - out, 0)
        low = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        result.append((low, length - low - out))
    return result


def pool_pads(
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Pads,
    ceil_mode: int,
) -> Pads:
    """Padding widened so that flooring windows gives ONNX's ceil_mode; a window never starts in the end padding."""
    if not ceil_mode:
        return pads
    result = []
    for n, k, s, d, (low, high) in zip(size, kernel, strides, dilations, pads, strict=True):
        reach = d * (k - 1) + 1
        windows = -(-(n + low + high - reach) // s) + 1
        if (windows - 1) * s >= n + low:
            windows -= 1
        result.append((low, max((windows - 1) * s + reach - n - low, 0)))
    return result


def window(
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: int,
) -> tuple[list[int], list[int], Pads, Pads]:
    """Strides, dilations, the requested padding, and all padding, of ONNX's pooling operators."""
    steps, spread = list(strides or (1,) * len(kernel)), list(dilations or (1,) * len(kernel))
    given = conv_pads(size, kernel, steps, spread, pads, auto_pad)
    return steps, spread, given, pool_pads(size, kernel, steps, spread, given, ceil_mode)


def window_counts(
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Pads,
    counted: Pads,
) -> np.ndarray:
    """The number of elements that each pooling window averages; shape: the spatial output.

    `pads` is all padding; `counted` is the part that counts as elements (none, or ONNX's count_include_pad).
    """
    counts = np.ones((), np.float32)
    for n, k, s, d, (low, high), (real_low, real_high) in zip(
        size, kernel, strides, dilations, pads, counted, strict=True
    ):
        starts = np.arange(0, n + low + high - d * (k - 1), s)
        positions = starts[:, None] + d * np.arange(k)[None, :] - low
        inside = (positions >= -real_low) & (positions < n + real_high)
        counts = counts[..., None] * inside.sum(1).astype(np.float32)
    return counts


def pad_widths(rank: int, pads: Sequence[int], axes: Sequence[int] | None = None) -> Pads:
    """Padding (before, after) of every axis, from ONNX's Pad."""
    widths = [(0, 0)] * rank
    for i, axis in enumerate(range(rank) if axes is None else axes):
        widths[axis] = (int(pads[i]), int(pads[i + len(pads) // 2]))
    return widths


def slices(
    rank: int,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
) -> tuple[slice, ...]:
    """Python slices for ONNX's Slice; ends beyond the array mean its end, in either direction."""
    result = [slice(None)] * rank
    axes = range(len(starts)) if axes is None else axes
    for start, end, axis, step in zip(starts, ends, axes, [1] * len(starts) if steps is None else steps, strict=True):
        stop: int | None = int(end)
        if step < 0 and end < -(2**30):
            stop = None
        result[axis] = slice(int(start), stop, int(step))
    return tuple(result)


def new_shape(shape: Sequence[int], target: Sequence[int], allowzero: int = 0) -> tuple[int, ...]:
    """The target shape of ONNX's Reshape, zeros replaced by the input's lengths; -1 is left to the framework."""
    return tuple(int(shape[i]) if n == 0 and not allowzero else int(n) for i, n in enumerate(target))


def split_sizes(length: int, split: Sequence[int] | None, num_outputs: int | None) -> list[int]:
    """Lengths of the parts ONNX's Split makes; without `split` the last part is the smaller one."""
    if split is not None:
        return [int(n) for n in split]
    assert num_outputs is not None, "Split needs `split` or `num_outputs`"
    part = -(-length // num_outputs)
    return [*[part] * (num_outputs - 1), length - part * (num_outputs - 1)]


def padded_index(length: int, before: int, after: int, mode: str) -> np.ndarray:
    """Which element of an axis each element of the padded axis is, in ONNX's modes edge, reflect and wrap."""
    index = np.arange(-before, length + after)
    if mode == "edge":
        return index.clip(0, length - 1)
    if mode == "wrap":
        return index % length
    if mode != "reflect":
        raise NotImplementedError(f"Pad with mode={mode}")
    period = max(2 * (length - 1), 1)
    index = np.abs(index) % period
    return np.where(index >= length, period - index, index)
