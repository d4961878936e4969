"""Update rules, each written once as arithmetic on arrays, so that every framework trains by the same formula.

Arrays may be of any framework: only `+ - * / **` and the functions of `Functions`, which the caller passes, are used.
The formulas are PyTorch's (torch.optim): Keras has Adam's epsilon in another place, and Caffe the learning rate.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Arrays = dict[str, Any]
SLOTS = {"sgd": ("momentum",), "adam": ("mean", "square"), "adamw": ("mean", "square")}


class Functions(NamedTuple):
    """What the formulas need besides arithmetic: the sum of all elements, the smaller of two, exp(x) - 1, and the
    element of a list of numbers at an array's index, from 1."""

    total: Callable[[Any], Any]
    minimum: Callable[[Any, Any], Any]
    expm1: Callable[[Any], Any]
    pick: Callable[[Sequence[float], Any], Any]


def slots(rule: Mapping[str, Any]) -> tuple[str, ...]:
    """The arrays an update rule keeps for every parameter; all start at zero."""
    return () if rule["name"] == "sgd" and not rule["momentum"] else SLOTS[rule["name"]]


def by_slot(memory: Mapping[str, Mapping[str, Any]]) -> Arrays:
    """Slot -> name -> array as one dictionary: `<slot>.<name>` -> array."""
    return {f"{slot}.{name}": array for slot, kept in memory.items() for name, array in kept.items()}


def rate(rule: Mapping[str, Any], step: int) -> float:
    """The learning rate of a step, counted from 1."""
    schedule = rule["schedule"] or (1.0,)
    return rule["lr"] * schedule[min(step, len(schedule)) - 1]


def update(
    rule: Mapping[str, Any],
    step: Any,
    params: Arrays,
    grads: Arrays,
    memory: Mapping[str, Arrays],
    use: Functions,
) -> tuple[Arrays, dict[str, Arrays]]:
    """New parameters and new memory (slot -> name -> array). `step` counts from 1 and may be an array."""
    if rule["clip"]:
        grads = _clipped(rule["clip"], grads, use)
    rules = {"sgd": _sgd, "adam": _adam, "adamw": _adam}
    rates = [rate(rule, count + 1) for count in range(len(rule["schedule"]))]
    lr = use.pick(rates, use.minimum(step, float(len(rates)))) if rates else rule["lr"]
    new_params: Arrays = {}
    new_memory: dict[str, Arrays] = {slot: {} for slot in slots(rule)}
    for name, p in params.items():
        old = {slot: memory[slot][name] for slot in new_memory}
        new_params[name], kept = rules[rule["name"]](rule, lr, step, p, grads[name], old, use)
        for slot, value in kept.items():
            new_memory[slot][name] = value
    return new_params, new_memory


def _clipped(limit: float, grads: Arrays, use: Functions) -> Arrays:
    """torch.nn.utils.clip_grad_norm_."""
    norm = sum(use.total(g * g) for g in grads.values()) ** 0.5
    factor = use.minimum(limit / (norm + 1e-6), 1.0)
    return {name: g * factor for name, g in grads.items()}


def _sgd(
    rule: Mapping[str, Any], lr: Any, step: Any, p: Any, g: Any, old: Arrays, use: Functions
) -> tuple[Any, Arrays]:
    """Polyak's momentum, or Nesterov's as Sutskever et al. (2013) write it."""
    g = g + rule["weight_decay"] * p if rule["weight_decay"] else g
    if not old:
        return p - lr * g, {}
    momentum = rule["momentum"] * old["momentum"] + g
    return p - lr * (g + rule["momentum"] * momentum if rule["nesterov"] else momentum), {"momentum": momentum}


def _adam(
    rule: Mapping[str, Any], lr: Any, step: Any, p: Any, g: Any, old: Arrays, use: Functions
) -> tuple[Any, Arrays]:
    """Kingma and Ba (2015); decoupled decay by Loshchilov and Hutter (2019)."""
    beta1, beta2, decay = rule["beta1"], rule["beta2"], rule["weight_decay"]
    if decay and rule["name"] == "adam":
        g = g + decay * p
    elif decay:
        p = p * (1 - lr * decay)
    mean = beta1 * old["mean"] + (1 - beta1) * g
    square = beta2 * old["square"] + (1 - beta2) * (g * g)
    # 1 - beta ** step in float32 is wrong by 1e-5 for beta = 0.999, step = 1: the two numbers are nearly equal.
    correction1, correction2 = (-use.expm1(step * math.log(beta)) for beta in (beta1, beta2))
    spread = square**0.5 / correction2**0.5 + rule["eps"]
    return p - lr / correction1 * (mean / spread), {"mean": mean, "square": square}
