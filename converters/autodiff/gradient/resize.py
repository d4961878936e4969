"""The gradient of Resize. Every axis was a lookup or a matrix product: its gradient is a sum over copies, or the
product with the transposed matrix."""

import math

import numpy as np

from xbench.converters.autodiff.gradient.ops import dims
from xbench.converters.codegen.printer import constant
from xbench.converters.ops.generic.resize import copied, resampled


def Resize(op, node, dy):
    old, way = dims(node.inputs[0]), dims(node.outputs[0])
    attributes = {name: a.value for name, a in node.attributes.items() if name != "extrapolation_value"}
    axes = [axis % len(old) for axis in attributes.pop("axes", range(len(old)))]
    roi, scales, sizes = (constant(value) for value in [*node.inputs, None, None, None][1:4])
    if scales is None or not scales.size:
        scales, sizes = None, [way[axis] or 1 for axis in axes] if sizes is None else sizes
    targets = sizes if scales is None else scales
    if any(old[axis] is None and target != 1 for axis, target in zip(axes, targets, strict=True)):
        raise NotImplementedError("the gradient of Resize along an axis whose length is not known")
    shape = [n or 1 for n in old]
    for axis, index, matrix, outside in resampled(shape, roi, scales, sizes, axes=axes, **attributes):
        length, copies = shape[axis], 0 if index is None or outside.any() else copied(index, shape[axis])
        if copies:
            parted = op.reshape(dy, [*way[:axis], length, copies, *way[axis + 1 :]])
            dy = op.ReduceSum(parted, [axis + 1], keepdims=0)
        else:
            matrix = np.eye(length)[index] if matrix is None else matrix
            dy = _product(op, dy, np.where(outside[:, None], 0, matrix), axis, way)
        way[axis] = length
    return [dy]


def _product(op, dy, matrix, axis, lengths):
    """dy, whose axes have these lengths, times the transposed matrix (new length, old length) along one of them."""
    new, old = matrix.shape
    after, matrix = math.prod(lengths[axis + 1 :]), matrix.astype(op.floating.numpy())
    if after == 1:
        dx = op.MatMul(op.reshape(dy, [-1, new]), matrix)
    else:
        dx = op.MatMul(np.ascontiguousarray(matrix.T), op.reshape(dy, [-1, new, after]))
    return op.reshape(dx, [*lengths[:axis], old, *lengths[axis + 1 :]])
