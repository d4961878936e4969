"""Gradients of normalisations.

All are y = (x - mean) / sqrt(var + epsilon) * scale + bias over some axes. With h for x normalised and g for the
gradient of h, that of x is (g - mean(g) - h mean(g h)) / sqrt(var + epsilon) (Ioffe and Szegedy, 2015).
"""

from xbench.converters.autodiff.gradient.ops import dims, rank


def centred(op, x, axes, epsilon):
    """Returns x minus its mean over the axes; without those axes the mean, the variance (biased) and 1 / its root.

    Results of such numbers get the axes back (`op.Unsqueeze`) only where they meet x: else OpenVINO would compute
    them, roots included, for every element of x. It is written the same wherever it is needed: equal nodes are merged
    in the end.
    """
    mean = op.ReduceMean(x, axes, keepdims=0)
    rest = op.Sub(x, op.Unsqueeze(mean, axes))
    first, *others = axes
    lengths = op.ReduceL2(rest, others, keepdims=0) if others else rest  # without writing the squares
    variance = op.Div(op.ReduceSumSquare(lengths, [first], keepdims=0), op.count(x, axes))
    return rest, mean, variance, op.Reciprocal(op.Sqrt(op.Add(variance, epsilon)))


def _normalised(op, x, axes, epsilon):
    rest, _, _, inverse = centred(op, x, axes, epsilon)
    inverse = op.Unsqueeze(inverse, axes)
    return op.Mul(rest, inverse), inverse


def _backward(op, g, h, inverse, axes):
    shift = op.Add(op.ReduceMean(g, axes), op.Mul(h, op.ReduceMean(op.Mul(g, h), axes)))
    return op.Mul(inverse, op.Sub(g, shift))


def column(op, x, row):
    """One number per channel, as an image of one pixel."""
    return op.Unsqueeze(row, image_axes(x))


def image_axes(x):
    """All axes but that of the channels."""
    return [0, *range(2, rank(x))]


def BatchNormalization(op, node, dy, *_):
    """In training form, whatever the node says: statistics are the batch's. Images are read as rarely as possible."""
    x, scale = node.inputs[:2]
    axes, count = image_axes(x), op.count(x, image_axes(x))
    rest, _, _, inverse = centred(op, x, axes, node.attributes.get_float("epsilon", 1e-5))
    dbias = op.ReduceSum(dy, axes, keepdims=0)
    dscale = op.Mul(op.ReduceSum(op.Mul(dy, rest), axes, keepdims=0), inverse)
    rows = op.Div(op.Mul(dscale, inverse), count), op.Div(dbias, count), op.Mul(inverse, scale)
    slope, shift, factor = (column(op, x, row) for row in rows)
    return [op.Mul(op.Sub(dy, op.Add(op.Mul(rest, slope), shift)), factor), dscale, dbias]


def LayerNormalization(op, node, dy, *_):
    x, scale, bias = [*node.inputs, None][:3]
    axis = node.attributes.get_int("axis", -1) % rank(x)
    axes, epsilon = list(range(axis, rank(x))), node.attributes.get_float("epsilon", 1e-5)
    h, inverse = _normalised(op, x, axes, epsilon)
    dx = _backward(op, op.Mul(dy, scale), h, inverse, axes)
    return [dx, op.sum_to(op.Mul(dy, h), x, scale), bias and op.sum_to(dy, x, bias)]


def InstanceNormalization(op, node, dy):
    x, scale, _ = node.inputs
    axes, every = list(range(2, rank(x))), image_axes(x)
    h, inverse = _normalised(op, x, axes, node.attributes.get_float("epsilon", 1e-5))
    dx = _backward(op, op.Mul(dy, column(op, x, scale)), h, inverse, axes)
    return [dx, op.ReduceSum(op.Mul(dy, h), every, keepdims=0), op.ReduceSum(dy, every, keepdims=0)]


def MeanVarianceNormalization(op, node, dy):
    (x,), axes = node.inputs, list(node.attributes.get_ints("axes", [0, 2, 3]))
    h, inverse = _normalised(op, x, axes, 1e-9)
    return [_backward(op, dy, h, inverse, axes)]


def RMSNormalization(op, node, dy):
    """Without a mean: y = x / sqrt(mean(x^2) + epsilon) * scale."""
    x, scale = node.inputs
    axes = list(range(node.attributes.get_int("axis", -1) % rank(x), rank(x)))
    square = op.Add(op.ReduceMean(op.Mul(x, x), axes), node.attributes.get_float("epsilon", 1e-5))
    inverse, g = op.Reciprocal(op.Sqrt(square)), op.Mul(dy, scale)
    h = op.Mul(x, inverse)
    dx = op.Mul(inverse, op.Sub(g, op.Mul(h, op.ReduceMean(op.Mul(g, h), axes))))
    return [dx, op.sum_to(op.Mul(dy, h), x, scale)]


def LpNormalization(op, node, dy):
    (x,), (y,), axis = node.inputs, node.outputs, [node.attributes.get_int("axis", -1)]
    if node.attributes.get_int("p", 2) == 1:
        norm, direction = op.ReduceL1(x, axis), op.Sign(x)
    else:
        norm, direction = op.ReduceL2(x, axis), y
    return [op.Div(op.Sub(dy, op.Mul(direction, op.ReduceSum(op.Mul(dy, y), axis))), norm)]


def LRN(op, node, dy):
    """y = x s^-beta with s = bias + alpha / size * (sum of the squares of `size` channels around)."""
    (x,), (y,) = node.inputs, node.outputs
    size = node.attributes.get_int("size")
    alpha, beta, bias = (node.attributes.get_float(*each) for each in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    low, high = (size - 1) // 2, size - 1 - (size - 1) // 2
    s = op.Add(op.Mul(_channel_sums(op, op.Mul(x, x), x, low, high), alpha / size), bias)
    around = _channel_sums(op, op.Div(op.Mul(dy, y), s), x, high, low)
    return [op.Sub(op.Mul(dy, op.Pow(s, -beta)), op.Mul(op.Mul(x, around), 2 * alpha * beta / size))]


def _channel_sums(op, values, x, low, high):
    """For each channel the sum over those from `low` before it to `high` after it."""
    channels = dims(x)[1]
    padded = op.Pad(values, [low, high], 0.0, [1])
    parts = [op.Slice(padded, [i], [i + channels], [1]) for i in range(low + high + 1)]
    return op.Sum(*parts) if len(parts) > 1 else parts[0]
