"""The cost of a cell besides time, and the probe of a machine's peaks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from xbench.converters.artifact import WEIGHTS, Artifact, read_weights
from xbench.converters.autodiff.optimizer import slots
from xbench.host import usage
from xbench.parity import calls, candidate
from xbench.stats import roofline
from xbench.workers import timing
from xbench.workers.cell import CELL, Cell

SIZES = (512, 1024, 2048, 4096, 8192)  # of square matrices, up to the first slow product
QUICK = 0.3  # seconds
WHILE = 0.15  # seconds of repeating one product or copy


def cost(batch: int) -> dict[str, Any]:
    """The cost of the timed cell, without the machine's peaks; docs/results.md defines the fields.

    The peak excludes memory of xbench itself in the process: for forward, the float64 results of the proof.
    """
    (cell,) = CELL
    info, counted = cell.artifact.info, usage.total(cell.usage)
    own = sum(a.nbytes for each in cell.references for name, a in each.items() if not _is_given(name))
    sizes = {name: array.nbytes for name, array in read_weights(cell.artifact.folder)["params"].items()}
    peak = (counted.pop("peak_bytes") or 0) - own
    return counted | {
        "peak_memory_bytes": peak if peak > 0 else None,
        "references_bytes": own,
        "device_memory_bytes": calls.device_memory(cell.runtime),
        "artifact_bytes": _inference_bytes(cell.artifact, sum(sizes.values())),
        "parameter_bytes": sum(sizes.values()),
        "convert_s": info.get("convert_s"),
        "flop": roofline.flop(info["macs"], cell.mode, batch),
        "bytes": _traffic(cell, sizes),
    }


def _is_given(name: str) -> bool:
    return name == "labels" or name.startswith("input/")


def _traffic(cell: Cell, sizes: dict[str, int]) -> int:
    """`roofline.traffic` of a step of the cell; `sizes` are the parameters' bytes."""
    info, reference = cell.artifact.info, cell.references[0]
    given = [*candidate.inputs_of(reference), *([reference["labels"]] if cell.mode != "forward" else [])]
    results = [array for name, array in reference.items() if name.startswith("output/")]
    state = read_weights(cell.artifact.folder)["state"]
    return roofline.traffic(
        cell.mode,
        sum(sizes.values()),
        sum(sizes.get(name, 0) for name in info.get("looked_up", ())),
        sum(state[name].nbytes for name in {*info["statistics"]} & state.keys()),
        len(slots(info["optimizer"])),
        sum(array.nbytes for array in given),
        sum(array.size * (4 if array.dtype.kind == "f" else array.itemsize) for array in results),
    )


def _inference_bytes(artifact: Artifact, parameters: int) -> int:
    """Bytes on disk that inference needs: the graph, and the weights if they are in another file."""
    graph = artifact.onnx.stat().st_size
    return graph + ((artifact.folder / WEIGHTS).stat().st_size if graph < parameters else 0)


def peaks(device: str, threads: int, copied: int) -> dict[str, Any]:
    """The fastest float32 matrix product (FLOP/s) and the fastest copy of `copied` bytes (bytes/s, counting
    reads and writes) of NumPy or PyTorch, and each as measured."""
    products, copies = _numpys() if device == "cpu" else ({}, {})
    try:
        from xbench.runtimes.torch import copying, multiplying
    except ImportError:
        pass
    else:
        products["torch"] = lambda size: multiplying(device, threads, size)
        copies["torch"] = lambda count: copying(device, threads, count)
    flops = {name: _fastest_product(make) for name, make in products.items()}
    bandwidth = {
        name: 2 * copied / min(timing.sample([make(copied // 4)], WHILE, 100)) for name, make in copies.items()
    }
    measured = {"products": flops, "copies": bandwidth, "copied_bytes": copied}
    best = max(rate for sizes in flops.values() for rate in sizes.values())
    return {"flops": best, "bandwidth": max(bandwidth.values()), "measured": measured}


Make = Callable[[int], timing.Step]


def _numpys() -> tuple[dict[str, Make], dict[str, Make]]:
    """NumPy's matrix product of a size, and its single-threaded copy of `count` numbers."""

    def multiplying(size: int) -> timing.Step:
        a, b, result = (np.full((size, size), 0.5, np.float32) for _ in range(3))
        return lambda: np.matmul(a, b, out=result)

    def copying(count: int) -> timing.Step:
        source, target = (np.full(count, 0.5, np.float32) for _ in range(2))
        return lambda: np.copyto(target, source)

    return {"numpy": multiplying}, {"numpy": copying}


def _fastest_product(make: Make) -> dict[str, float]:
    """FLOP/s by size."""
    rates: dict[str, float] = {}
    for size in SIZES:
        step = make(size)
        step()  # the first call creates threads and buffers
        best = min(timing.sample([step], WHILE, 1000))
        rates[str(size)] = 2 * size**3 / best
        if 8 * best > QUICK:
            break
    return rates


JOBS = (cost, peaks)
