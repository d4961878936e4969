"""Mistakes made when a network is rewritten by hand, each in a form that can be computed.

A `Mistake` is the network, or its training step, with one thing done differently. `xbench check --explain` computes the
oracle under each and names those that give the runtime's result (`parity/explain/`). `operators.py` has mistakes of
one operator (`layers.py` of particular ones), `training.py` those of a loss or an update rule (`rules.py` its
formulas, `frameworks.py` combinations of differences in frameworks).
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Operator = Callable[..., Any]
Change = Callable[[Operator], Operator]  # from an operator of the table to its replacement
Changes = Iterator[tuple[str, str, Change]]  # name, in words, change


@dataclass(frozen=True)
class Mistake:
    """`operators` changes entries of the operator table, `rule` settings of the update rule; `loss` changes a loss, and
    `update` replaces the update of the oracle (`parity/oracle.py`). The gradients of the parameters `zeroed` are zero;
    the parameters `skipped` are not updated at all."""

    name: str
    says: str
    operators: Mapping[str, Change] = field(default_factory=dict)
    rule: Mapping[str, Any] = field(default_factory=dict)
    loss: Callable[..., Any] | None = None
    update: Callable[..., None] | None = None
    zeroed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def table(self, table: Mapping[str, Operator]) -> dict[str, Operator]:
        """An operator table with this mistake in it."""
        return {**table, **{name: change(table[name]) for name, change in self.operators.items() if name in table}}


def both(first: Mistake, second: Mistake) -> Mistake | None:
    """Two mistakes in one network; None if they change the same thing."""
    same = first.operators.keys() & second.operators.keys() or first.rule.keys() & second.rule.keys()
    if same or (first.loss and second.loss) or (first.update and second.update):
        return None
    return dataclasses.replace(
        first,
        name=f"{first.name}+{second.name}",
        says=f"{first.says}; and {second.says}",
        operators={**first.operators, **second.operators},
        rule={**first.rule, **second.rule},
        zeroed=first.zeroed + second.zeroed,
        skipped=first.skipped + second.skipped,
        loss=first.loss or second.loss,
        update=first.update or second.update,
    )


def attribute(name: str, value: Any) -> Change:
    """The operator with one attribute changed."""
    return lambda operator: lambda *given, **named: operator(*given, **{**named, name: value})


def argument(index: int, change: Callable[[Any], Any]) -> Change:
    """The operator with one argument changed."""

    def changed(operator: Operator) -> Operator:
        def call(*given: Any, **named: Any) -> Any:
            return operator(*given[:index], change(given[index]), *given[index + 1 :], **named)

        return call

    return changed


def result(change: Callable[[Any], Any]) -> Change:
    """The operator with its first output changed."""

    def changed(operator: Operator) -> Operator:
        def call(*given: Any, **named: Any) -> Any:
            made = operator(*given, **named)
            return (change(made[0]), *made[1:]) if isinstance(made, tuple) else change(made)

        return call

    return changed


def instead(other: Operator) -> Change:
    """Another function with the same arguments instead."""
    return lambda operator: other
