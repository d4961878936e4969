"""Recurrent layers in full: all directions, initial states, sequence lengths, peepholes, activations, both layouts.

Frameworks override LSTM and GRU if they have a fused kernel for the plain case (`is_plain`) and use these for the
rest. Arrays: x (time, batch, input), w (directions, gates * hidden, input), r (directions, gates * hidden, hidden),
b (directions, 2 * gates * hidden), states (directions, batch, hidden); y (time, directions, batch, hidden).
The attribute `gate_order` is ours (`converters/passes/fusion.py`): the position of each of ONNX's gates in the weights.
"""

import functools

import numpy as np

from xbench.converters.ops.generic import elementwise

DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
SCALED = {"Affine": (1.0, 0.0), "ScaledTanh": (1.0, 1.0)}


def _affine(xp, x, *, alpha, beta):
    return alpha * x + beta


def _scaled_tanh(xp, x, *, alpha, beta):
    return alpha * xp.tanh(beta * x)


# ONNX's activations of recurrent layers and how many of alpha and beta each takes.
ACTIVATIONS = {
    "Affine": (_affine, 2),
    "Elu": (elementwise.Elu, 1),
    "HardSigmoid": (elementwise.HardSigmoid, 2),
    "LeakyRelu": (elementwise.LeakyRelu, 1),
    "Relu": (elementwise.Relu, 0),
    "ScaledTanh": (_scaled_tanh, 2),
    "Sigmoid": (lambda xp, x: xp.sigmoid(x), 0),
    "Softplus": (elementwise.Softplus, 0),
    "Softsign": (elementwise.Softsign, 0),
    "Tanh": (lambda xp, x: xp.tanh(x), 0),
    "ThresholdedRelu": (elementwise.ThresholdedRelu, 1),
}


def is_plain(kind, lengths, peepholes=None, *, activations=None, clip=None, input_forget=0, layout=0, **attributes):
    """Whether frameworks have fused kernels for a recurrent layer."""
    size = len(DEFAULTS[kind])
    standard = activations is None or all(
        tuple(activations[i : i + size]) == DEFAULTS[kind] for i in range(0, len(activations), size)
    )
    return lengths is None and peepholes is None and standard and clip is None and not input_forget and not layout


def _functions(xp, kind, activations, alphas, betas, directions, clip):
    """The activations of each direction, clipped before they are applied."""
    names = tuple(activations or DEFAULTS[kind] * directions)
    alphas, betas = list(alphas or ()), list(betas or ())
    made = []
    for name in names:
        function, count = ACTIVATIONS[name]
        given = {}
        if count and alphas:
            given["alpha"] = alphas.pop(0)
        if count > 1 and betas:
            given["beta"] = betas.pop(0)
        if name in SCALED:
            given = dict(zip(("alpha", "beta"), SCALED[name], strict=True)) | given
        made.append(_clipped(xp, functools.partial(function, xp, **given), clip))
    size = len(DEFAULTS[kind])
    return [made[d * size : (d + 1) * size] for d in range(directions)]


def _clipped(xp, function, clip):
    return function if clip is None else lambda x: function(xp.minimum(xp.maximum(x, -clip), clip))


def _directions(xp, lengths, direction, states, cell):
    """Runs a cell over time in each direction; returns y and the last states, each (directions, batch, hidden).

    `cell(d)` returns the rows that every step reads, (time, batch, gates * hidden), and a function (row, states) ->
    states. After the end of a sequence its states stay and y is zero; in reverse each sequence starts at its own end.
    """
    flips = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    ys, finals = [], []
    for d, reverse in enumerate(flips):
        rows, step = cell(d)
        if lengths is None:
            final, (y,) = xp.scan(lambda s, row, step=step: _kept(step(row[0], s)), states(d), (rows,), reverse)
        else:
            ramp = np.arange(xp.shape(rows)[0]).reshape(-1, 1)
            alive = xp.less(xp.asarray(ramp, lengths), xp.expand_dims(lengths, (0,)))
            rows = (rows, xp.expand_dims(alive, (2,)))
            final, (y,) = xp.scan(lambda s, row, step=step: _masked(xp, step, s, *row), states(d), rows, reverse)
        ys.append(y)
        finals.append(final)
    return xp.stack(ys, 1), *(xp.stack(parts, 0) for parts in zip(*finals, strict=True))


def _kept(states):
    return tuple(states), (states[0],)


def _masked(xp, step, states, x, alive):
    new = tuple(xp.where(alive, after, before) for after, before in zip(step(x, states), states, strict=True))
    return new, (xp.where(alive, new[0], 0),)


def _recurrent(xp, kind, x, w, r, b, lengths, initial, attributes, cell):
    """Code of RNN, GRU and LSTM: layouts, biases, initial states, activations, and x @ w.

    That product is computed for all steps at once, or in each step if a framework is faster that way.
    """
    layout, direction = attributes.get("layout", 0), attributes.get("direction", "forward")
    if layout:
        x, initial = xp.transpose(x, (1, 0, 2)), [s if s is None else xp.transpose(s, (1, 0, 2)) for s in initial]
    names = ("activations", "activation_alpha", "activation_beta")
    functions = _functions(xp, kind, *map(attributes.get, names), xp.shape(r)[0], attributes.get("clip"))
    zeros = xp.asarray(np.zeros((xp.shape(x)[1], xp.shape(r)[2]), np.float32), x)

    def states(d):
        return tuple(zeros if s is None else _row(xp, s, d) for s in initial)

    def of(d):
        biases = (None, None) if b is None else xp.split(_row(xp, b, d), [xp.shape(b)[1] // 2] * 2, 0)
        bias, step = cell(_row(xp, r, d), *biases, functions[d], d)
        weight = xp.transpose(_row(xp, w, d))

        def project(rows):
            return xp.matmul(rows, weight) if bias is None else xp.matmul(rows, weight) + bias

        if xp.projects_in_scan():
            return x, lambda row, states: step(project(row), states)
        return xp.reshape(project(xp.reshape(x, (-1, xp.shape(x)[2]))), (*xp.shape(x)[:2], -1)), step

    y, *finals = _directions(xp, lengths, direction, states, of)
    if layout:
        y, finals = xp.transpose(y, (2, 0, 1, 3)), [xp.transpose(s, (1, 0, 2)) for s in finals]
    return y, *finals


def _row(xp, x, index):
    """The part of a direction; a single one is not copied."""
    return xp.reshape(x, xp.shape(x)[1:]) if xp.shape(x)[0] == 1 else xp.take(x, np.asarray(index), 0)


def _gates(xp, y, order):
    """Gates in ONNX's order; `order` is the position of each."""
    parts = xp.split(y, [xp.shape(y)[-1] // len(order)] * len(order), -1)
    return [parts[place] for place in order]


def _last_gate(xp, y, count):
    """All gates but the last as one, which get the same activation at once, and the last."""
    size = xp.shape(y)[-1] // count
    return xp.split(y, [(count - 1) * size, size], -1)


def _activated(xp, y, order, f, g):
    """Gates in ONNX's order, the last by g, the others by f: adjacent ones at once or, if that is compiled, the
    entire row, one gate unused (JAX's LSTM forward: 0.98 of the time of Flax's, not 1.05)."""
    if xp.COMPILES:
        return [*_gates(xp, f(y), order)[:-1], g(_gates(xp, y, order)[-1])]
    last, size = order[-1], xp.shape(y)[-1] // len(order)
    runs = [n for n in (last, 1, len(order) - last - 1) if n]
    gates = []
    for n, run in zip(runs, xp.split(y, [n * size for n in runs], -1), strict=True):
        gates += _gates(xp, f(run), range(n)) if len(gates) != last else [g(run)]
    return [gates[place] for place in order]


def RNN(xp, x, w, r, b=None, lengths=None, h0=None, *, hidden_size=None, **attributes):
    """Returns Y and Y_h."""

    def cell(r, wb, rb, functions, d):
        r, (f,) = xp.transpose(r), functions
        return None if wb is None else wb + rb, lambda row, states: (f(row + xp.matmul(states[0], r)),)

    return _recurrent(xp, "RNN", x, w, r, b, lengths, [h0], attributes, cell)


def GRU(
    xp,
    x,
    w,
    r,
    b=None,
    lengths=None,
    h0=None,
    *,
    gate_order=(0, 1, 2),
    hidden_size=None,
    linear_before_reset=0,
    **attributes,
):
    """ONNX's gates are z, r, h; h is last in any `gate_order`. Returns Y and Y_h."""

    def cell(r, wb, rb, functions, d):
        (f, g), hidden = functions, xp.shape(r)[0] // 3
        zr, inner = (xp.transpose(part) for part in xp.split(r, [2 * hidden, hidden], 0))
        zrb, inner_bias = (0, 0) if rb is None else xp.split(rb, [2 * hidden, hidden], 0)
        every, bias = xp.transpose(r), 0 if rb is None else rb

        def after(row, states):
            (h,) = states
            xzr, xh = _last_gate(xp, row, 3)
            hzr, hh = _last_gate(xp, xp.matmul(h, every) + bias, 3)
            z, reset = _gates(xp, f(xzr + hzr), gate_order[:2])
            return ((1 - z) * g(xh + reset * hh) + z * h,)

        def before(row, states):
            (h,) = states
            xzr, xh = _last_gate(xp, row, 3)
            z, reset = _gates(xp, f(xzr + xp.matmul(h, zr) + zrb), gate_order[:2])
            return ((1 - z) * g(xh + xp.matmul(reset * h, inner) + inner_bias) + z * h,)

        return wb, after if linear_before_reset else before

    return _recurrent(xp, "GRU", x, w, r, b, lengths, [h0], attributes, cell)


def LSTM(
    xp,
    x,
    w,
    r,
    b=None,
    lengths=None,
    h0=None,
    c0=None,
    p=None,
    *,
    gate_order=(0, 1, 2, 3),
    hidden_size=None,
    input_forget=0,
    **attributes,
):
    """ONNX's gates are i, o, f, c, its peepholes i, o, f. Returns Y, Y_h and Y_c."""

    def cell(r, wb, rb, functions, d):
        f, g, h_ = functions
        r, hidden = xp.transpose(r), xp.shape(r)[0] // 4

        def step(row, states):
            h, c = states
            i, o, forget, candidate = _activated(xp, row + xp.matmul(h, r), gate_order, f, g)
            c = (1 - i if input_forget else forget) * c + i * candidate
            return o * h_(c), c

        def peeping(row, states):
            h, c = states
            pi, po, pf = xp.split(_row(xp, p, d), [hidden] * 3, 0)
            i, o, forget, candidate = _gates(xp, row + xp.matmul(h, r), gate_order)
            i = f(i + pi * c)
            c = (1 - i if input_forget else f(forget + pf * c)) * c + i * g(candidate)
            return f(o + po * c) * h_(c), c

        return None if wb is None else wb + rb, step if p is None else peeping

    return _recurrent(xp, "LSTM", x, w, r, b, lengths, [h0, c0], attributes, cell)
