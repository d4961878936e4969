"""PyTorch -> ONNX: the only exporter.

What `export` guarantees (each with a test): initializer names equal `named_parameters()`; tied weights are one
initializer; BatchNormalization and Dropout keep their place and parameters, nothing is folded into a convolution; the
batch is symbolic; recurrent weights stay PyTorch's parameters, reordered inside the graph so that gradients reach them.
Which initializers are trainable, that the running variance is PyTorch's unbiased one, which row of an embedding is not
trained, and what passes on no gradient, is in `metadata_props`.
"""

import logging
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.passes import common
from onnxscript import opset18 as op
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from xbench.converters import FROZEN, PADDING, UNBIASED
from xbench.converters.codegen.printer import constant
from xbench.converters.frontends import graph_outputs, torch_operators, torch_projection, torch_shapes
from xbench.converters.frontends import torch_detached as detached
from xbench.converters.frontends.folding import fold
from xbench.converters.frontends.torch_attention import attention
from xbench.converters.frontends.torch_call import BadCall, output_paths
from xbench.converters.frontends.torch_parameters import keep_names
from xbench.converters.frontends.torch_registry import mend
from xbench.converters.frontends.torch_sizes import sizes
from xbench.converters.ops.torch_dropout import dropping
from xbench.converters.passes import identities

OPSET = 20


def export(
    module: nn.Module, inputs: Mapping[str, np.ndarray], fixed: Collection[str] = (), training: bool = True
) -> ir.Model:
    """Exports a module, in training form or not, with the first axis of every input not in `fixed` symbolic (`batch`).

    `inputs` are example arrays by name, in the order of the arguments; to the tracer a batch of 0 or 1 is a constant.
    """
    module.train(training)
    mend()
    batch = torch.export.Dim("batch")
    arguments = tuple(torch.from_numpy(array) for array in inputs.values())
    # A faster attention kernel gives its result other strides, so that the tracer takes a copy for a view.
    exact = sdpa_kernel(SDPBackend.MATH)
    with warnings.catch_warnings(), exact, dropping(True), detached.detaching(module), sizes(module):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            program = torch.onnx.export(
                module,
                arguments,
                input_names=list(inputs),
                dynamic_shapes=tuple({} if name in fixed else {0: batch} for name in inputs),
                custom_translation_table=_translations(),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
                optimize=False,  # its default merges equal parameters and folds BatchNormalization into Conv
            )
        finally:
            logging.disable(logging.NOTSET)
    assert program is not None
    _check_batch(program.model.graph.inputs, fixed)
    trainable = [name for name, p in module.named_parameters(remove_duplicate=False) if p.requires_grad]
    program.model.graph.opset_imports[detached.OURS] = 1
    torch_shapes.correct(program.model)
    detached.drop_idle(program.model, trainable)
    graph_outputs.name(program.model, output_paths(module))
    model = clean(program.model)
    assert program.exported_program is not None
    keep_names(model, module, program.exported_program)
    model.metadata_props[UNBIASED] = "1"
    return model


def _check_batch(inputs: Iterable[ir.Value], fixed: Collection[str]) -> None:
    """The exporter takes a batch for a constant where an operation needs to know it, and says nothing.

    Raises:
        BadCall: a batch has become one.
    """
    for value in inputs:
        if value.name not in fixed and value.shape is not None and isinstance(value.shape[0], int):
            raise BadCall(
                f"its graph is of a batch of {value.shape[0]} alone: an operation in forward takes it for a number, "
                "such as int(x.shape[0]) or a loop over the batch"
            )


def clean(model: ir.Model) -> ir.Model:
    """Removes the tracer's leftovers and keeps every initializer that is a parameter."""
    weights = set(model.graph.initializers.values())
    fold(model)
    for node in list(model.graph):
        _fix_shape(node)
        _drop_zero_inputs(node, weights)
        _drop_idle(node)
    identities.drop(model)
    _own_outputs(model)
    detached.write(model)
    common.RemoveUnusedNodesPass()(model)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    return model


def _own_outputs(model: ir.Model) -> None:
    """Makes the outputs of every branch and body its own values: without its Identity it may output one from outside,
    which ONNX does not allow."""
    bodies = [
        a.as_graph() for n in model.graph.all_nodes() for a in n.attributes.values() if a.type == ir.AttributeType.GRAPH
    ]
    for body in bodies:
        for index, value in enumerate(body.outputs):
            producer = value.producer()
            if value not in body.inputs and (producer is None or producer.graph is not body):
                own = ir.node("Identity", [value])
                own.outputs[0].name = f"{value.name}_{body.name or 'body'}_{index}"
                own.outputs[0].shape, own.outputs[0].type = value.shape, value.type
                body.append(own)
                body.outputs[index] = own.outputs[0]


def _drop_zero_inputs(node: ir.Node, weights: Collection[ir.Value]) -> None:
    """Removes optional inputs the tracer filled with zeros: the bias of a bias-less convolution, initial states."""
    optional = {"Conv": (2,), "ConvTranspose": (2,), "LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}.get(node.op_type, ())
    for index in optional:
        if index < len(node.inputs) and node.inputs[index] not in weights and _is_zero(node.inputs[index]):
            node.replace_input_with(index, None)


def _fix_shape(node: ir.Node) -> None:
    """Writes a computed target shape as a constant, if the symbolic dimensions allow it."""
    if node.op_type not in ("Reshape", "Expand") or constant(node.inputs[1]) is not None:
        return
    before, after = _dimensions(node.inputs[0]), _dimensions(node.outputs[0])
    if before is None or after is None:
        return
    if node.op_type == "Reshape":
        target = [-1 if n is None else n for n in after] if after.count(None) <= 1 else None
    else:  # a 1 in Expand's target keeps the dimension, and Expand changes none but those that are 1
        aligned = [1] * (len(after) - len(before)) + before
        kept = all(n is not None or old is None for n, old in zip(after, aligned, strict=True))
        target = [1 if n is None else n for n in after] if kept else None
    if target is not None:
        value = ir.Value(name=f"{node.outputs[0].name}_shape", const_value=ir.tensor(np.array(target, np.int64)))
        assert node.graph is not None
        node.graph.register_initializer(value)
        node.replace_input_with(1, value)


def _dimensions(value: ir.Value | None) -> list[int | None] | None:
    """The shape of a tensor, None for a symbolic dimension; None if nothing is known."""
    if value is None or value.shape is None:
        return None
    return [n if isinstance(n, int) else None for n in value.shape]


def _drop_idle(node: ir.Node) -> None:
    """Removes a node that returns its input: `x[:]`, which the tracer writes for every colon, an Expand to itself."""
    source, output = (node.inputs[0] if node.inputs else None), node.outputs[0]
    idle = {"Slice": _takes_all, "Expand": _expands_nothing}.get(node.op_type)
    if idle and source is not None and not output.is_graph_output() and idle(node):
        ir.convenience.replace_all_uses_with(output, source)


def _takes_all(node: ir.Node) -> bool:
    given = [constant(value) for value in node.inputs[1:]]
    if len(given) < 2 or given[0] is None or given[1] is None:
        return False
    complete = not given[0].any() and (given[1] >= np.iinfo(np.int32).max).all()
    return bool(complete and (len(given) < 4 or (given[3] is not None and (given[3] == 1).all())))


def _expands_nothing(node: ir.Node) -> bool:
    before, target = _dimensions(node.inputs[0]), constant(node.inputs[1])
    if before is None or target is None or len(before) != len(target):
        return False
    return all(n in (1, old) for n, old in zip(target, before, strict=True))


def _is_zero(value: ir.Value | None) -> bool:
    while value is not None and (producer := value.producer()) is not None and producer.op_type in ("Expand", "Slice"):
        value = producer.inputs[0]
    array = constant(value)
    return array is not None and not array.any()


def _translations() -> dict[Any, Any]:
    """Operators this file writes itself, because the exporter's own form loses weights or hides constant shapes."""
    aten = torch.ops.aten
    return torch_operators.translations() | {
        aten._native_batch_norm_legit_no_training.default: _frozen_norm,
        aten.adaptive_max_pool1d.default: _adaptive_max_pool,
        aten.adaptive_max_pool2d.default: _adaptive_max_pool,
        aten.adaptive_max_pool3d.default: _adaptive_max_pool,
        aten.detach.default: detached.detach,
        aten.embedding.default: _embedding,
        aten.lstm.input: _lstm,
        aten.gru.input: _gru,
        aten.scaled_dot_product_attention.default: attention,
    }


def _frozen_norm(x, weight, bias, mean, variance, _, epsilon):
    """aten::_native_batch_norm_legit_no_training: a layer that stays in evaluation while others train."""
    ones, zeros = (np.full(mean.shape[0], number, np.float32) for number in (1, 0))
    affine = [op.Constant(value=ir.tensor(a)) if v is None else v for v, a in ((weight, ones), (bias, zeros))]
    y = op.BatchNormalization(x, *affine, mean, variance, epsilon=epsilon)
    y.producer().metadata_props[FROZEN] = "1"
    return y, op.Identity(mean), op.Identity(variance)  # aten has three outputs


def _adaptive_max_pool(x, output_size):
    """aten::adaptive_max_pool, without its indices: along each axis the maximum of windows that share its length, of
    different lengths if it cannot be divided evenly."""
    for axis, count in enumerate(output_size, len(x.shape) - len(output_size)):
        size = x.shape[axis]
        if not isinstance(size, int):
            raise NotImplementedError("adaptive_max_pool along an axis whose length is not known")
        ends = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        windows = [x] if count == 1 else [op.Slice(x, [low], [high], [axis]) for low, high in ends]
        parts = [op.ReduceMax(window, [axis], keepdims=1) for window in windows]
        shape, kind = [count if i == axis else n for i, n in enumerate(x.shape)], x.dtype
        x = parts[0] if count == 1 else op.Concat(*parts, axis=axis)
        x.shape, x.dtype = ir.Shape(shape), kind
    return (x,)


def _embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """aten::embedding; ONNX's Gather trains every row, so the untrained row is in its metadata."""
    rows = op.Gather(weight, indices)
    if padding_idx >= 0:
        rows.producer().metadata_props[PADDING] = str(padding_idx)
    return rows


def _reorder(weight: Any, order: Sequence[int]) -> Any:
    gates = op.Split(weight, axis=0, num_outputs=len(order))
    return op.Concat(*(gates[i] for i in order), axis=0)


def _stack(arrays: Sequence[Any]) -> Any:
    parts = [op.Unsqueeze(array, [0]) for array in arrays]
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=0)


def _layers(params: Sequence[Any], per_direction: int, directions: int, order: Sequence[int]) -> list[tuple]:
    """Groups PyTorch's flat weight list into ONNX's W, R and B of each layer, gates in ONNX's order."""
    size, layers = per_direction * directions, []
    for first in range(0, len(params), size):
        cells = [params[i : i + per_direction] for i in range(first, first + size, per_direction)]
        gated = [[_reorder(array, order) for array in cell] for cell in cells]
        bias = _stack([op.Concat(*cell[2:], axis=0) for cell in gated]) if per_direction == 4 else None
        layers.append((_stack([cell[0] for cell in gated]), _stack([cell[1] for cell in gated]), bias))
    return layers


def _recurrent(kind, input, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, order):
    """Writes PyTorch's multi-layer recurrent operator as one ONNX node per layer."""
    directions, hidden_size = 2 if bidirectional else 1, params[1].shape[-1]
    x = op.Transpose(input, perm=[1, 0, 2]) if batch_first else input
    last: list[list[Any]] = []
    for layer, (w, r, b) in enumerate(_layers(params, 4 if has_biases else 2, directions, order)):
        first = layer * directions
        initial = [op.Slice(state, [first], [first + directions], [0]) for state in states]
        if layer and train and dropout:
            x, _ = op.Dropout(x, dropout, True)
        y, *final = _node(kind, x, w, r, b, initial, bidirectional, hidden_size)
        last.append(final)
        x = op.Squeeze(y, [1]) if directions == 1 else op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])
    finals = [states_[0] if num_layers == 1 else op.Concat(*states_, axis=0) for states_ in zip(*last, strict=True)]
    return (op.Transpose(x, perm=[1, 0, 2]) if batch_first else x, *finals)


def _node(kind, x, w, r, b, initial, bidirectional, hidden_size):
    attributes = {"direction": "bidirectional" if bidirectional else "forward", "hidden_size": hidden_size}
    if kind == "LSTM":
        return op.LSTM(x, w, r, b, None, *initial, **attributes)
    return op.GRU(x, w, r, b, None, *initial, linear_before_reset=1, **attributes)


def _lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """aten::lstm.input; PyTorch keeps gates as i, f, g, o and ONNX as i, o, f, c."""
    layers = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
    if hx[0].shape[-1] != hx[1].shape[-1]:
        return torch_projection.lstm(input, hx, params, *layers)
    return _recurrent("LSTM", input, hx, params, *layers, order=(0, 3, 1, 2))


def _gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """aten::gru.input; PyTorch keeps gates as r, z, n and ONNX as z, r, h."""
    layers = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
    return _recurrent("GRU", input, [hx], params, *layers, order=(1, 0, 2))
