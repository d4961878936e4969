"""A training step as one plain ONNX graph, for runtimes that have no autodiff.

It takes the network's inputs, `labels`, every parameter and running statistic by its name, the optimizer's arrays
(`<slot>.<parameter>`), `step`, the number of steps done, and if the network has Dropout `dropout`: 1 for its real
rates, 0 for none. It returns `loss`; `gradient.<parameter>`; and `new.<name>` for every parameter, statistic, array of
the optimizer and `step`. All operators are ONNX's own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from xbench.converters import FROZEN, UNBIASED
from xbench.converters.artifact import GRADIENT, NEW, Names, names_in
from xbench.converters.autodiff import step_names
from xbench.converters.autodiff.gradient import CONSTANT, RULES, NoGradient, differentiable, differentiate
from xbench.converters.autodiff.gradient.loss import in_graph
from xbench.converters.autodiff.gradient.normalize import centred, column, image_axes
from xbench.converters.autodiff.gradient.ops import Ops, dims, rank
from xbench.converters.autodiff.optimizer import Functions, slots, update
from xbench.converters.frontends.functions import expand

LOWERED = {"BatchNormalization", "Dropout"}


def train_step(model: ir.Model, trainable: Sequence[str], facts: Mapping[str, Any]) -> ir.Model:
    """The training step of a graph for the `labels`, the `loss` and the `optimizer` of a model's facts (`artifact.py`).

    Raises:
        NoGradient, NotImplementedError, ValueError: as `differentiate`.
    """
    model, op, grads, statistics, names = _differentiated(model, trainable, facts["labels"], facts["loss"])
    graph, rule = model.graph, facts["optimizer"]
    for name in statistics:
        _as_input(graph, name)
    params = {value.name: value for value in graph.inputs if value.name in grads}
    memory = {
        slot: {name: _input(graph, f"{slot}.{name}", p.dtype, dims(p)) for name, p in params.items()}
        for slot in slots(rule)
    }
    step = op.Add(_input(graph, names.step, op.floating, []), 1.0)
    new, kept = update(
        rule,
        Symbol(op, step, 0),
        {name: Symbol(op, p, rank(p)) for name, p in params.items()},
        {name: Symbol(op, grad, rank(params[name])) for name, grad in grads.items()},
        {slot: {name: Symbol(op, m, rank(m)) for name, m in group.items()} for slot, group in memory.items()},
        Functions(_total, _minimum, _expm1, _pick),
    )
    changed = {name: each.value for name, each in new.items()} | statistics
    changed |= {f"{slot}.{name}": each.value for slot, group in kept.items() for name, each in group.items()}
    for name, value in {**changed, names.step: step}.items():
        _output(op, graph, value, NEW + name)
    return step_names.keep(_finished(model), names)


def without_gradient(model: ir.Model, trainable: Sequence[str]) -> dict[str, int]:
    """The operators between a parameter and the outputs that have no rule, and how often each occurs.

    An operator with a rule can have forms without a gradient: only `train_step` detects those.
    """
    model = expand(model.clone(), RULES.keys() | CONSTANT | LOWERED)
    common.RemoveUnusedNodesPass()(model)
    stored = model.graph.initializers
    try:
        differentiable(list(model.graph), [stored[name] for name in trainable if name in stored])
    except NoGradient as error:
        return {name: n for name, n in error.operators.items() if name not in LOWERED}
    return {}


def select(model: ir.Model, mode: str) -> ir.Model:
    """The graph without what a mode does not need: for gradient the update, for step the gradients as outputs."""
    model = model.clone()
    graph, kept = model.graph, {"gradient": GRADIENT, "step": NEW}[mode]
    loss = names_in(model.metadata_props).loss
    outputs = [value for value in graph.outputs if value.name == loss or str(value.name).startswith(kept)]
    graph.outputs[:] = outputs
    common.RemoveUnusedNodesPass()(model)
    graph.inputs[:] = [value for value in graph.inputs if value.uses() or value in outputs]
    return model


def _differentiated(
    model: ir.Model, trainable: Sequence[str], labels: Mapping[str, Any], loss_rule: Mapping[str, Any]
) -> tuple[ir.Model, Ops, dict[str, ir.Value], dict[str, ir.Value], Names]:
    """A copy of the graph followed by its loss and gradients: the graph, its builder, the gradient of every parameter
    (zero if the loss does not depend on it), the new statistics, and the names of what was added."""
    model = expand(model.clone(), RULES.keys() | CONSTANT | LOWERED)
    graph = model.graph
    names = step_names.free(graph)
    for name in trainable:
        _as_input(graph, name)
    op = Ops(graph)
    _lower_dropout(op, graph, names.dropout)
    _lower_frozen(op, graph)
    common.RemoveUnusedNodesPass()(model)
    common.ShapeInferencePass()(model)
    nodes, dtype = list(graph), ir.DataType.from_numpy(np.dtype(labels["dtype"]))
    loss, seeds = in_graph(op, loss_rule, graph.outputs, _input(graph, names.labels, dtype, labels["shape"]))
    for output, seed in seeds.items():
        seed.shape, seed.type = output.shape, output.type  # some rules need them
    params = {name: _by_name(graph, name) for name in trainable}
    gradients = differentiate(op, nodes, seeds, list(params.values()))
    statistics = _lower_statistics(op, graph, UNBIASED in model.metadata_props)
    graph.outputs.clear()
    _output(op, graph, loss, names.loss)
    grads = {name: gradients[p] if p in gradients else op.zeros_like(p) for name, p in params.items()}
    for name, grad in grads.items():
        _output(op, graph, grad, GRADIENT + name)
    return model, op, grads, statistics, names


# ***** training forms *****


def _lower_dropout(op: Ops, graph: ir.Graph, name: str) -> None:
    """Writes Dropout as a comparison with random numbers, at its rate times an input of the graph."""
    dropouts = [node for node in graph if node.op_type == "Dropout" and not node.domain]
    if not dropouts:
        return
    active = _input(graph, name, op.floating, [])
    for node in dropouts:
        x, ratio = [*node.inputs, None][:2]
        rate = op.Mul(0.5 if ratio is None else ratio, active)
        kept = op.GreaterOrEqual(op.RandomUniformLike(x), rate)
        _put_in_place(node, op.Mul(op.Where(kept, x, 0.0), op.Reciprocal(op.Sub(1.0, rate))))
    graph.sort()


def _lower_frozen(op: Ops, graph: ir.Graph) -> None:
    """Writes BatchNormalization that stays in evaluation as arithmetic with its statistics, which do not change."""
    for node in [node for node in graph if node.op_type == "BatchNormalization" and FROZEN in node.metadata_props]:
        x, scale, bias, mean, variance = (value for value in node.inputs if value is not None)
        inverse = op.Reciprocal(op.Sqrt(op.Add(variance, node.attributes.get_float("epsilon", 1e-5))))
        rest = op.Sub(x, column(op, x, mean))
        y = op.Add(op.Mul(rest, column(op, x, op.Mul(inverse, scale))), column(op, x, bias))
        _put_in_place(node, y)
    graph.sort()


def _lower_statistics(op: Ops, graph: ir.Graph, unbiased: bool) -> dict[str, ir.Value]:
    """Writes BatchNormalization in training form; returns the new running mean and variance by the old names."""
    statistics: dict[str, ir.Value] = {}
    for node in [node for node in graph if node.op_type == "BatchNormalization" and not node.domain]:
        x, scale, bias, *running = (value for value in node.inputs if value is not None)
        epsilon = node.attributes.get_float("epsilon", 1e-5)
        rest, mean, variance, inverse = centred(op, x, image_axes(x), epsilon)
        y = op.Add(op.Mul(rest, column(op, x, op.Mul(inverse, scale))), column(op, x, bias))
        if unbiased:
            count = op.count(x, image_axes(x))
            variance = op.Mul(variance, op.Div(count, op.Sub(count, 1.0)))
        momentum = node.attributes.get_float("momentum", 0.9)
        for old, new in zip(running, (mean, variance), strict=True) if is_statistics(node) else ():
            before = statistics.get(str(old.name), old)  # of an earlier call of the same layer
            statistics[str(old.name)] = op.Add(op.Mul(before, momentum), op.Mul(new, 1 - momentum))
        _put_in_place(node, y)
    graph.sort()
    return statistics


def is_statistics(node: ir.Node) -> bool:
    """Whether training changes the running statistics of a BatchNormalization: not those of a file with
    `training_mode=1`, which always means the batch's, and has the new ones as outputs; nor statistics computed from
    the batch, as without `track_running_stats`; nor those of a layer that stays in evaluation."""
    if FROZEN in node.metadata_props:
        return False
    stored = all(value is not None and value.is_initializer() for value in node.inputs[3:5])
    return node.op_type == "BatchNormalization" and stored and not node.attributes.get_int("training_mode", 0)


def _put_in_place(node: ir.Node, value: ir.Value) -> None:
    """Removes a node whose first output is now computed by other nodes."""
    old = node.outputs[0]
    value.name, value.shape, value.type = old.name, old.shape, old.type
    ir.convenience.replace_all_uses_with(old, value, replace_graph_outputs=True)
    assert node.graph is not None
    node.graph.remove(node, safe=False)


# ***** the optimizer's arithmetic *****


class Symbol:
    """A value of the graph, of a known rank, used as a number: `+ - * / **` write nodes.

    Numbers get the rank of the other operand: ONNX Runtime takes a hundred times as long for a scalar without axes
    and an array whose last axes have length one, such as the kernel of a convolution of one point.
    """

    def __init__(self, op: Ops, value: ir.Value, rank: int) -> None:
        self.op, self.value, self.rank = op, value, rank

    def _node(self, op_type: str, *operands: Any) -> "Symbol":
        rank = max(each.rank for each in operands if isinstance(each, Symbol))
        made = self.op.emit(op_type, *(self._ranked(each, rank) for each in operands))
        made.type = self.value.type
        return Symbol(self.op, made, rank)

    def _ranked(self, operand: Any, rank: int) -> Any:
        if not isinstance(operand, Symbol):
            return np.full([1] * rank, operand, self.op.floating.numpy())
        return self.op.Reshape(operand.value, [1] * rank) if not operand.rank and rank else operand.value

    def __add__(self, other: Any) -> "Symbol":
        return self if isinstance(other, int) and other == 0 else self._node("Add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Symbol":
        return self._node("Sub", self, other)

    def __rsub__(self, other: Any) -> "Symbol":
        return self._node("Sub", other, self)

    def __mul__(self, other: Any) -> "Symbol":
        return self._node("Mul", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Symbol":
        return self._node("Div", self, other)

    def __rtruediv__(self, other: Any) -> "Symbol":
        return self._node("Div", other, self)

    def __neg__(self) -> "Symbol":
        return self._node("Neg", self)

    def __pow__(self, power: float) -> "Symbol":
        return self._node("Sqrt", self) if power == 0.5 else self._node("Pow", self, power)


def _total(x: Symbol) -> Symbol:
    return Symbol(x.op, x.op.ReduceSum(x.value, keepdims=0), 0)


def _minimum(a: Symbol, b: float) -> Symbol:
    return Symbol(a.op, a.op.Min(a.value, b), a.rank)


def _expm1(x: Symbol) -> Symbol:
    """exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2): ONNX has no expm1, and the difference would cancel."""
    t = Symbol(x.op, x.op.Tanh((x * 0.5).value), x.rank)
    return 2.0 * t / (1.0 - t)


def _pick(numbers: Sequence[float], count: Symbol) -> Symbol:
    op = count.op
    place = op.Sub(op.Cast(count.value, to=ir.DataType.INT64), 1)
    return Symbol(op, op.Gather(np.asarray(numbers, op.floating.numpy()), place), 0)


# ***** inputs and outputs *****


def _by_name(graph: ir.Graph, name: str) -> ir.Value:
    return next(value for value in graph.inputs if value.name == name)


def _input(graph: ir.Graph, name: str, dtype: ir.DataType | None, shape: Sequence[int | str | None]) -> ir.Value:
    value = ir.Value(name=name, type=ir.TensorType(dtype or ir.DataType.FLOAT), shape=ir.Shape(shape))
    graph.inputs.append(value)
    return value


def _as_input(graph: ir.Graph, name: str) -> None:
    """Makes an initializer an input without a value."""
    value = graph.initializers.pop(name)
    if value not in graph.inputs:
        graph.inputs.append(value)
    value.const_value = None


def _output(op: Ops, graph: ir.Graph, value: ir.Value, name: str) -> None:
    """Makes a value an output of a given name; through Identity if it already has another."""
    if value.is_graph_output() or value.is_graph_input() or value.is_initializer():
        value = op.Identity(value)
    value.name = name
    graph.outputs.append(value)


def _finished(model: ir.Model) -> ir.Model:
    """Removes duplicate and unused nodes."""
    common.ClearMetadataAndDocStringPass()(model)
    common.RemoveUnusedNodesPass()(model)
    common.CommonSubexpressionEliminationPass()(model)
    common.RemoveUnusedNodesPass()(model)
    model.graph.sort()
    common.ShapeInferencePass()(model)
    return model
