"""Gradients of reductions and of operators built on them."""

from xbench.converters.autodiff.gradient.ops import rank
from xbench.converters.codegen.printer import constant


def _axes(node):
    """The axes that a reduction reduces."""
    every = list(range(rank(node.inputs[0])))
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = node.attributes.get_ints("axes", None) if given is None else constant(given)
    if given is not None and axes is None:
        raise NotImplementedError(f"the gradient of {node.op_type} over axes that are computed")
    if axes is None or len(axes) == 0:
        return [] if node.attributes.get_int("noop_with_empty_axes", 0) else every
    return sorted(int(axis) % len(every) for axis in axes)


def _kept(op, node, value):
    """A result of a reduction with the reduced axes kept, of length one."""
    if node.attributes.get_int("keepdims", 1) or not _axes(node):
        return value
    return op.Unsqueeze(value, _axes(node))


def ReduceSum(op, node, dy):
    return [op.expand_like(_kept(op, node, dy), node.inputs[0])]


def ReduceMean(op, node, dy):
    share = op.Div(_kept(op, node, dy), op.count(node.inputs[0], _axes(node)))
    return [op.expand_like(share, node.inputs[0])]


def ReduceMax(op, node, dy):
    """As PyTorch's amax: if several elements are the largest, each has an equal share."""
    x, axes = node.inputs[0], _axes(node)
    chosen = op.Cast(op.Equal(x, _kept(op, node, node.outputs[0])), to=op.floating)
    count = op.ReduceSum(chosen, axes) if axes else 1.0
    return [op.Mul(chosen, op.Div(_kept(op, node, dy), count))]


ReduceMin = ReduceMax


def ReduceProd(op, node, dy):
    """The product of all the others, also for an element that is the only zero."""
    x, axes = node.inputs[0], _axes(node)
    if not axes:
        return [dy]
    zero = op.Equal(x, 0.0)
    safe = op.Where(zero, 1.0, x)
    others, zeros = op.ReduceProd(safe, axes), op.ReduceSum(op.Cast(zero, to=op.floating), axes)
    alone = op.Where(op.Less(op.Abs(op.Sub(zeros, 1.0)), 0.5), others, 0.0)
    without = op.Where(op.Less(zeros, 0.5), op.Div(others, safe), 0.0)
    return [op.Mul(_kept(op, node, dy), op.Where(zero, alone, without))]


def ReduceL1(op, node, dy):
    return [op.Mul(_kept(op, node, dy), op.Sign(node.inputs[0]))]


def ReduceL2(op, node, dy):
    x, norm = node.inputs[0], _kept(op, node, node.outputs[0])
    slope = op.Div(_kept(op, node, dy), op.Where(op.Greater(norm, 0.0), norm, 1.0))
    return [op.Mul(x, slope)]


def ReduceSumSquare(op, node, dy):
    return [op.Mul(op.Mul(node.inputs[0], 2.0), _kept(op, node, dy))]


def ReduceLogSum(op, node, dy):
    sums = op.Exp(_kept(op, node, node.outputs[0]))
    return [op.expand_like(op.Div(_kept(op, node, dy), sums), node.inputs[0])]


def ReduceLogSumExp(op, node, dy):
    share = op.Exp(op.Sub(node.inputs[0], _kept(op, node, node.outputs[0])))
    return [op.Mul(_kept(op, node, dy), share)]


def CumSum(op, node, dy):
    reverse, exclusive = (node.attributes.get_int(name, 0) for name in ("reverse", "exclusive"))
    return [op.CumSum(dy, node.inputs[1], reverse=1 - reverse, exclusive=exclusive), None]


def Softmax(op, node, dy):
    y, axis = node.outputs[0], node.attributes.get_int("axis", -1)
    weighted = op.Mul(dy, y)
    return [op.Sub(weighted, op.Mul(y, op.ReduceSum(weighted, [axis])))]


def LogSoftmax(op, node, dy):
    y, axis = node.outputs[0], node.attributes.get_int("axis", -1)
    return [op.Sub(dy, op.Mul(op.Exp(y), op.ReduceSum(dy, [axis])))]
