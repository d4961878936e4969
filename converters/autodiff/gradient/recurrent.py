"""Gradients of recurrent operators, through time, unrolled step by step (so their length must be known).

The gates of all steps are recomputed together from the states that the operator returned, which costs one matrix
product; only what one step needs from the next is in the loop, and the gradients of the weights are again one
product for all steps.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from xbench.converters.autodiff.gradient.ops import dims


class _Direction(NamedTuple):
    """One direction of a recurrent operator, its steps in the order in which they are computed.

    x (T, B, I), w (G, I), r (G, H), bias (G) of the input and of the state, y (T, B, H), first state (1, B, H), and the
    gradients of y and of the last state (None if there is none).
    """

    x: Any
    w: Any
    r: Any
    bias: tuple[Any, Any] | None
    y: Any
    h0: Any
    c0: Any
    dy: Any
    dh: Any
    dc: Any


class _Gradients(NamedTuple):
    """Gradients of the gates' terms from the input and from the state, (T, B, G), and of the first states, (1, B, H);
    that of r if it is not the product of the gates and the states."""

    of_x: Any
    of_h: Any
    dh: Any
    dc: Any = None
    dr: Any = None


def LSTM(op, node, dy, dh=None, dc=None):
    return _through_time(op, node, (dy, dh, dc), 4, _lstm)


def GRU(op, node, dy, dh=None):
    steps = _gru if node.attributes.get_int("linear_before_reset", 0) else _gru_reset_before
    return _through_time(op, node, (dy, dh, None), 3, steps)


def RNN(op, node, dy, dh=None):
    return _through_time(op, node, (dy, dh, None), 1, _rnn)


_PLAIN = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def _through_time(op, node, gradients, gates, steps: Callable[..., Any]):
    x, w, r, bias, lengths, h0, c0, peepholes = [*node.inputs, *[None] * 8][:8]
    direction = node.attributes.get_string("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    named = list(node.attributes.get_strings("activations", []))
    plain = not named or named == _PLAIN[node.op_type] * count
    if lengths or peepholes or not plain or node.attributes.get_int("layout", 0) or "clip" in node.attributes:
        raise NotImplementedError(
            f"the gradient of {node.op_type} with lengths, peepholes, layout=1, clip or activations"
        )
    if None in (dims(x)[0], dims(w)[2]):
        raise NotImplementedError(f"the gradient of {node.op_type} over a number of steps that is not known")
    y, hidden = node.outputs[0], dims(r)[2]
    y.name = y.name or f"{node.outputs[1].name}_steps"
    parts = []
    for d in range(count):
        backward = direction == "reverse" or d == 1
        turn = (lambda v: op.Slice(v, [-1], [-(2**62)], [0], [-1])) if backward else lambda v: v
        one = lambda v, axis=0, d=d: None if v is None else _one(op, v, axis, d, count)  # noqa: E731
        state = lambda v: op.Unsqueeze(v, [0]) if v is not None else None  # noqa: E731
        biases = None if bias is None else op.Split(one(bias), axis=0, outputs=2, num_outputs=2)
        zero = None
        if None in (h0, c0):  # a file may give one of both
            last = one(y, 1)
            zero = op.Mul(op.Slice(last, [0], [1], [0]), 0.0)
        given = _Direction(
            turn(x), one(w), one(r), biases, turn(one(y, 1)),
            zero if h0 is None else state(one(h0)), zero if c0 is None else state(one(c0)),
            None if gradients[0] is None else turn(one(gradients[0], 1)), *(state(one(g)) for g in gradients[1:]),
        )  # fmt: skip
        parts.append(_of_direction(op, given, gates, hidden, dims(x), turn, steps))
    stacked = [_stack(op, [part[i] for part in parts]) for i in range(1, 6)]
    dx = parts[0][0] if count == 1 else op.Add(parts[0][0], parts[1][0])
    dw, dr, dbias, dh0, dc0 = stacked
    return [dx, dw, dr, dbias, None, dh0, dc0]


def _one(op, value, axis, d, count):
    """The part of a tensor for one direction."""
    if count == 1:
        return op.Squeeze(value, [axis])
    return op.Gather(value, d, axis=axis)


def _stack(op, parts):
    if parts[0] is None:
        return None
    wide = [op.Unsqueeze(part, [0]) for part in parts]
    return wide[0] if len(wide) == 1 else op.Concat(*wide, axis=0)


def _of_direction(op, given, gates, hidden, shape, turn, steps):
    """Gradients of x, w, r, bias, h0 and c0."""
    length, _, width = shape
    before = op.Concat(given.h0, op.Slice(given.y, [0], [length - 1], [0]), axis=0) if length > 1 else given.h0
    of_x, of_h = op.MatMul(given.x, _turned(op, given.w)), op.MatMul(before, _turned(op, given.r))
    if given.bias is not None:
        of_x, of_h = op.Add(of_x, given.bias[0]), op.Add(of_h, given.bias[1])
    grads = steps(op, given, before, of_x, of_h, length, hidden)
    dw = _over_steps(op, grads.of_x, gates * hidden, given.x, width)
    dr = _over_steps(op, grads.of_h, gates * hidden, before, hidden) if grads.dr is None else grads.dr
    sums = [op.ReduceSum(each, [0, 1], keepdims=0) for each in (grads.of_x, grads.of_h)] if given.bias else []
    dbias = op.Concat(*sums, axis=0) if given.bias else None
    states = [op.Squeeze(v, [0]) if v is not None else None for v in (grads.dh, grads.dc)]
    return turn(op.MatMul(grads.of_x, given.w)), dw, dr, dbias, *states


def _over_steps(op, gates, rows, states, columns):
    """The product of two sequences (T, B, ...) over all steps and samples: the gradient of a matrix."""
    return op.Gemm(op.Reshape(gates, [-1, rows]), op.Reshape(states, [-1, columns]), transA=1)


def _turned(op, matrix):
    return op.Transpose(matrix, perm=[1, 0])


def _split(op, value, parts, axis):
    if parts == 1:
        return [value]
    return list(op.Split(value, axis=axis, num_outputs=parts, outputs=parts))


def _join(op, parts, axis):
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


def _slope(op, y):
    """The slope of the logistic function, from its value."""
    return op.Mul(y, op.Sub(1.0, y))


def _bend(op, y):
    """The slope of the hyperbolic tangent, from its value."""
    return op.Sub(1.0, op.Mul(y, y))


def _arrives(op, step, later, length, t):
    """The gradient of the state of step t: from its own output and from the next step."""
    parts = [v for v in (step[t] if step else None, later) if v is not None]
    return parts[0] if len(parts) == 1 else op.Add(*parts)


def _lstm(op, given, before, of_x, of_h, length, hidden):
    """Hochreiter and Schmidhuber, 1997, with ONNX's gates i, o, f, c. Returns the gradient of the gates twice."""
    i, o, f, c = _split(op, op.Add(of_x, of_h), 4, -1)
    i, o, f, g = op.Sigmoid(i), op.Sigmoid(o), op.Sigmoid(f), op.Tanh(c)
    kept, new = _split(op, f, length, 0), _split(op, op.Mul(i, g), length, 0)
    cells = [given.c0]
    for t in range(length):
        cells.append(op.Add(op.Mul(kept[t], cells[-1]), new[t]))
    bent, past = op.Tanh(_join(op, cells[1:], 0)), _join(op, cells[:-1], 0)
    slopes = [
        op.Mul(g, _slope(op, i)),
        op.Mul(bent, _slope(op, o)),
        op.Mul(past, _slope(op, f)),
        op.Mul(i, _bend(op, g)),
    ]
    factors = _split(op, op.Concat(*slopes, axis=-1), length, 0)
    through = _split(op, op.Mul(o, _bend(op, bent)), length, 0)
    outputs = None if given.dy is None else _split(op, given.dy, length, 0)
    dh, dc, dgates = given.dh, given.dc, []
    zero = op.Mul(given.h0, 0.0)
    for t in reversed(range(length)):
        arrived = _arrives(op, outputs, dh, length, t) if outputs or dh is not None else zero
        cell = op.Mul(arrived, through[t])
        cell = cell if dc is None else op.Add(cell, dc)
        dgates.append(op.Mul(op.Concat(cell, arrived, cell, cell, axis=-1), factors[t]))
        dh, dc = op.MatMul(dgates[-1], given.r), op.Mul(cell, kept[t])
    gates = _join(op, dgates[::-1], 0)
    return _Gradients(gates, gates, dh, dc)


def _gru(op, given, before, of_x, of_h, length, hidden):
    """Cho et al., 2014, in the form of cuDNN (linear_before_reset), with ONNX's gates z, r, h."""
    (xz, xr, xn), (hz, hr, hn) = _split(op, of_x, 3, -1), _split(op, of_h, 3, -1)
    z, r = op.Sigmoid(op.Add(xz, hz)), op.Sigmoid(op.Add(xr, hr))
    n = op.Tanh(op.Add(xn, op.Mul(r, hn)))
    new = op.Mul(op.Sub(1.0, z), _bend(op, n))
    update = op.Mul(op.Sub(before, n), _slope(op, z))
    reset = op.Mul(op.Mul(new, hn), _slope(op, r))
    factors = _split(op, op.Concat(update, reset, op.Mul(new, r), axis=-1), length, 0)
    kept, outputs = _split(op, z, length, 0), None if given.dy is None else _split(op, given.dy, length, 0)
    dh, arrived, dgates = given.dh, [], []
    for t in reversed(range(length)):
        arrived.append(_arrives(op, outputs, dh, length, t))
        dgates.append(op.Mul(op.Concat(arrived[-1], arrived[-1], arrived[-1], axis=-1), factors[t]))
        dh = op.Add(op.Mul(arrived[-1], kept[t]), op.MatMul(dgates[-1], given.r))
    of_state, arrivals = _join(op, dgates[::-1], 0), _join(op, arrived[::-1], 0)
    first = op.Slice(of_state, [0], [2 * hidden], [2])
    return _Gradients(op.Concat(first, op.Mul(arrivals, new), axis=-1), of_state, dh)


def _gru_reset_before(op, given, before, of_x, of_h, length, hidden):
    """The original form of the GRU, which resets the state before it is multiplied (linear_before_reset=0)."""
    of_gates, of_new = op.Split(given.r, [2 * hidden, hidden], axis=0, outputs=2)
    (xz, xr, xn), (hz, hr, _) = _split(op, of_x, 3, -1), _split(op, of_h, 3, -1)
    z, r = op.Sigmoid(op.Add(xz, hz)), op.Sigmoid(op.Add(xr, hr))
    reset = op.Mul(r, before)
    hn = op.MatMul(reset, _turned(op, of_new))
    hn = hn if given.bias is None else op.Add(hn, op.Slice(given.bias[1], [2 * hidden], [3 * hidden], [0]))
    n = op.Tanh(op.Add(xn, hn))
    of_z, of_n = op.Mul(op.Sub(before, n), _slope(op, z)), op.Mul(op.Sub(1.0, z), _bend(op, n))
    direct = _split(op, op.Concat(of_z, of_n, axis=-1), length, 0)
    through, kept, resets = (_split(op, v, length, 0) for v in (op.Mul(before, _slope(op, r)), z, r))
    outputs = None if given.dy is None else _split(op, given.dy, length, 0)
    dh, dgates = given.dh, []
    for t in reversed(range(length)):
        arrived = _arrives(op, outputs, dh, length, t)
        dz, dn = _split(op, op.Mul(op.Concat(arrived, arrived, axis=-1), direct[t]), 2, -1)
        of_reset = op.MatMul(dn, of_new)
        gates = op.Concat(dz, op.Mul(of_reset, through[t]), axis=-1)
        dgates.append(op.Concat(gates, dn, axis=-1))
        dh = op.Add(op.Mul(arrived, kept[t]), op.Add(op.Mul(of_reset, resets[t]), op.MatMul(gates, of_gates)))
    gates = _join(op, dgates[::-1], 0)
    zr, dn = op.Split(gates, [2 * hidden, hidden], axis=2, outputs=2)
    parts = _over_steps(op, zr, 2 * hidden, before, hidden), _over_steps(op, dn, hidden, reset, hidden)
    return _Gradients(gates, gates, dh, dr=op.Concat(*parts, axis=0))


def _rnn(op, given, before, of_x, of_h, length, hidden):
    slopes = _split(op, _bend(op, given.y), length, 0)
    outputs = None if given.dy is None else _split(op, given.dy, length, 0)
    dh, dgates = given.dh, []
    for t in reversed(range(length)):
        dgates.append(op.Mul(_arrives(op, outputs, dh, length, t), slopes[t]))
        dh = op.MatMul(dgates[-1], given.r)
    gates = _join(op, dgates[::-1], 0)
    return _Gradients(gates, gates, dh)
