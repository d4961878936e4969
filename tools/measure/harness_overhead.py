"""What the harness and its adapters add to a step: `python tools/measure/harness_overhead.py`.

1. On the null runtime, which takes exactly the time it is told, the harness's median minus that time.
2. On lenet forward, batch 1, the smallest network, the harness's median against a bare loop over the same session,
   request, module or compiled function in the same process, on the same inputs in turn; blocks of the two alternate.

`--json` prints the figures. Exit code 1 when a bound is missed (2 microseconds; 10 microseconds). What larger networks
take is compared with each maker's own tool by agreement.py.
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

from xbench.host import machine
from xbench.workers import timing
from xbench.workers.cell import CELL, Cell
from xbench.workers.jobs import cell as jobs
from xbench.workers.prepare import Exporter

NULL_SECONDS = 0.0002
BOUND, ADAPTER_BOUND = 2e-6, 10e-6
Bare = Callable[[int], Any]  # a step on the inputs of a turn


def bare(step: Bare, seconds: float) -> list[float]:
    """The obvious loop: a clock before, a clock after, nothing of ours between."""
    samples, turn, end = [], 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        step(turn % 2)
        samples.append(time.perf_counter() - start)
        turn += 1
    return samples


def onnxruntime_step(inner: Any, inputs: list[Any]) -> Bare:
    session, (name,) = inner.session, inner.names
    return lambda turn: session.run(None, {name: inputs[turn]})


def openvino_step(inner: Any, inputs: list[Any]) -> Bare:
    request = inner.request

    def step(turn: int) -> None:
        request.set_input_tensor(0, inputs[turn])
        request.infer(share_outputs=True)

    return step


def torch_step(inner: Any, inputs: list[Any]) -> Bare:
    import torch

    module = inner.module

    def step(turn: int) -> Any:
        with torch.inference_mode():
            return module(inputs[turn])

    return step


def tensorflow_step(inner: Any, inputs: list[Any]) -> Bare:
    function = inner.answer
    return lambda turn: function(inputs[turn])


def jax_step(inner: Any, inputs: list[Any]) -> Bare:
    import jax

    function, params, state = inner.answer, inner.params, inner.state
    return lambda turn: jax.block_until_ready(function(params, state, inputs[turn]))


def tvm_step(inner: Any, inputs: list[Any]) -> Bare:
    function, params, device = inner.main, inner.params, inner.device

    def step(turn: int) -> None:
        function(inputs[turn], *params)
        device.sync()

    return step


BARE: dict[str, Callable[[Any, list[Any]], Bare]] = {
    "onnxruntime": onnxruntime_step,
    "openvino": openvino_step,
    "torch": torch_step,
    "tensorflow": tensorflow_step,
    "jax": jax_step,
    "tvm": tvm_step,
}


def open_cell(runtime: str, exporter: Exporter) -> Cell:
    artifact = exporter.artifact("lenet")
    references = [str(exporter.reference(artifact, "forward", 1, seed, "synthetic")) for seed in range(2)]
    exporter.close()
    jobs.open_cell(str(artifact.folder), runtime, "forward", "cpu", 1, "nchw", references)
    jobs.arm("resident")
    jobs.warm(2)
    return CELL[0]


def null_overhead(exporter: Exporter, seconds: float) -> dict[str, float]:
    cell = open_cell(f"null:seconds={NULL_SECONDS}", exporter)
    samples = timing.sample(cell.steps, seconds, 1_000_000)
    return {
        "told_s": NULL_SECONDS,
        "median_s": statistics.median(samples),
        "added_s": statistics.median(samples) - NULL_SECONDS,
    }


def against_bare(runtime: str, exporter: Exporter, rounds: int, seconds: float) -> dict[str, Any]:
    """Medians over rounds of the medians of adjacent blocks, and of their differences; the order alternates."""
    cell = open_cell(runtime, exporter)
    inputs = [cell.runtime.put(jobs.candidate.inputs_of(reference))[0] for reference in cell.references]
    step = BARE[runtime](cell.runtime, inputs)
    bare(step, seconds)
    harness, loop = [], []
    for number in range(rounds):
        for turn in (0, 1) if number % 2 else (1, 0):
            if turn:
                harness.append(statistics.median(timing.sample(cell.steps, seconds, 1_000_000)))
            else:
                loop.append(statistics.median(bare(step, seconds)))
    return {
        "runtime": runtime,
        "ours_s": statistics.median(harness),
        "bare_s": statistics.median(loop),
        "added_s": statistics.median(a - b for a, b in zip(harness, loop, strict=True)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each block")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as logs:
        exporter = Exporter(Path(logs))
        try:
            null = null_overhead(exporter, 2.0)
            rows = [against_bare(runtime, exporter, options.rounds, options.seconds) for runtime in BARE]
        finally:
            exporter.close()
    if options.json:
        print(json.dumps({"null": null, "lenet": rows, "machine": machine.describe()}, indent=1))
    else:
        print(f"null runtime: told {null['told_s'] * 1e6:.1f} us, added {null['added_s'] * 1e6:.2f} us a step")
        for row in rows:
            numbers = f"{row['ours_s'] * 1e6:.1f} us, bare loop {row['bare_s'] * 1e6:.1f} us"
            print(f"lenet forward {row['runtime']:12} {numbers}, added {row['added_s'] * 1e6:+.1f} us")
    within = null["added_s"] < BOUND and all(row["added_s"] < ADAPTER_BOUND for row in rows)
    print("within the bounds" if within else "OUTSIDE the bounds", file=sys.stderr)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
