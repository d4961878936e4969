"""What is wrong with a source that is to blame, in plain words, and the numbers that show it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from xbench.converters.printable import visible
from xbench.parity.like.blame import TIGHT, Finding
from xbench.parity.like.cures import Cures, Stored
from xbench.parity.like.local import Local, Source
from xbench.parity.like.matching import CUT
from xbench.parity.like.rounding import TINY, Rounding, far
from xbench.parity.like.walk import HALVES, Values

CLIPPED = 0.005  # share of the values that are cut off, from which a range is called too narrow
ALIKE, FEW = 0.05, 4.0  # spread of factors that are called one; times more with few bits, whose rounding moves them
LARGEST = 65504.0  # that float16 has


@dataclass(frozen=True)
class Range:
    """The range of an activation's quantiser and the right values. `clipped` is the share of values outside, `step` the
    distance of two levels in standard deviations, `levels` how many of `total` levels the values span."""

    low: float
    high: float
    least: float
    largest: float
    clipped: float
    step: float
    levels: int
    total: int


def range_of(local: Local, node: ir.Node, ends: list[ir.Value]) -> Range | None:
    """Of a quantiser, for the right values at some tensors."""
    rounding = local.rounding(node)
    rights = [local.matching.right(end) for end in ends if local.matching.right(end).size]
    if rounding is None or not rights:
        return None
    low, high = rounding.ends(rights[0].shape)
    values = np.concatenate([each.reshape(-1) for each in rights])
    values = values[np.isfinite(values)]
    scale, total = float(np.nan_to_num(np.abs(rounding.scale)).mean()), rounding.high - rounding.low + 1
    least, largest = float(values.min(initial=0.0)), float(values.max(initial=0.0))
    clipped = float(np.mean(np.concatenate([np.full(each.size, rounding.clipped(each)) for each in rights])))
    levels = min(total, int((largest - least) / max(scale, TINY)) + 1)
    step = scale / max(float(values.std()), TINY) if values.size else 0.0
    return Range(float(low.min()), float(high.max()), least, largest, clipped, step, levels, total)


def said(finding: Finding, local: Local, cures: Cures) -> tuple[str, ir.Node]:
    """What is wrong, as the end of a sentence about a node, and that node."""
    source, fault = finding.source, finding.fault
    if source.kind == "activation" and (no_scale := _no_scale(local.rounding(source.node))):
        words = no_scale
    elif source.kind == "activation":
        words = _outlier(source, local) if fault == "outlier" else _range(source, local)
    elif source.kind == "weights":
        worst = _worst(source, cures)
        node = source.node if worst is None or worst.maker is None else worst.maker
        if worst is not None and (no_scale := _no_scale(worst.rounding, signed=True)):
            return no_scale, node
        return (_channel(worst, local) if fault == "outlier" else _weights(worst, source, local)), node
    elif source.kind == "half":
        words = _half(source, local)
    else:
        off = percent(max(local.errors[end] for end in source.ends))
        words = f"it computes something else: with right inputs it is {off} off, and nothing in it is rounded"
    return words, source.node


def _no_scale(rounding: Rounding | None, signed: bool = False) -> str:
    """What is wrong with a scale that is no positive number, or `signed` no number; nothing if it is one. Some tools
    write negative scales of weights."""
    scales = [] if rounding is None else [float(each) for each in rounding.scale.flat]
    wrong = [each for each in scales if not 0 < (abs(each) if signed else each) < np.inf]
    return f"its scale is {plain(wrong[0])}, and a scale is a positive number" if wrong else ""


# ***** activations *****


def _range(source: Source, local: Local) -> str:
    found = range_of(local, source.node, source.ends)
    assert found is not None
    tensor = tensor_of_(source, local)
    spans = f"{plain(found.low)} to {plain(found.high)}, and {tensor} is from {plain(found.least)} to"
    spans += f" {plain(found.largest)}"
    needed, width = max(found.largest, 0.0) - min(found.least, 0.0), found.high - found.low
    theirs = local.matching.found[source.ends[0]].producer()
    lost = theirs is not None and theirs.op_type in CUT and found.low < min(found.least, 0.0) - width / 10
    if found.clipped >= CLIPPED and width < needed / 1.05 and not lost:
        return f"its range is too narrow: {spans}; {percent(found.clipped)} of the values are cut off"
    if found.clipped >= CLIPPED or (lost and width < 2 * TIGHT * needed):
        cut = f"; {percent(found.clipped)} of the values are cut off" if found.clipped >= CLIPPED else ""
        cut += f", and what {theirs.op_type} cuts off is let through" if lost and theirs is not None else ""
        return f"its zero point is wrong: its range is {spans}{cut}"
    return f"its range is too wide: {spans}; the values use {found.levels} of {found.total} levels"


def _outlier(source: Source, local: Local) -> str:
    right, rounding = local.matching.right(source.ends[0]), local.rounding(source.node)
    assert rounding is not None
    return _far(right, widest(right, (1, -1)), rounding, f"of {tensor_of_(source, local)}")


def widest(values: np.ndarray, axes: Sequence[int]) -> int:
    """The axis along which one number is the farthest from the usual one."""
    return max(axes, key=lambda axis: gap(axis, values))


def gap(axis: int, values: np.ndarray) -> float:
    """How many times the largest number along an axis is the usual one; 0 if there is no such axis."""
    if not -values.ndim <= axis < values.ndim:
        return 0.0
    sizes = _sizes(values, axis)
    return float(sizes.max() / max(float(np.median(sizes)), TINY))


def _sizes(values: np.ndarray, axis: int) -> np.ndarray:
    """The largest number at each index of an axis."""
    others = tuple(each for each in range(values.ndim) if each != axis % values.ndim)
    return np.asarray(np.abs(np.where(np.isfinite(values), values, 0.0)).max(axis=others, initial=0.0))


def _far(values: np.ndarray, axis: int, rounding: Rounding, where: str) -> str:
    places, sizes = far(values, axis), _sizes(values, axis)
    rest = float(np.median(sizes[~places])) if (~places).any() else 0.0
    levels = int(rest * (2 if values.min(initial=0.0) < 0 else 1) / max(float(rounding.scale.mean()), TINY)) + 1
    chosen = np.flatnonzero(places)
    names = ", ".join(map(str, chosen[:4])) + (", ..." if len(chosen) > 4 else "")
    which = f"channel {names} {where} reaches" if len(chosen) == 1 else f"channels {names} {where} reach"
    taken = f"{which} {plain(sizes.max())}, and the others {plain(rest)}"
    return f"a few channels take all levels: {taken}, which leaves them {levels} of {rounding.high - rounding.low + 1}"


# ***** stored numbers *****


def _worst(source: Source, cures: Cures) -> Stored | None:
    """The stored numbers that make most of a node's error."""
    rounded = [each for each in cures.read(source) if each.rounding is not None]
    known = [each for each in rounded if each.right is not None]
    if len(known) < len(rounded) or len(known) < 2:
        return next(iter(sorted(rounded, key=lambda each: -each.size)), None)

    def alone(one: Stored) -> float:
        changes: Values = {}
        for each in known:
            changes |= cures.change(each, each.right) if each is not one else {}
        errors = cures.again(source, changes)
        return float(sum(np.linalg.norm(np.nan_to_num(error, posinf=1e30, neginf=-1e30)) for error in errors.values()))

    return max(known, key=alone)


def _weights(stored: Stored | None, source: Source, local: Local) -> str:
    if stored is None or stored.right is None or stored.rounding is None:
        off = percent(max(local.errors[end] for end in source.ends))
        return f"its weights are wrong: with right inputs it is {off} off, far more than their rounding explains"
    own, rounding = local.numbers(stored.real), stored.rounding
    assert own is not None
    axis = rounding.axis % own.ndim if rounding.scale.size > 1 and own.ndim else 0
    what = f"the numbers of {visible(stored.name)[:120]}"
    if own.ndim == 0 or rounding.scale.size == 1:
        factor = _factor(own, stored.right)
        return f"its scale is wrong: {what} are {plain(factor)} times those of the original"
    factors = np.array([_factor(*each) for each in zip(np.moveaxis(own, axis, 0), np.moveaxis(stored.right, axis, 0))])
    alike = ALIKE if rounding.high - rounding.low > 100 else FEW * ALIKE
    if np.ptp(factors) <= alike * max(abs(factors.mean()), TINY):
        return f"its scale is wrong: {what} are {plain(factors.mean())} times those of the original"
    wrong = np.flatnonzero(np.abs(factors - 1) > 2 * alike)
    if 0 < len(wrong) <= max(1, len(factors) // 4):
        names = ", ".join(map(str, wrong[:4])) + (", ..." if len(wrong) > 4 else "")
        times = plain(factors[wrong[np.argmax(np.abs(factors[wrong] - 1))]])
        return f"its scale of channel {names} is wrong: there {what} are {times} times those of the original"
    spans = f"from {plain(factors.min())} to {plain(factors.max())} times those of the original"
    other = _other_order(own, stored.right, rounding, axis)
    return f"its scales are not those of its channels: {what} are {spans}{other}"


def _other_order(own: np.ndarray, right: np.ndarray, rounding: Rounding, axis: int) -> str:
    """Where the scales would be right."""
    if rounding.block:
        return ""
    whole = own / np.maximum(np.abs(rounding.spread(rounding.scale, own.shape)), TINY)
    best, words = float(np.linalg.norm(own - right)) / 4, ""
    for at in range(own.ndim):
        if own.shape[at] == rounding.scale.size:
            for order, name in ((1, ""), (-1, " in the reverse order")):
                shape = [-1 if each == at else 1 for each in range(own.ndim)]
                error = float(np.linalg.norm(whole * rounding.scale[::order].reshape(shape) - right))
                if error < best and (at, order) != (axis, 1):
                    best, words = error, f"; they fit along axis {at}{name}"
    return words


def _factor(own: np.ndarray, right: np.ndarray) -> float:
    """How many times the one is the other, by least squares."""
    return float(np.sum(own * right) / max(float(np.sum(right * right)), TINY))


def _channel(stored: Stored | None, local: Local) -> str:
    assert stored is not None and stored.rounding is not None
    values = stored.right if stored.right is not None else local.numbers(stored.real)
    assert values is not None
    return _far(values, widest(values, (0, -1)), stored.rounding, f"of {visible(stored.name)[:120]}")


# ***** floats of 16 bits *****


def _half(source: Source, local: Local) -> str:
    rights = [local.matching.right(end) for end in source.ends]
    kinds = [end.dtype for end in source.ends if end.dtype in HALVES]
    most = LARGEST if not kinds or HALVES[kinds[0]] == "float16" else 3.4e38
    over = max((float(np.mean(np.abs(each) > most)) for each in rights if each.size), default=0.0)
    size = max((float(np.abs(each).max(initial=0.0)) for each in rights), default=0.0)
    if over:
        return f"{percent(over)} of its values are beyond {most:g}, the largest of their type: they reach {plain(size)}"
    return "its numbers are too small, or too large, for floats of 16 bits"


def tensor_of_(source: Source, local: Local) -> str:
    """The name of the original's tensor that a source is about."""
    return visible(local.matching.found[source.ends[0]].name)[:120]


def plain(number: float) -> str:
    return f"{number:.3g}"


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"
