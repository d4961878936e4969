"""What the harness adds to a step: `python benchmarks/harness_overhead.py`.

1. On the null runtime, which takes exactly the time it is told, the harness's median minus that time.
2. On ResNet-50 forward, the harness's median against a bare loop over the same session object in the same process,
   blocks of the two alternating, for ONNX Runtime, OpenVINO and PyTorch.

`--json` prints the figures. Exit code 1 when a bound is missed (2 microseconds; 2 %).
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xbench.bench import jobs, machine, timing
from xbench.bench.cell import CELL, Cell
from xbench.bench.prepare import Exporter

NULL_SECONDS = 0.0002
STEP_BOUND, RATIO_BOUND = 2e-6, 0.02


def bare(step: Callable[[], Any], seconds: float) -> list[float]:
    """The loop anyone would write: a clock before, a clock after, nothing of ours between."""
    samples, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        step()
        samples.append(time.perf_counter() - start)
    return samples


def session_step(runtime: str, cell: Cell, arrays: list[Any]) -> Callable[[], Any]:
    """A step over the framework's own object, without a line of xbench."""
    inner: Any = cell.runtime
    if runtime == "onnxruntime":
        session, feed = inner.session, dict(zip(inner.names, arrays, strict=True))
        return lambda: session.run(None, feed)
    if runtime == "openvino":
        import openvino

        request, tensor = inner.request, openvino.Tensor(arrays[0], shared_memory=True)
        request.set_input_tensor(tensor)
        return request.infer
    import torch

    module, tensor = inner.module, torch.from_numpy(arrays[0])

    def step() -> Any:
        with torch.inference_mode():
            return module(tensor)

    return step


def open_cell(runtime: str, model: str, batch: int, exporter: Exporter) -> Cell:
    artifact = exporter.artifact(model)
    reference = str(exporter.reference(artifact, "forward", batch, 0, "synthetic"))
    jobs.open_cell(str(artifact.folder), runtime, "forward", "cpu", machine.cpus(), "nchw", [reference])
    jobs.arm("resident")
    jobs.warm(5)
    return CELL[0]


def null_overhead(exporter: Exporter, seconds: float) -> dict[str, float]:
    cell = open_cell(f"null:seconds={NULL_SECONDS}", "lenet", 1, exporter)
    ours = timing.sample(cell.steps, seconds, 1_000_000)
    return {
        "told_s": NULL_SECONDS,
        "median_s": statistics.median(ours),
        "added_s": statistics.median(ours) - NULL_SECONDS,
    }


def against_bare(runtime: str, exporter: Exporter, rounds: int, seconds: float) -> dict[str, Any]:
    """Median over rounds of the ratio of adjacent blocks, ours over bare; the order alternates."""
    cell = open_cell(runtime, "resnet50", 1, exporter)
    step = session_step(runtime, cell, jobs.candidate.inputs_of(cell.references[0]))
    bare(step, 1)
    ours, theirs = [], []
    for number in range(rounds):
        for turn in (0, 1) if number % 2 else (1, 0):
            if turn:
                ours.append(statistics.median(timing.sample(cell.steps, seconds, 10_000)))
            else:
                theirs.append(statistics.median(bare(step, seconds)))
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "runtime": runtime,
        "ours_s": statistics.median(ours),
        "bare_s": statistics.median(theirs),
        "ratio": statistics.median(ratios),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each block")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as logs:
        exporter = Exporter(Path(logs))
        try:
            null = null_overhead(exporter, 2.0)
            rows = [
                against_bare(runtime, exporter, options.rounds, options.seconds)
                for runtime in ("onnxruntime", "openvino", "torch")
            ]
        finally:
            exporter.close()
    if options.json:
        print(json.dumps({"null": null, "resnet50": rows, "machine": machine.describe()}, indent=1))
    else:
        print(f"null runtime: told {null['told_s'] * 1e6:.1f} us, added {null['added_s'] * 1e6:.2f} us a step")
        for row in rows:
            numbers = f"{row['ours_s'] * 1e3:.2f} ms, bare loop {row['bare_s'] * 1e3:.2f} ms, ratio {row['ratio']:.4f}"
            print(f"resnet50 forward {row['runtime']:12} {numbers}")
    within = null["added_s"] < STEP_BOUND and all(abs(row["ratio"] - 1) < RATIO_BOUND for row in rows)
    print("within the bounds" if within else "OUTSIDE the bounds", file=sys.stderr)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
