"""How long and how exactly a comparison times."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Protocol:
    """How long and how exactly to time: `budget` is the seconds of sampling a cell, over all its `processes`, and the
    most seconds of warm-up; `target` is the half width of the interval over the median."""

    budget: float = 2.0
    target: float = 0.02
    timeout: float = 600.0
    processes: int = 1
    blocks: int = 6
    max_samples: int = 200
    memory: int = 3 * 2**30

    @property
    def block(self) -> float:
        return self.budget / 15

    @property
    def audit(self) -> float:
        return self.budget / 15

    @property
    def words(self) -> str:
        """The equivalent options of `xbench time`, without defaults."""
        options = {"--budget": self.budget, "--target-ci": self.target, "--processes": self.processes}
        usual = Protocol()
        kept = zip(options.items(), (usual.budget, usual.target, usual.processes), strict=True)
        return "".join(f" {name} {value:g}" for (name, value), same in kept if value != same)

    @property
    def min_blocks(self) -> int:
        """The least number of blocks of a process."""
        return max(3, -(-self.blocks // self.processes))
