"""Mistakes made in some BatchNormalizations of a network but not in all."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from xbench.converters.ops.torch import TABLE
from xbench.parity import network
from xbench.parity.candidate import inputs_of
from xbench.parity.explain.step import Step
from xbench.parity.mistakes import Change, Mistake, Operator, attribute
from xbench.parity.mistakes.layers import frozen

NORM = "BatchNormalization"


def some(step: Step) -> Iterator[Mistake]:
    """BatchNormalizations in evaluation among others in training: those whose statistics stay, or if none are compared,
    each alone."""
    calls = _normed(step)
    if step.mode == "gradient":
        sets = [[number] for number in range(len(calls))]
    else:
        state = step.artifact.program().state
        still = {n for n, a in state.items() if np.array_equal(step.given.get(f"weight/{n}", ()), a)}
        sets = [[number for number, name in enumerate(calls) if name in still]]
    kinds = (
        ("norm_mode", "uses the running statistics, not those of the batch", frozen),
        ("bn_not_updated", "does not update its running statistics", attribute("momentum", 1.0)),
    )
    for among in sets if len(calls) > 1 else []:
        names = ", ".join(calls[number] for number in among)
        for name, says, change in kinds if 0 < len(among) < len(calls) else ():
            only = functools.partial(_only, frozenset(among), len(calls), change)
            yield Mistake(name, f"{NORM} of {names} alone {says}", {NORM: only})


def _normed(step: Step) -> list[str]:
    """The name of the mean of each call of BatchNormalization, in order."""
    program, calls = step.artifact.program(), list[str]()
    params, state = ({n: torch.from_numpy(a) for n, a in arrays.items()} for arrays in (program.params, program.state))

    def watched(x: Any, scale: Any, bias: Any, mean: Any, var: Any, **named: Any) -> Any:
        calls.append(next((name for name, array in state.items() if array is mean), NORM))
        return TABLE[NORM](x, scale, bias, mean, var, **named)

    if NORM in step.artifact.info["program_operators"]:
        with torch.no_grad(), network.default_type(torch.float32):
            program.bind({**TABLE, NORM: watched})(
                params, state, *network.arrays(inputs_of(step.reference), torch.float32)
            )
    return calls


def _only(among: frozenset[int], count: int, change: Change, operator: Operator) -> Operator:
    """An operator that is changed in some of its `count` calls in a network."""
    numbers, other = itertools.count(), change(operator)
    return lambda *given, **named: (other if next(numbers) % count in among else operator)(*given, **named)
