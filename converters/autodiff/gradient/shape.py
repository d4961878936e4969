"""Gradients of operators that move elements: each is moved back, and elements read twice are added up."""

import numpy as np
import onnx_ir as ir

from xbench.converters.autodiff.gradient.ops import dims, rank
from xbench.converters.codegen.printer import constant, padding
from xbench.converters.ops import geometry


def Reshape(op, node, dy):
    return [op.reshape_like(dy, node.inputs[0])]


Flatten = Squeeze = Unsqueeze = Reshape


def Transpose(op, node, dy):
    perm = node.attributes.get_ints("perm", range(rank(node.inputs[0]))[::-1])
    return [op.Transpose(dy, perm=[int(a) for a in np.argsort(list(perm))])]


def Expand(op, node, dy):
    return [op.sum_to(dy, node.outputs[0], node.inputs[0])]


def Tile(op, node, dy):
    x, repeats = node.inputs
    known, evens = constant(repeats), list(range(0, 2 * rank(x), 2))
    if known is not None and dims(x).count(None) <= 1:
        apart = op.reshape(dy, [n for pair in zip(known.tolist(), dims(x), strict=True) for n in pair])
    else:
        pairs = op.Concat(op.Unsqueeze(repeats, [1]), op.Unsqueeze(op.value(op.shape(x)), [1]), axis=1)
        apart = op.Reshape(dy, op.Reshape(pairs, [-1]))
    return [op.ReduceSum(apart, evens, keepdims=0)]


def Concat(op, node, dy):
    axis = node.attributes.get_int("axis", 0) % rank(node.outputs[0])
    sizes = [dims(x)[axis] for x in node.inputs]
    if len(sizes) == 1:
        return [dy]
    if None in sizes:
        sizes = op.Concat(*(op.length(x, axis) for x in node.inputs), axis=0)
    return list(op.Split(dy, sizes, axis=axis, outputs=len(node.inputs)))


def Split(op, node, *dys):
    axis = node.attributes.get_int("axis", 0)
    parts = [op.zeros_like(y) if dy is None else dy for y, dy in zip(node.outputs, dys, strict=True)]
    return [op.Concat(*parts, axis=axis)]


def Pad(op, node, dy):
    x, pads, _, axes = [*node.inputs, None, None][:4]
    widths, mode = _known(node, pads), node.attributes.get_string("mode", "constant")
    where = list(range(rank(x))) if axes is None else _known(node, axes)
    if mode != "constant":
        return [_unpadded(op, dy, dims(x), geometry.pad_widths(rank(x), widths, where), mode)]
    low, high = widths[: len(where)], widths[len(where) :]
    dx = op.Slice(dy, low, [-n if n > 0 else _END for n in high], where) if min(widths) >= 0 else None
    if dx is None:  # what is cut away is zero
        dx = op.Pad(dy, [-n for n in widths], 0.0, where)
    return [dx]


_END = np.iinfo(np.int64).max


def _unpadded(op, dy, shape, widths, mode):
    """The gradient of an array padded with itself: along each axis the sum of the runs in which it was read, forwards,
    backwards or one element repeatedly, each put back where it was read from."""
    for axis, (n, (low, high)) in enumerate(zip(shape, widths, strict=True)):
        if not low and not high:
            continue
        if n is None:
            raise NotImplementedError(f"the gradient of Pad in mode {mode} along an axis whose length is not known")
        total = None
        for start, first, count, step in _runs(geometry.padded_index(n, low, high, mode)):
            part = op.Slice(dy, [start], [start + count], [axis])
            if step < 0:
                part = op.Slice(part, [-1], [-_END], [axis], [-1])
            part = op.ReduceSum(part, [axis]) if step == 0 and count > 1 else part
            length, at = count if step else 1, first - (count - 1 if step < 0 else 0)
            pads = [[size if a == axis else 0 for a in range(len(shape))] for size in (at, n - at - length)]
            part = op.Pad(part, pads[0] + pads[1], 0.0) if length < n else part
            total = part if total is None else op.Add(total, part)
        dy = total
    return dy


def _runs(index):
    """Splits an index into runs of constant step -1, 0 or 1: the start of each, its first element, length, step."""
    start = 0
    while start < len(index):
        steps, step = np.diff(index[start:]), 1
        if len(steps) and abs(steps[0]) <= 1:
            step = int(steps[0])
            other = np.flatnonzero(steps != step)
            count = int(other[0]) + 1 if other.size else len(steps) + 1
        else:
            count = 1
        yield start, int(index[start]), count, step
        start += count


def Slice(op, node, dy):
    """Each axis by itself: reversed if it was read backwards, spread if it was read with gaps, padded."""
    x, starts, ends, axes, steps = [*node.inputs, None, None][:5]
    starts, ends = _bounds(op, starts), _bounds(op, ends)
    axes = range(len(starts)) if axes is None else _known(node, axes)
    steps = [1] * len(starts) if steps is None else _known(node, steps)
    left = dims(node.outputs[0])
    ends_of = {axis: ([0], [0]) for axis in range(rank(x))}  # what is put before and after each axis
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis, n = axis % rank(x), dims(x)[axis]
        if n is None or not (isinstance(start, int) and isinstance(end, int)):
            dy, ends_of[axis] = _unsliced(op, x, dy, axis, (start, end, step))
            continue
        first, last, _ = slice(start, end, step).indices(n)
        count = len(range(first, last, step))
        if step < 0:
            dy = op.Slice(dy, [-1], [-_END], [axis], [-1])
            first, step = first + (count - 1) * step, -step
        if step > 1:
            dy = _spread(op, dy, left, axis, step)
        left[axis] = (count - 1) * step + 1
        ends_of[axis] = [first], [n - first - left[axis]]
    pads = [each[side] for side in (0, 1) for each in ends_of.values()]
    if all(pad == [0] for pad in pads):
        return [dy]
    known = all(isinstance(pad, list) for pad in pads)
    return [op.Pad(dy, [n for pad in pads for n in pad] if known else op.Concat(*pads, axis=0), 0.0)]


def _bounds(op, given):
    """The bounds of a Slice: numbers, or arrays of one number that the graph computes."""
    known = constant(given)
    if known is not None:
        return [int(n) for n in known]
    wide = op.Cast(given, to=ir.DataType.INT64)
    return [op.Gather(wide, [i]) for i in range(_length_of(given))]


def _length_of(bounds):
    count = dims(bounds)[0]
    if count is None:
        raise NotImplementedError(f"the gradient of a Slice of {bounds.name}, whose length is not known")
    return count


def _unsliced(op, x, dy, axis, reach):
    """The gradient along an axis whose length or bounds are known when the graph runs, in the order of x, and the
    padding before and after it: none for the complete axis, forwards or backwards."""
    start, end, step = reach
    limit = np.iinfo(np.int32).max
    if not isinstance(start, int) or not isinstance(end, int):
        if step != 1:
            raise NotImplementedError(f"the gradient of a Slice by steps of {step} between computed bounds")
        n = op.length(x, axis)
        return _placed(op, dy, axis, _clamped(op, start, n), n)
    if step == -1 and (start == -1 or start >= limit) and end <= -limit:
        return op.Slice(dy, [-1], [-_END], [axis], [-1]), ([0], [0])
    if step != 1:
        raise NotImplementedError(f"the gradient of a Slice by steps of {step} along an axis whose length is not known")
    if start == 0 and end >= limit:
        return dy, ([0], [0])
    n = op.length(x, axis)
    return _placed(op, dy, axis, _clamped(op, start, n), n)


def _clamped(op, start, n):
    """The first place that a Slice reads of an axis of n numbers; n is an array of one number."""
    if isinstance(start, int):
        return op.Min([start], n) if start >= 0 else op.Max(op.Add(n, [start]), [0])
    positive = op.Where(op.Less(start, [0]), op.Add(start, n), start)
    return op.Min(op.Max(positive, [0]), n)


def _placed(op, dy, axis, low, n):
    return dy, (low, op.Sub(op.Sub(n, low), op.Gather(op.Shape(dy), [axis])))


def _spread(op, dy, shape, axis, step):
    """Puts step - 1 zeros between the elements of an axis."""
    count = shape[axis]
    apart = op.reshape(dy, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
    wide = op.Pad(
        apart, [*[0] * (len(shape) + 1), *[step - 1 if a == axis + 1 else 0 for a in range(len(shape) + 1)]], 0.0
    )
    spread = op.reshape(wide, [*shape[:axis], count * step, *shape[axis + 1 :]])
    return op.Slice(spread, [0], [(count - 1) * step + 1], [axis])


def Gather(op, node, dy):
    """Rows are added to zeros at the places they were read from; a single known row is padded with zeros."""
    table, indices = node.inputs
    if (row := padding(node)) is not None:
        fixed = op.value(np.array(row, indices.dtype.numpy()))
        trained = op.Cast(op.Not(op.Equal(indices, fixed)), to=op.floating)
        dy = op.Mul(dy, op.Unsqueeze(trained, [-1]))
    axis, n = node.attributes.get_int("axis", 0) % rank(table), rank(indices)
    length, known = dims(table)[axis], constant(indices)
    if known is not None and known.size == 1 and length is not None:
        place = int(known.item()) % length
        wide = dy if n else op.Unsqueeze(dy, [axis])
        wide = op.reshape(dy, [1 if a == axis else m for a, m in enumerate(dims(table))]) if n > 1 else wide
        pads = [place if a == axis else 0 for a in range(rank(table))]
        pads += [length - 1 - place if a == axis else 0 for a in range(rank(table))]
        return [op.Pad(wide, pads, 0.0), None]
    order, zeros = list(range(rank(node.outputs[0]))), op.zeros_like(table)
    if axis:
        dy = op.Transpose(dy, perm=[*order[axis : axis + n], *order[:axis], *order[axis + n :]])
        zeros = op.Transpose(zeros, perm=[axis, *(a for a in range(rank(table)) if a != axis)])
    sums = op.ScatterND(zeros, op.Unsqueeze(_positive(op, indices, table, axis), [-1]), dy, reduction="add")
    back = [*range(1, axis + 1), 0, *range(axis + 1, rank(table))]
    return [op.Transpose(sums, perm=back) if axis else sums, None]


def _positive(op, indices, table, axis):
    """Makes indices from the end count from the start: OpenVINO's ScatterND takes no others."""
    known, length = constant(indices), dims(table)[axis]
    if known is not None and (length is not None or (known >= 0).all()):
        return op.value(np.where(known < 0, known + (length or 0), known).astype(np.int64))
    if known is None and not _is_computed(indices):
        return indices
    length = op.Gather(op.Shape(table), op.value(np.array(axis))) if length is None else length
    return op.Where(op.Less(indices, 0), op.Add(indices, length), indices)


def _is_computed(value: ir.Value) -> bool:
    return value.producer() is not None


def GatherElements(op, node, dy):
    data, indices = node.inputs
    axis = node.attributes.get_int("axis", 0)
    return [op.ScatterElements(op.zeros_like(data), indices, dy, axis=axis, reduction="add"), None]


def GatherND(op, node, dy):
    data, indices = node.inputs
    if batch := node.attributes.get_int("batch_dims", 0):
        indices = _with_batch(op, indices, batch)
    return [op.ScatterND(op.zeros_like(data), indices, dy, reduction="add"), None]


def _with_batch(op, indices, batch):
    """Indices (B..., q..., k) of each sample as indices (B..., q..., b + k) of the batch."""
    shape = op.Shape(indices)
    one = op.Concat(op.Slice(shape, [0], [-1]), [1], axis=0)
    places = []
    for axis in range(batch):
        row = op.Range(op.value(np.array(0)), op.Gather(shape, op.value(np.array(axis))), op.value(np.array(1)))
        row = op.Reshape(row, [-1 if a == axis else 1 for a in range(rank(indices))])
        places.append(op.Expand(row, one))
    return op.Concat(*places, indices, axis=-1)


def Trilu(op, node, dy):
    return [op.Trilu(dy, *node.inputs[1:], upper=node.attributes.get_int("upper", 1)), None]


def DepthToSpace(op, node, dy):
    block = node.attributes.get_int("blocksize")
    dx = op.SpaceToDepth(dy, blocksize=block)
    if node.attributes.get_string("mode", "DCR") == "DCR":
        return [dx]
    channels = dims(node.outputs[0])[1]
    _, _, height, width = dims(node.inputs[0])
    apart = op.reshape(dx, [None, block * block, channels, height, width])
    return [op.reshape_like(op.Transpose(apart, perm=[0, 2, 1, 3, 4]), node.inputs[0])]


def SpaceToDepth(op, node, dy):
    return [op.DepthToSpace(dy, blocksize=node.attributes.get_int("blocksize"))]


def TopK(op, node, dy, _):
    zeros = op.zeros_like(node.inputs[0])
    return [op.ScatterElements(zeros, node.outputs[1], dy, axis=node.attributes.get_int("axis", -1))]


def ReverseSequence(op, node, dy):
    axes = {name: node.attributes.get_int(name, default) for name, default in (("batch_axis", 1), ("time_axis", 0))}
    return [op.ReverseSequence(dy, node.inputs[1], **axes)]


def _known(node, value) -> list[int]:
    """Numbers that must be known while the graph is written."""
    array = constant(value)
    if array is None:
        raise NotImplementedError(f"the gradient of a {node.op_type} whose {value.name} is computed")
    return [int(n) for n in array]
