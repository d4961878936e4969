"""An LSTM whose hidden state is projected, in ONNX's LSTM, which has no projection.

The state h = P m that goes around is a product, so R h = (R P) m: an ordinary LSTM over m with recurrent weights R P,
whose results are projected afterwards. A first state that is given has no m: it enters as further inputs of the first
step, by the weights R.
"""

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

GATES = (0, 3, 1, 2)  # PyTorch keeps them as i, f, g, o and ONNX as i, o, f, c


def lstm(
    input: Any,
    states: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    """aten::lstm.input with weights of a projection."""
    per_cell, directions = 5 if has_biases else 3, 2 if bidirectional else 1
    x = op.Transpose(input, perm=[1, 0, 2]) if batch_first else input
    last_h, last_c = [], []
    for layer in range(num_layers):
        if layer and train and dropout:
            x, _ = op.Dropout(x, dropout, True)
        results = []
        for number in range(layer * directions, (layer + 1) * directions):
            weights = params[number * per_cell : (number + 1) * per_cell]
            first_h, first_c = (op.Slice(state, [number], [number + 1], [0]) for state in states)
            y, h, c = _cell(x, first_h, first_c, weights, backwards=bool(number % directions))
            results.append(y)
            last_h.append(h)
            last_c.append(c)
        x = results[0] if directions == 1 else op.Concat(*results, axis=2)
    finals = [op.Concat(*each, axis=0) for each in (last_h, last_c)]
    return (op.Transpose(x, perm=[1, 0, 2]) if batch_first else x, *finals)


def _cell(x: Any, h: Any, c: Any, weights: Sequence[Any], backwards: bool) -> tuple[Any, Any, Any]:
    """One layer in one direction: results [length, batch, projected], the last state and the last cell."""
    w, r, *biases, projection = weights
    hidden = projection.shape[1]
    columns = op.Transpose(projection, perm=[1, 0])
    w, r = (_gates(each) for each in (op.Concat(w, r, axis=1), op.MatMul(r, projection)))
    bias = op.Unsqueeze(op.Concat(*map(_gates, biases), axis=0), [0]) if biases else None
    y, m, c = op.LSTM(
        op.Concat(x, _at_the_first(h, x, backwards), axis=2),
        *(op.Unsqueeze(each, [0]) for each in (w, r)),
        bias,
        None,
        op.Sub(c, c),
        c,
        hidden_size=hidden,
        direction="reverse" if backwards else "forward",
    )
    return op.MatMul(op.Squeeze(y, [1]), columns), op.MatMul(m, columns), c


def _at_the_first(h: Any, x: Any, backwards: bool) -> Any:
    """The state at the step that comes first, zeros at the others: [length, batch, projected]."""
    length = op.Shape(x, start=0, end=1)
    others = op.Sub(length, op.Constant(value=ir.tensor([1])))
    none, rows = op.Constant(value=ir.tensor([0])), op.Constant(value=ir.tensor([0, 0]))
    before, after = (others, none) if backwards else (none, others)
    return op.Pad(h, op.Concat(before, rows, after, rows, axis=0))


def _gates(array: Any) -> Any:
    parts = op.Split(array, axis=0, num_outputs=len(GATES))
    return op.Concat(*(parts[gate] for gate in GATES), axis=0)
