"""Changed update rules. Formulas are PyTorch's (torch.optim); they work on the tensors of a `torch.optim` optimizer,
and keep their arrays where it would, so that these are compared too."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from xbench.converters.autodiff.optimizer import rate

Rule = dict[str, Any]


def formula(**otherwise: Any) -> Callable[..., None]:
    """An update by torch.optim's formulas with changes: `decay` decoupled, unscaled (decoupled, without the learning
    rate) or matrices, `gain` of momentum, `velocity` 1 or -1 if momentum includes the learning rate with that sign,
    `keep` of its memory, `epsilon` inside or uncorrected, `corrected` for bias."""

    def update(optimizer: torch.optim.Optimizer, rule: Rule, count: int) -> None:
        with torch.no_grad():
            given = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            if rule["clip"]:
                torch.nn.utils.clip_grad_norm_(given, rule["clip"])
            for p in given:
                g, kept = _decayed(p, rule, count, otherwise.get("decay")), optimizer.state[p]
                step = _sgd if rule["name"] == "sgd" else _adam
                p.sub_(rate(rule, count) * step(g, kept, rule, count, otherwise))
                if not otherwise.get("keep", True):
                    optimizer.state[p] = {}

    return update


def _decayed(p: Any, rule: Rule, count: int, how: str | None) -> Any:
    """The gradient with coupled decay; decoupled decay is subtracted from the parameter here."""
    decay = 0.0 if how == "matrices" and p.ndim < 2 else rule["weight_decay"]
    if how in ("decoupled", "unscaled") or rule["name"] == "adamw":
        p.mul_(1 - (1.0 if how == "unscaled" else rate(rule, count)) * decay)
        return p.grad
    return p.grad + decay * p


def _sgd(g: Any, kept: dict[str, Any], rule: Rule, count: int, otherwise: Mapping[str, Any]) -> Any:
    if not rule["momentum"]:
        return g
    g = g * otherwise.get("gain", 1.0)
    scale = otherwise["velocity"] * rate(rule, count) if "velocity" in otherwise else 1.0  # factor of the kept array
    v = rule["momentum"] * kept.get("momentum_buffer", torch.zeros_like(g)) + scale * g
    kept["momentum_buffer"] = v
    return g + rule["momentum"] * v / scale if rule["nesterov"] else v / scale


def _adam(g: Any, kept: dict[str, Any], rule: Rule, count: int, otherwise: Mapping[str, Any]) -> Any:
    beta1, beta2, count = rule["beta1"], rule["beta2"], count if otherwise.get("keep", True) else 1
    m = beta1 * kept.get("exp_avg", torch.zeros_like(g)) + (1 - beta1) * g
    v = beta2 * kept.get("exp_avg_sq", torch.zeros_like(g)) + (1 - beta2) * g * g
    kept.update(exp_avg=m, exp_avg_sq=v)
    first, second = (1 - beta1**count, 1 - beta2**count) if otherwise.get("corrected", True) else (1.0, 1.0)
    place = otherwise.get("epsilon")
    if place == "inside":
        spread = (v / second + rule["eps"]).sqrt()
    elif place == "uncorrected":
        spread = (v.sqrt() + rule["eps"]) / second**0.5
    else:
        spread = (v / second).sqrt() + rule["eps"]
    return m / first / spread
