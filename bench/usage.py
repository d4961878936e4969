"""What steps take besides time, by the system's counters: energy and memory. Counted in the worker, block by block."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xbench.bench import energy, memory


class Begun(NamedTuple):
    """The counters before some steps; `forgotten` is whether the peak of the memory began anew."""

    counters: dict[str, energy.Counter]
    forgotten: bool


def begin(root: Path = energy.ROOT) -> Begun:
    """Looks before the first of some steps."""
    forgotten = memory.forget_peak()
    return Begun(energy.read(root), forgotten)


def end(begun: Begun, steps: int, root: Path = energy.ROOT) -> dict[str, Any]:
    """What so many steps took: joules of the whole machine's packages, bytes of memory at their peak."""
    joules = energy.between(begun.counters, energy.read(root))
    return {"steps": steps, "joules": joules, "peak_bytes": memory.peak(), "of_steps": begun.forgotten}


def total(blocks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The peak of all blocks, whether it is of their steps alone, and the energy of one step: None where it was not
    counted, or a counter never moved."""
    joules = [block["joules"] for block in blocks]
    known = bool(blocks) and all(each is not None for each in joules) and sum(joules) > 0
    return {
        "peak_bytes": max((block["peak_bytes"] for block in blocks), default=None),
        "peak_memory_of": "steps" if blocks and all(block["of_steps"] for block in blocks) else "process",
        "energy_j": sum(joules) / sum(block["steps"] for block in blocks) if known else None,
    }
