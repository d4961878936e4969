"""Computes a training step with a mistake in it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from xbench.converters.artifact import Artifact
from xbench.converters.ops.torch import TABLE
from xbench.converters.ops.torch_dropout import dropping
from xbench.parity import network
from xbench.parity.candidate import inputs_of
from xbench.parity.explain import Tensors, errors
from xbench.parity.mistakes import Mistake
from xbench.parity.verdict import LIMITS, distance, steps_of
from xbench.runtimes.torch import ProgramModule, named_tensors, update

NEAR = 64 * LIMITS["fp32"]  # in floors: a larger error is not the rounding of the mistake itself


@dataclass
class Step:
    """A training step that is wrong, and its oracle under any mistake."""

    artifact: Artifact
    mode: str
    reference: Tensors
    candidate: Tensors

    def compute(
        self, mistake: Mistake, seed: int | None = None, dtype: torch.dtype = torch.float64, moved: int | None = None
    ) -> Tensors:
        """Every tensor to compare; `seed` is the seed of dropout, if on, `moved` that of a change of all weights."""
        module = network.in_type(ProgramModule(self.artifact.program(), mistake.table(TABLE)), dtype).train()
        if moved is not None:
            network.move(module, moved)
        module.dropout = seed is not None
        if seed is not None:
            torch.manual_seed(seed)
        info = {**self.artifact.info, "optimizer": {**self.artifact.info["optimizer"], **mistake.rule}}
        named = named_tensors(module)
        for name in mistake.zeroed:
            named[name].register_hook(torch.zeros_like)

        def updated(optimizer: torch.optim.Optimizer, *given: Any) -> None:
            left = {name: named[name].detach().clone() for name in mistake.skipped}
            (mistake.update or update)(optimizer, *given)
            with torch.no_grad():
                for name, value in left.items():
                    named[name].copy_(value)
                    for kept in optimizer.state[named[name]].values():
                        kept.zero_()

        *inputs, labels = network.arrays([*inputs_of(self.reference), self.reference["labels"]], dtype)
        with dropping(seed is not None), network.default_type(dtype):
            batches = [(inputs, labels)] * max(1, steps_of(self.reference))
            return network.trained(info, module, batches, self.mode, mistake.loss, updated)

    def off(self, mistake: Mistake) -> dict[str, float]:
        """The error of every tensor under a mistake, in noise floors; infinite if it cannot be computed."""
        try:
            expected = self.compute(mistake)
            ratios = errors(self.given, expected, self.reference)
            if LIMITS["fp32"] < max(ratios.values()) < NEAR:
                ratios = errors(self.given, expected, self._floors(mistake, expected))
        except Exception:  # a mistake that does not apply to this network
            return {"": math.inf}
        return ratios

    def _floors(self, mistake: Mistake, expected: Tensors) -> Tensors:
        """The reference with the noise of the mistake, measured like the oracle's, where larger: Adam with coupled
        decay divides by numbers made of rounding, and other weights meet other kinks in the second step."""
        floors = {name: self.reference[f"floor/{name}"] for name in expected if f"floor/{name}" in self.reference}
        for moved in (None, *network.moves(2)):
            made = self.compute(mistake, dtype=torch.float32, moved=moved)
            share = 1.0 if moved is None else network.MOVED_SHARE
            for name, floor in floors.items():
                floors[name] = np.maximum(floor, np.array(distance(made[name], expected[name])) / share)
        return {**self.reference, **{f"floor/{name}": floor for name, floor in floors.items()}}

    @property
    def given(self) -> Tensors:
        """The runtime's results; a missing gradient is zero."""
        missing = {n: np.zeros_like(a) for n, a in self.reference.items() if n.startswith("gradient/")}
        return {**missing, **self.candidate}
