"""Watches a timed cell from the parent, block by block: how much time passes, and which CPUs are used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xbench.case import Case
from xbench.host import machine, process_tree
from xbench.proof.contracts import Contract, clock, limited
from xbench.workers.worker import Worker


@dataclass
class Watch:
    """The sums of all blocks of a cell's process; `shortest_s` is the shortest of their steps."""

    blocks: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    shortest_s: float = float("inf")

    def look(
        self, case: Case, worker: Worker, result: Mapping[str, Any], passed: Mapping[str, float]
    ) -> dict[str, Contract]:
        """The promises that can be judged after a block of a worker, which is paused; `passed` are the times of its
        steps by this process's clock."""
        paced = dict(result["pace"])
        self.blocks, self.shortest_s = self.blocks + 1, min(self.shortest_s, paced.pop("shortest_s"))
        values = {**paced, **passed} | {"cpu_s": result["cpu_s"], "wall_s": result["wall_s"]}
        self.sums = {name: self.sums.get(name, 0.0) + value for name, value in values.items()}
        cpus = machine.allowed()[: case.threads]
        elsewhere = process_tree.elsewhere(worker.process.pid, {*cpus})
        pace = {**self.sums, "shortest_s": self.shortest_s, "blocks": self.blocks}
        used = limited(len(cpus), self.sums["cpu_s"], self.sums["wall_s"], self.blocks, elsewhere)
        values = {"clock": clock(pace), **({"threads": used} if used.held is False else {})}
        return {name: each for name, each in values.items() if each.held is not None}  # the audit was longer
