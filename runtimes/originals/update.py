"""The update rules of `converters/autodiff/optimizer.py` for Python 3.6, on arrays of any framework.

What changes from step to step is a few numbers, which are computed here in float64: a framework that compiles its step
takes them as inputs (`NUMBERS`), others as Python's own.
"""

import math

NUMBERS = ("lr", "correction1", "correction2")  # learning rate, and Adam's two corrections of its bias
SLOTS = {"sgd": ("momentum",), "adam": ("mean", "square"), "adamw": ("mean", "square")}


def slots(rule):
    """The arrays that a rule keeps for every parameter; all start at zero."""
    return () if rule["name"] == "sgd" and not rule["momentum"] else SLOTS[rule["name"]]


def numbers(rule, step):
    """The numbers of a step, counted from 1."""
    schedule = rule["schedule"] or (1.0,)
    rate = rule["lr"] * schedule[min(step, len(schedule)) - 1]
    return (rate,) + tuple(-math.expm1(step * math.log(rule[beta])) for beta in ("beta1", "beta2"))


def update(rule, given, params, grads, memory, total, smaller, root):
    """New parameters, and new memory by slot and name. `given` are the `NUMBERS`; `total` is the sum of all elements of
    an array, `smaller` the smaller of two, `root` the square root."""
    if rule["clip"]:
        squares = [total(g * g) for g in grads.values()]
        norm = root(sum(squares[1:], squares[0]))
        factor = smaller(rule["clip"] / (norm + 1e-6), 1.0)
        grads = {name: g * factor for name, g in grads.items()}
    formula = _sgd if rule["name"] == "sgd" else _adam
    new_params, new_memory = {}, {slot: {} for slot in slots(rule)}
    for name, p in params.items():
        old = {slot: memory[slot][name] for slot in new_memory}
        new_params[name], kept = formula(rule, given, p, grads[name], old, root)
        for slot, value in kept.items():
            new_memory[slot][name] = value
    return new_params, new_memory


def _sgd(rule, given, p, g, old, root):
    lr = given[0]
    g = g + rule["weight_decay"] * p if rule["weight_decay"] else g
    if not old:
        return p - lr * g, {}
    momentum = rule["momentum"] * old["momentum"] + g
    return p - lr * (g + rule["momentum"] * momentum if rule["nesterov"] else momentum), {"momentum": momentum}


def _adam(rule, given, p, g, old, root):
    lr, correction1, correction2 = given
    beta1, beta2, decay = rule["beta1"], rule["beta2"], rule["weight_decay"]
    if decay and rule["name"] == "adam":
        g = g + decay * p
    elif decay:
        p = p * (1 - lr * decay)
    mean = beta1 * old["mean"] + (1 - beta1) * g
    square = beta2 * old["square"] + (1 - beta2) * (g * g)
    spread = root(square) / root(correction2) + rule["eps"]
    return p - (lr / correction1) * (mean / spread), {"mean": mean, "square": square}
