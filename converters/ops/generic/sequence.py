"""Sequences, which are tuples of arrays, and optionals, which are the value or None. Their lengths are always known."""

import numpy as np

from xbench.converters.ops.generic.types import typed


def SequenceConstruct(xp, *arrays):
    return tuple(typed(array) for array in arrays)


def SequenceEmpty(xp, *, dtype=1):
    return ()


def SequenceInsert(xp, sequence, array, position=None):
    """Before `position`, which may count from the end; at the end without one."""
    at = len(sequence) if position is None else int(position)
    at += len(sequence) if at < 0 else 0
    return (*sequence[:at], typed(array), *sequence[at:])


def SequenceErase(xp, sequence, position=None):
    at = (len(sequence) - 1 if position is None else int(position)) % len(sequence)
    return sequence[:at] + sequence[at + 1 :]


def SequenceAt(xp, sequence, position):
    return sequence[int(position)]


def SequenceLength(xp, sequence):
    return np.asarray(len(sequence), np.int64)


def ConcatFromSequence(xp, sequence, *, axis, new_axis=0):
    return xp.stack(sequence, axis) if new_axis else xp.concatenate(sequence, axis)


def SplitToSequence(xp, x, split=None, *, axis=0, keepdims=1):
    """`split` is the length of every part but the last, or the length of each; without it parts have length one."""
    length = xp.shape(x)[axis]
    if split is not None and np.ndim(split):
        return tuple(xp.split(x, [int(n) for n in split], axis))
    size = 1 if split is None else int(split)
    parts = xp.split(x, [min(size, length - start) for start in range(0, length, size)], axis)
    return tuple(parts if keepdims or split is not None else (xp.squeeze(part, axis) for part in parts))


def Optional(xp, value=None, *, type=None):
    return typed(value)


def OptionalGetElement(xp, value):
    return value


def OptionalHasElement(xp, value=None):
    return np.asarray(value is not None)
