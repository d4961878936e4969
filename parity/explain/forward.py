"""Explains a wrong forward pass: tries mistakes at the operator of the first wrong tensor, then everywhere."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from xbench.converters.artifact import Artifact
from xbench.converters.ops.torch import TABLE
from xbench.parity import network
from xbench.parity.candidate import inputs_of
from xbench.parity.explain import CLEAR, Finding, Tensors, enlarged, errors
from xbench.parity.mistakes import Mistake
from xbench.parity.mistakes.operators import of
from xbench.parity.verdict import LIMITS, floors_off
from xbench.runtimes.torch import ProgramModule


def forward(artifact: Artifact, reference: Tensors, candidate: Tensors, tensor: str) -> list[Finding]:
    """Mistakes of the operator that makes `tensor`, the first wrong one. All tensors are outputs of this artifact."""
    name = f"output/{tensor}"
    bench = Bench(reference[name], candidate[name], reference[f"floor/{name}"])
    with network.default_type(torch.float64):
        _outputs(artifact, reference, {op: bench.watch(op, f) for op, f in TABLE.items()})
        findings = [
            Finding(
                m.name, _words(m, call), ratio, call.operator, tensor, _scope(artifact, reference, candidate, m, call)
            )
            for m, ratio, call in bench.findings
        ]
    complete = [each for each in findings if each.scope]  # those that explain every tensor, not only this one
    return sorted(complete or findings, key=lambda each: max(each.ratio, CLEAR))


@dataclass(frozen=True)
class Call:
    """The `number`-th call of an operator in the program; the operator `source` made its first operand."""

    operator: str
    number: int
    source: str | None


@dataclass
class Bench:
    """Tries mistakes at the calls whose result is the first wrong tensor: more than one if an operator does nothing,
    such as Dropout in evaluation."""

    expected: np.ndarray
    given: np.ndarray
    floor: np.ndarray
    findings: list[tuple[Mistake, float, Call]] = field(default_factory=list)
    _calls: Counter[str] = field(default_factory=Counter)
    _made: list[tuple[Any, str]] = field(default_factory=list)

    def watch(self, operator: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The operator, wrapped to try its mistakes when its result is the tensor."""

        def call(*given: Any, **named: Any) -> Any:
            made = function(*given, **named)
            place = self._place(made)
            if place is not None:
                source = next((op for array, op in self._made if given and array is given[0]), None)
                self._try(Call(operator, self._calls[operator], source), function, given, named, place)
            self._calls[operator] += 1
            self._made += [(each, operator) for each in (made if isinstance(made, tuple) else (made,))]
            return made

        return call

    def _place(self, made: Any) -> int | None:
        """The index of the tensor among the results."""
        for index, each in enumerate(made if isinstance(made, tuple) else (made,)):
            if isinstance(each, torch.Tensor) and np.array_equal(each.detach().numpy(), self.expected):
                return index
        return None

    def _try(
        self, call: Call, function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any], place: int
    ) -> None:
        for mistake in of(call.operator, given, named):
            try:
                made = mistake.operators[call.operator](function)(*given, **named)
            except Exception:  # an attribute that conflicts with others
                continue
            self._compare(mistake, made[place] if isinstance(made, tuple) and len(made) > place else made, call)
        for mistake, made in self._fitted(call.operator, given):
            self._compare(mistake, made, call)

    def _fitted(self, operator: str, given: Sequence[Any]) -> Iterator[tuple[Mistake, Any]]:
        """Mistakes with a number that is fitted to the result."""
        expected, actual = self.expected, self.given
        if actual.shape != expected.shape or not (np.isfinite(actual).all() and np.isfinite(expected).all()):
            return
        if operator == "Dropout":
            rate, kept = float(given[1]) if len(given) > 1 else 0.5, actual != 0
            among = kept[expected != 0]  # zeros of a Relu tell nothing
            spread = 4 * math.sqrt(rate * (1 - rate) / max(among.size, 1))
            if among.size and abs(1 - among.mean() - rate) < spread:
                mistake = Mistake("dropout_on", f"Dropout is left on: it makes {1 - among.mean():.0%} zero")
                yield mistake, torch.from_numpy(np.where(kept, expected / (1 - rate), 0))
        square = float((expected**2).sum())
        factor = float((actual * expected).sum()) / square if square else 0.0
        if factor and math.isfinite(factor) and expected.size > 1:
            says = f"{operator}: its result is multiplied by {factor:.6g}"
            yield Mistake("scaled", says), torch.from_numpy(expected * factor)

    def _compare(self, mistake: Mistake, made: Any, call: Call) -> None:
        if not isinstance(made, torch.Tensor):
            return
        array = made.detach().numpy()
        if tuple(array.shape) == self.expected.shape and np.array_equal(array, self.expected):
            return  # no mistake here
        ratio = floors_off(self.given, array, enlarged(self.floor, self.expected, array))
        if ratio <= LIMITS["fp32"] and not any(known.says == mistake.says for known, *_ in self.findings):
            self.findings.append((mistake, float(ratio), call))


def _words(mistake: Mistake, call: Call) -> str:
    """The words of a mistake, with the source of its operand if that has a name."""
    after = call.operator == "Relu" and call.source in ("Add", "Sum") and mistake.name == "missing_relu"
    return "Relu: it is missing after a residual sum" if after else mistake.says


def _scope(artifact: Artifact, reference: Tensors, candidate: Tensors, mistake: Mistake, call: Call) -> str | None:
    """Where a mistake must be made to explain every tensor of the network, in words; None if it does not."""
    operator = call.operator
    if operator not in mistake.operators:
        return None
    everywhere, alone = mistake.table(TABLE), dict(TABLE)
    calls = Counter[str]()

    def once(*given: Any, **named: Any) -> Any:
        calls[operator] += 1
        return (everywhere if calls[operator] - 1 == call.number else TABLE)[operator](*given, **named)

    alone[operator] = once
    for table, scope in ((everywhere, f"every {operator}"), (alone, f"this {operator} alone")):
        try:
            expected = _outputs(artifact, reference, table)
        except Exception:  # shapes that no longer fit
            continue
        if max(errors(candidate, expected, reference).values()) <= LIMITS["fp32"]:
            return scope
    return None


def _outputs(artifact: Artifact, reference: Tensors, table: Mapping[str, Callable[..., Any]]) -> Tensors:
    module = network.in_type(ProgramModule(artifact.program(), table), torch.float64).eval()
    with torch.no_grad():
        outputs = module(*network.arrays(inputs_of(reference), torch.float64))
    return network.named("output", dict(zip(artifact.info["outputs"], outputs, strict=True)))
