"""Losses: what a network is trained for, by a rule `{"name": ..., "weights": [...]}` (`models.Loss` as a dictionary).

The rule compares the first outputs of a network, one per weight, each with the labels, and adds the weighted
losses: GoogLeNet has three classifiers, which count 1, 0.3 and 0.3. Every framework's table has a function of each
name, which returns the mean; `gradient/loss.py` writes them as nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

CROSS_ENTROPY = "cross_entropy"


def loss_of(table: ModuleType, rule: Mapping[str, Any]) -> Callable[[Sequence[Any], Any], Any]:
    """The loss of a network's outputs and labels, in a framework's arrays."""
    function = getattr(table, rule["name"])

    def total(outputs: Sequence[Any], labels: Any) -> Any:
        losses = [function(output, labels) for output in outputs[: len(rule["weights"])]]
        terms = [loss if w == 1 else w * loss for w, loss in zip(rule["weights"], losses, strict=True)]
        return sum(terms[1:], terms[0])

    return total


def written(rule: Mapping[str, Any]) -> str:
    """The loss as a Python expression."""
    factors = ["" if w == 1 else f"{w} * " for w in rule["weights"]]
    return " + ".join(f"{factor}{rule['name']}(outputs[{i}], labels)" for i, factor in enumerate(factors))
