"""Mistakes of a training step: of the loss, of the statistics, of the update rule.

Each function lists those possible for a model with such operators, or such an update rule. `rules.py` computes changed
update rules; frameworks that differ in several things are in `frameworks.py`.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from xbench.converters.autodiff.loss import CROSS_ENTROPY
from xbench.parity.mistakes import Change, Mistake, Operator, attribute
from xbench.parity.mistakes.frameworks import defaults
from xbench.parity.mistakes.layers import EPSILONS, LEAST, NORMS
from xbench.parity.mistakes.layers import of as of_layer
from xbench.parity.mistakes.rules import Rule, formula

# ***** the loss *****


def losses(info: Mapping[str, Any]) -> Iterator[Mistake]:
    def summed(loss: Any, *, first: int) -> Any:
        """The sum over the axes of the labels from `first` on."""
        return lambda outputs, labels: loss(outputs, labels) * math.prod(labels.shape[first:])

    says = "the loss is the sum over the samples, not the mean"
    yield Mistake("loss_sum", says, loss=functools.partial(summed, first=0))
    if len(info["labels"]["shape"]) > 1:
        each = "the positions of a sequence" if classified(info) else "the numbers of a sample"
        says = f"the loss is the sum over {each}, the mean over the samples only"
        yield Mistake("loss_sum", says, loss=functools.partial(summed, first=1))
    if classified(info):
        says = "the network ends in a Softmax, and the loss applies another to it"
        twice = lambda loss: lambda outputs, labels: loss([torch.softmax(o, -1) for o in outputs], labels)  # noqa: E731
        yield Mistake("softmax_twice", says, loss=twice)
        says = "the loss is the mean over samples and classes, as of labels * log(softmax), not over the samples"
        spread = lambda loss: lambda outputs, labels: loss(outputs, labels) / outputs[0].shape[-1]  # noqa: E731
        yield Mistake("loss_mean_classes", says, loss=spread)


def classified(info: Mapping[str, Any]) -> bool:
    return bool(info["loss"]["name"] == CROSS_ENTROPY)


# ***** normalisations *****


def norms(operators: Mapping[str, int]) -> Iterator[Mistake]:
    """Every normalisation of the network with another epsilon, in another place, in another mode."""
    for operator in NORMS:
        if operator not in operators:
            continue
        for name, says, change in of_layer(operator, (), {}):
            if name != "epsilon_value":  # whose words name the right value, which is not known here
                yield Mistake(name, f"{operator}: {says}", {operator: change})
        for value, whose in EPSILONS.items():
            says = f"{operator}: epsilon is {value:g} ({whose})"
            yield Mistake("epsilon_value", says, {operator: attribute("epsilon", max(value, LEAST))})


def statistics(operators: Mapping[str, int]) -> Iterator[Mistake]:
    """What an adapter does to the running statistics of BatchNormalization."""
    if "BatchNormalization" not in operators:
        return

    def of_norm(name: str, says: str, change: Change) -> Mistake:
        return Mistake(name, f"BatchNormalization: {says}", {"BatchNormalization": change})

    says = "its momentum is 1 - m: PyTorch's taken for ONNX's, or the other way around"
    yield of_norm("bn_momentum", says, _given("momentum", lambda m: 1 - m, 0.9))
    says = "the running variance is biased where PyTorch's is not, or the other way around"
    yield of_norm("bn_variance", says, _given("unbiased", lambda u: 1 - u, 0))
    for value, whose in ((0.99, "Keras's default"), (0.9, "PyTorch's default"), (0.999, "TensorFlow Slim's")):
        yield of_norm("bn_momentum", f"its momentum is {value} ({whose})", attribute("momentum", value))
    yield of_norm("bn_not_updated", "its running statistics are not updated", attribute("momentum", 1.0))
    yield of_norm("bn_momentum", "its running statistics are those of the last batch", attribute("momentum", 0.0))
    keras = "Keras's defaults: momentum 0.99, epsilon 0.001, biased variance"
    yield of_norm("bn_momentum", keras, _keras)


def _given(name: str, change: Callable[[Any], Any], default: Any) -> Change:
    def changed(operator: Operator) -> Operator:
        return lambda *given, **named: operator(*given, **{**named, name: change(named.get(name, default))})

    return changed


def _keras(operator: Operator) -> Operator:
    return lambda *given, **named: operator(*given, **{**named, "momentum": 0.99, "epsilon": 1e-3, "unbiased": 0})


# ***** update rules *****


def updates(rule: Mapping[str, Any]) -> Iterator[Mistake]:
    yield from _of_momentum(rule) if rule["name"] == "sgd" else _of_adam(rule)
    yield from _of_decay(rule)
    yield from _of_clipping(rule)
    yield from defaults(rule)
    yield Mistake("accumulated", "gradients are added to those of the step before", update=_accumulating)
    if rule["schedule"]:
        late = (rule["schedule"][0], *rule["schedule"])
        yield Mistake("schedule", "the schedule of the learning rate is one step late", rule={"schedule": late})
        yield Mistake("schedule", "the learning rate stays what it is at first", rule={"schedule": late[:1]})


def _of_momentum(rule: Mapping[str, Any]) -> Iterator[Mistake]:
    m = rule["momentum"]
    if m:
        if rule["nesterov"]:
            yield Mistake("nesterov", "momentum is Polyak's, not Nesterov's", rule={"nesterov": False})
        else:
            yield Mistake("nesterov", "momentum is Nesterov's, not Polyak's", rule={"nesterov": True})
        says = f"momentum has unit gain: it is (1 - {m}) times as large, which is a learning rate as much smaller"
        yield Mistake("unit_gain", says, update=formula(gain=1 - m))
        for sign, whose in (
            (-1, "minus the learning rate, as Keras's and MXNet's do"),
            (1, "the learning rate, as Caffe's do"),
        ):
            yield Mistake(
                "velocity", f"the arrays of momentum hold gradients times {whose}", update=formula(velocity=sign)
            )
        yield Mistake("no_momentum", "there is no momentum", rule={"momentum": 0.0, "nesterov": False})
        yield Mistake("forgotten", "momentum is forgotten after every step", update=formula(keep=False))
        for value in {0.9, 0.99} - {m}:
            yield Mistake("momentum", f"momentum is {value}, not {m}", rule={"momentum": value})


def _of_adam(rule: Mapping[str, Any]) -> Iterator[Mistake]:
    yield Mistake("adam_epsilon", "Adam's epsilon is inside the square root", update=formula(epsilon="inside"))
    says = "Adam's epsilon is added before the bias of the second moment is corrected, as TensorFlow does"
    yield Mistake("adam_epsilon", says, update=formula(epsilon="uncorrected"))
    yield Mistake("adam_bias", "Adam's moments are not corrected for their bias", update=formula(corrected=False))
    yield Mistake("forgotten", "Adam's moments are forgotten after every step", update=formula(keep=False))
    for value in {1e-7, 1e-8, 1e-6} - {rule["eps"]}:
        yield Mistake("adam_epsilon", f"Adam's epsilon is {value:g}, not {rule['eps']:g}", rule={"eps": value})
    for name, values in (("beta1", (0.9, 0.95, 0.99)), ("beta2", (0.99, 0.999, 0.95))):
        for value in values:
            if value != rule[name]:
                yield Mistake("adam_betas", f"{name} is {value}, not {rule[name]}", rule={name: value})


def _of_decay(rule: Mapping[str, Any]) -> Iterator[Mistake]:
    decay = rule["weight_decay"]
    if not decay:
        return
    if rule["name"] == "adamw":
        says = "weight decay is coupled (part of the gradient), not decoupled"
        yield Mistake("weight_decay_coupling", says, rule={"name": "adam"})
    elif rule["name"] == "adam":
        says = "weight decay is decoupled, not coupled (part of the gradient)"
        yield Mistake("weight_decay_coupling", says, rule={"name": "adamw"})
    else:
        says = "weight decay is decoupled, not coupled (part of the gradient)"
        yield Mistake("weight_decay_coupling", says, update=formula(decay="decoupled"))
    if rule["name"] == "adamw":
        says = "decoupled weight decay is not multiplied by the learning rate"
        yield Mistake("weight_decay", says, rule={"weight_decay": decay / rule["lr"]})
    yield Mistake("weight_decay", "there is no weight decay", rule={"weight_decay": 0.0})
    for value, whose in ((0.01, "PyTorch's"), (0.004, "Keras's"), (1e-4, "optax's")):
        if rule["name"] == "adamw" and value not in (decay, 2 * decay, decay / 2):
            says = f"weight decay is {value:g} ({whose} default), not {decay:g}"
            yield Mistake("weight_decay", says, rule={"weight_decay": value})
    yield Mistake("weight_decay", "weight decay is twice as large", rule={"weight_decay": 2 * decay})
    yield Mistake("weight_decay", "weight decay is half as large", rule={"weight_decay": decay / 2})
    says = "weight decay does not reach what has one axis, as biases and normalisations"
    yield Mistake("weight_decay", says, update=formula(decay="matrices"))


def _of_clipping(rule: Mapping[str, Any]) -> Iterator[Mistake]:
    limit = rule["clip"]
    if not limit:
        for value in (1.0, 5.0, 0.25, 0.5, 10.0, 0.1):
            says = f"gradients are clipped to a global norm of {value:g}"
            yield Mistake("clipping", says, rule={"clip": value})
        return
    yield Mistake("clipping", "gradients are not clipped", rule={"clip": 0.0})
    each = functools.partial(_clipping, lambda grads: [g.mul_((limit / (g.norm() + 1e-6)).clamp(max=1)) for g in grads])
    yield Mistake("clipping", "each gradient is clipped by its own norm, not all by their global one", update=each)
    single = functools.partial(_clipping, lambda grads: [g.clamp_(-limit, limit) for g in grads])
    yield Mistake("clipping", "gradients are clipped element by element, not by their global norm", update=single)


def _clipping(clip: Callable[[list[Any]], Any], optimizer: torch.optim.Optimizer, rule: Rule, count: int) -> None:
    clip([p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None])
    _plain(optimizer, {**rule, "clip": 0.0}, count)


def _plain(optimizer: torch.optim.Optimizer, rule: Rule, count: int) -> None:
    from xbench.runtimes.torch import update

    update(optimizer, rule, count)


def _accumulating(optimizer: torch.optim.Optimizer, rule: Rule, count: int) -> None:
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                group.setdefault("sums", {})[p] = group.get("sums", {}).get(p, 0) + p.grad.clone()
                p.grad.copy_(group["sums"][p])
    _plain(optimizer, rule, count)
