"""Gradients of operators that work element by element."""

import math

from xbench.converters.codegen.printer import constant, detached


def Identity(op, node, dy):
    return [None if detached(node) else dy]


def Cast(op, node, dy):
    x = node.inputs[0]
    return [op.Cast(dy, to=x.dtype)] if x.dtype.is_floating_point() else [None]


def CastLike(op, node, dy):
    """The target type is that of the second input, whose values do not matter."""
    return [*Cast(op, node, dy), None]


def Add(op, node, dy):
    return [op.sum_to(dy, node.outputs[0], x) for x in node.inputs]


Sum = Add


def Mean(op, node, dy):
    return [op.sum_to(op.Mul(dy, 1 / len(node.inputs)), node.outputs[0], x) for x in node.inputs]


def Sub(op, node, dy):
    (a, b), y = node.inputs, node.outputs[0]
    return [op.sum_to(dy, y, a), op.Neg(op.sum_to(dy, y, b))]


def Mul(op, node, dy):
    (a, b), y = node.inputs, node.outputs[0]
    return [op.sum_to(op.Mul(dy, b), y, a), op.sum_to(op.Mul(dy, a), y, b)]


def Div(op, node, dy):
    (a, b), y = node.inputs, node.outputs[0]
    da = op.Div(dy, b)
    return [op.sum_to(da, y, a), op.Neg(op.sum_to(op.Mul(da, y), y, b))]


def Mod(op, node, dy):
    (a, b), y = node.inputs, node.outputs[0]
    turns = op.Div(op.Sub(a, y), b)
    return [op.sum_to(dy, y, a), op.Neg(op.sum_to(op.Mul(dy, turns), y, b))]


def Pow(op, node, dy):
    (x, p), y = node.inputs, node.outputs[0]
    known = constant(p)
    if known is not None and known.size == 1:
        power = float(known.item())
        slope = op.Mul(x, 2.0) if power == 2 else op.Mul(op.Pow(x, power - 1), power)
        return [op.sum_to(op.Mul(dy, slope), y, x), None]
    slope = op.Mul(p, op.Pow(x, op.Sub(p, 1.0)))
    return [op.sum_to(op.Mul(dy, slope), y, x), op.sum_to(op.Mul(dy, op.Mul(y, op.Log(x))), y, p)]


def Neg(op, node, dy):
    return [op.Neg(dy)]


def Abs(op, node, dy):
    return [op.Mul(dy, op.Sign(node.inputs[0]))]


def Reciprocal(op, node, dy):
    (y,) = node.outputs
    return [op.Neg(op.Mul(dy, op.Mul(y, y)))]


def Exp(op, node, dy):
    return [op.Mul(dy, node.outputs[0])]


def Log(op, node, dy):
    return [op.Div(dy, node.inputs[0])]


def Sqrt(op, node, dy):
    return [op.Div(dy, op.Mul(node.outputs[0], 2.0))]


def Erf(op, node, dy):
    (x,) = node.inputs
    return [op.Mul(dy, op.Mul(op.Exp(op.Neg(op.Mul(x, x))), 2 / math.sqrt(math.pi)))]


# ***** of angles *****


def Sin(op, node, dy):
    return [op.Mul(dy, op.Cos(node.inputs[0]))]


def Cos(op, node, dy):
    return [op.Neg(op.Mul(dy, op.Sin(node.inputs[0])))]


def Tan(op, node, dy):
    (y,) = node.outputs
    return [op.Mul(dy, op.Add(op.Mul(y, y), 1.0))]


def Asin(op, node, dy):
    (x,) = node.inputs
    return [op.Div(dy, op.Sqrt(op.Sub(1.0, op.Mul(x, x))))]


def Acos(op, node, dy):
    return [op.Neg(Asin(op, node, dy)[0])]


def Atan(op, node, dy):
    (x,) = node.inputs
    return [op.Div(dy, op.Add(op.Mul(x, x), 1.0))]


def Sinh(op, node, dy):
    return [op.Mul(dy, op.Cosh(node.inputs[0]))]


def Cosh(op, node, dy):
    return [op.Mul(dy, op.Sinh(node.inputs[0]))]


def Tanh(op, node, dy):
    (y,) = node.outputs
    return [op.Mul(dy, op.Sub(1.0, op.Mul(y, y)))]


def Asinh(op, node, dy):
    (x,) = node.inputs
    return [op.Div(dy, op.Sqrt(op.Add(op.Mul(x, x), 1.0)))]


def Acosh(op, node, dy):
    (x,) = node.inputs
    return [op.Div(dy, op.Sqrt(op.Sub(op.Mul(x, x), 1.0)))]


def Atanh(op, node, dy):
    (x,) = node.inputs
    return [op.Div(dy, op.Sub(1.0, op.Mul(x, x)))]


# ***** choices *****


def Where(op, node, dy):
    (condition, a, b), y = node.inputs, node.outputs[0]
    return [None, *(op.sum_to(op.Where(condition, *each), y, x) for each, x in [((dy, 0.0), a), ((0.0, dy), b)])]


def Max(op, node, dy):
    """As in PyTorch: if several inputs are the largest, each has an equal share."""
    y = node.outputs[0]
    chosen = [op.Cast(op.Equal(x, y), to=op.floating) for x in node.inputs]
    if len(chosen) == 1:
        return [dy]
    share = op.Div(dy, op.Sum(*chosen))
    return [op.sum_to(op.Mul(share, each), y, x) for each, x in zip(chosen, node.inputs, strict=True)]


Min = Max


def Clip(op, node, dy):
    x, low, high = [*node.inputs, None, None][:3]
    below = None if low is None else op.Greater(x, low)
    above = None if high is None else op.Less(x, high)
    if below is None and above is None:
        return [dy]
    inside = op.And(below, above) if below is not None and above is not None else below or above
    ends = [end and op.ReduceSum(op.Where(out(x, end), dy, 0.0), keepdims=0)
            for end, out in ((low, op.LessOrEqual), (high, op.GreaterOrEqual))]  # fmt: skip
    return [op.Where(inside, dy, 0.0), *ends]


# ***** activations *****


def Relu(op, node, dy):
    """A product, because ONNX Runtime takes more than twice as long for Where."""
    return [op.Mul(dy, op.Cast(op.Greater(node.outputs[0], 0.0), to=op.floating))]


def LeakyRelu(op, node, dy):
    alpha = node.attributes.get_float("alpha", 0.01)
    return [op.Where(op.Greater(node.inputs[0], 0.0), dy, op.Mul(dy, alpha))]


def PRelu(op, node, dy):
    (x, slope), y = node.inputs, node.outputs[0]
    positive = op.Greater(x, 0.0)
    dslope = op.Where(positive, 0.0, op.Mul(dy, x))
    return [op.Where(positive, dy, op.Mul(dy, slope)), op.sum_to(dslope, y, slope)]


def ThresholdedRelu(op, node, dy):
    return [op.Where(op.Greater(node.inputs[0], node.attributes.get_float("alpha", 1.0)), dy, 0.0)]


def Shrink(op, node, dy):
    return [op.Where(op.Greater(op.Abs(node.inputs[0]), node.attributes.get_float("lambd", 0.5)), dy, 0.0)]


def Elu(op, node, dy):
    """For x below zero, alpha exp(x) is y + alpha: no exponential that overflows."""
    return [_exponential(op, node, dy, node.attributes.get_float("alpha", 1.0), 1.0)]


def Selu(op, node, dy):
    alpha = node.attributes.get_float("alpha", 1.6732631921768188)
    return [_exponential(op, node, dy, alpha, node.attributes.get_float("gamma", 1.0507010221481323))]


def Celu(op, node, dy):
    alpha = node.attributes.get_float("alpha", 1.0)
    slope = op.Add(op.Div(node.outputs[0], alpha), 1.0)
    return [op.Where(op.Greater(node.inputs[0], 0.0), dy, op.Mul(dy, slope))]


def _exponential(op, node, dy, alpha, gamma):
    slope = op.Add(node.outputs[0], alpha * gamma)
    return op.Where(op.Greater(node.inputs[0], 0.0), dy if gamma == 1 else op.Mul(dy, gamma), op.Mul(dy, slope))


def Sigmoid(op, node, dy):
    (y,) = node.outputs
    return [op.Mul(dy, op.Mul(y, op.Sub(1.0, y)))]


def HardSigmoid(op, node, dy):
    (x,), alpha = node.inputs, node.attributes.get_float("alpha", 0.2)
    line = op.Add(op.Mul(x, alpha), node.attributes.get_float("beta", 0.5))
    return [op.Where(op.And(op.Greater(line, 0.0), op.Less(line, 1.0)), op.Mul(dy, alpha), 0.0)]


def HardSwish(op, node, dy):
    (x,) = node.inputs
    slope = op.Where(op.Greater(x, -3.0), op.Add(op.Div(x, 3.0), 0.5), 0.0)
    return [op.Mul(dy, op.Where(op.Less(x, 3.0), slope, 1.0))]


def Softplus(op, node, dy):
    return [op.Mul(dy, op.Sigmoid(node.inputs[0]))]


def Softsign(op, node, dy):
    wide = op.Add(op.Abs(node.inputs[0]), 1.0)
    return [op.Div(dy, op.Mul(wide, wide))]


def Mish(op, node, dy):
    (x,) = node.inputs
    bend = op.Tanh(op.Softplus(x))
    slope = op.Add(bend, op.Mul(op.Mul(x, op.Sigmoid(x)), op.Sub(1.0, op.Mul(bend, bend))))
    return [op.Mul(dy, slope)]


def Gelu(op, node, dy):
    (x,) = node.inputs
    if node.attributes.get_string("approximate", "none") == "none":
        share = op.Mul(op.Add(op.Erf(op.Mul(x, math.sqrt(0.5))), 1.0), 0.5)
        density = op.Mul(op.Exp(op.Mul(op.Mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
        return [op.Mul(dy, op.Add(share, op.Mul(x, density)))]
    root, square = math.sqrt(2 / math.pi), op.Mul(x, x)
    bend = op.Tanh(op.Mul(x, op.Add(op.Mul(square, 0.044715 * root), root)))
    inner = op.Add(op.Mul(square, 3 * 0.044715 * root), root)
    slope = op.Mul(op.Mul(x, inner), op.Sub(1.0, op.Mul(bend, bend)))
    return [op.Mul(dy, op.Mul(op.Add(op.Add(bend, 1.0), slope), 0.5))]


def Swish(op, node, dy):
    (x,), alpha = node.inputs, node.attributes.get_float("alpha", 1.0)
    share = op.Sigmoid(op.Mul(x, alpha))
    return [op.Mul(dy, op.Add(share, op.Mul(node.outputs[0], op.Mul(op.Sub(1.0, share), alpha))))]
