"""Energy and memory of steps, by the counters of the system and the GPU. Counted in the worker, block by block; for a
training, piece by piece from its first step to its last."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xbench.host import energy, gpu, memory

PIECES = 256  # kept of one training, at most
SHORT = 1.0  # seconds; in a shorter block a GPU's counter, updated ten times a second, shows its neighbours' energy


class Begun(NamedTuple):
    """The counters before some steps; `forgotten` is whether the memory peak was reset."""

    device: str
    counters: dict[str, energy.Counter]
    forgotten: bool
    gpu: gpu.Reading | None


def begin(device: str, root: Path = energy.ROOT) -> Begun:
    """Reads the counters before the first of some steps on a device."""
    forgotten = memory.forget_peak()
    return Begun(device, energy.read(root), forgotten, gpu.look() if device == "cuda" else None)


def end(begun: Begun, steps: int, root: Path = energy.ROOT) -> dict[str, Any]:
    """What `steps` steps took: joules of all packages of the machine, or of the GPU for steps on it; peak memory in
    bytes; what happened on the GPU, None for steps on the CPU."""
    on_gpu = gpu.between(begun.gpu, gpu.look()) if begun.device == "cuda" else None
    joules = energy.between(begun.counters, energy.read(root))
    if begun.device == "cuda":
        joules = on_gpu["joules"] if on_gpu else None
    usage = {"steps": steps, "joules": joules, "peak_bytes": memory.peak(), "of_steps": begun.forgotten}
    return usage | {"gpu": on_gpu}


def total(blocks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The peak of all blocks, whether it is of their steps alone, and the energy of one step: None if it was not
    counted, or a counter never moved."""
    joules = [block["joules"] for block in blocks]
    short = any(block.get("gpu") and block["gpu"]["seconds"] < SHORT for block in blocks)
    known = bool(blocks) and all(each is not None for each in joules) and sum(joules) > 0 and not short
    return {
        "peak_bytes": max((block["peak_bytes"] for block in blocks), default=None),
        "peak_memory_of": "steps" if blocks and all(block["of_steps"] for block in blocks) else "process",
        "energy_j": sum(joules) / sum(block["steps"] for block in blocks) if known else None,
    }


def piece(used: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A piece of a training as it is in records: `used` is the result of `end`."""
    on_gpu = used["gpu"] or {}
    fields = {"steps": used["steps"], "seconds": seconds, "joules": used["joules"] or None}
    return fields | {"peak_bytes": used["peak_bytes"], "device_bytes": on_gpu.get("bytes")}


def thinned(pieces: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pieces of a training, of any number, merged with their neighbours to `PIECES` at most."""
    kept = list(pieces)
    while len(kept) > PIECES:
        pairs = [kept[place : place + 2] for place in range(0, len(kept), 2)]
        kept = [{name: _joined(name, [each[name] for each in pair]) for name in pair[0]} for pair in pairs]
    return kept


def _joined(name: str, values: Sequence[Any]) -> Any:
    """The merged value of neighbours: the larger peak, else the sum; None if one of them is not known."""
    if any(value is None for value in values):
        return None
    return max(values) if name.endswith("_bytes") else sum(values)


def watts(pieces: Sequence[dict[str, Any]]) -> float | None:
    """The mean power of a training, without its beginning and its end, as study 1 drops them (dlbench: the first two
    samples and the last two); None if energy is not counted."""
    kept = pieces[2:-2] if len(pieces) > 4 else pieces
    if not kept or any(each["joules"] is None for each in kept):
        return None
    return float(sum(each["joules"] for each in kept) / sum(each["seconds"] for each in kept))
