"""Does `xbench time` measure what each runtime's own tool measures? OpenVINO's benchmark_app, torch.utils.benchmark,
and a bare loop over an ONNX Runtime session, on ResNet-50 and lstm_ptb, forward, one thread.

    python tools/measure/agreement.py [--turns 8] [--rounds 10] [--seconds 0.2] [--model M ...] [--runtime R ...]

Processes of one program differ by 1.5 to 3 % on this machine, depending on memory placement. So both measure the same
process here, alternately. Every turn is a new process, with a worker's variables and number of CPUs, in which xbench's
own jobs open a cell, prove it and warm it up; then follow rounds of a block of xbench and of the tool's own loop over
the same session, module or infer request, in random order, each after a rest, as a worker of `xbench time` rests while
others are measured. agreement_apart.py compares tools that compile the model for themselves, in their own process.

A turn gives the ratio of the two medians over its rounds. The figure is the geometric mean over the turns; `+-` is its
95 % interval. Exit code 1 if a ratio is off by more than 1 %, or its interval is wider than that.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from agreement_apart import BOUND, CELLS, answer_of, loop, summary

from xbench.case import Case
from xbench.parity import candidate
from xbench.workers.cell import CELL
from xbench.workers.jobs import cell as jobs
from xbench.workers.prepare import Exporter

Loop = Callable[[Any, list[np.ndarray], float], float]


def onnxruntime_loop(runtime: Any, arrays: list[np.ndarray], seconds: float) -> float:
    """The obvious loop over the session."""
    feed = dict(zip([each.name for each in runtime.session.get_inputs()], arrays, strict=True))
    return loop(lambda: runtime.session.run(None, feed), seconds)


def torch_timer(runtime: Any, arrays: list[np.ndarray], seconds: float) -> float:
    """torch.utils.benchmark's own choice of how often to run, over the module."""
    import torch
    from torch.utils.benchmark import Timer

    with torch.inference_mode():
        words = {"module": runtime.module, "inputs": runtime.put(arrays)}
        timer = Timer("module(*inputs)", globals=words, num_threads=1)
        timer.blocked_autorange(min_run_time=0.5 * seconds)
        return float(timer.blocked_autorange(min_run_time=seconds).median)


def benchmark_app(runtime: Any, arrays: list[np.ndarray], seconds: float) -> float:
    """benchmark_app's own loop over the request, one at a time: its median latency. It excludes the copy of all outputs
    into new arrays that infer() then makes."""
    from openvino.tools.benchmark.benchmark import Benchmark, percentile

    for name, tensor in zip(runtime.names, runtime.put(arrays), strict=True):
        runtime.request.set_tensor(name, tensor)
    app = Benchmark("CPU", api_type="sync", inference_only=True)
    app.duration_seconds = 1.5 * seconds  # its command takes only integer seconds
    times, _, _ = app.sync_inference(runtime.request, SimpleNamespace(get_next_batch_size=lambda: 1))
    return float(percentile(times, 50)) / 1e3


TOOLS: dict[str, Loop] = {"openvino": benchmark_app, "torch": torch_timer, "onnxruntime": onnxruntime_loop}


def measured_here(runtime: str, folder: str, references: list[str], seconds: float, rounds: int) -> dict[str, float]:
    """The median step of a cell in this process, by xbench and by the runtime's tool."""
    case = Case("", runtime, "forward", 0)
    jobs.open_cell(folder, runtime, "forward", case.device, case.threads, case.layout, references)
    for index in range(len(references)):
        if (verdict := jobs.check(index))["status"] != "PASS":
            sys.exit(f"{folder} {runtime}: {verdict}")
    jobs.arm("resident")
    jobs.warm(seconds * rounds)
    (cell,) = CELL
    arrays = candidate.inputs_of(cell.references[0])
    sides: dict[str, Callable[[], float]] = {
        "xbench": lambda: statistics.median(jobs.block(seconds, 10_000)["samples"]),
        "tool": lambda: TOOLS[runtime](cell.runtime, arrays, seconds),
    }
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in random.sample(list(sides), len(sides)):
            time.sleep(0.05)
            times[side].append(sides[side]())
    return {side: statistics.median(medians) for side, medians in times.items()}


def measured(runtime: str, folder: str, references: list[str], seconds: float, rounds: int) -> dict[str, float]:
    """The same in a separate process."""
    words = json.dumps([runtime, folder, references, seconds, rounds])
    medians: dict[str, float] = json.loads(answer_of(__file__, "--here", words))
    return medians


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a block")
    parser.add_argument("--model", action="append", help="resnet50 or lstm_ptb; default: both")
    parser.add_argument("--runtime", action="append", choices=[*TOOLS], help="default: all three")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measured_here(*json.loads(options.here))))
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        exporter = Exporter(Path(folder))
        try:
            for model, batch in CELLS:
                artifact = exporter.artifact(model)
                references = [str(exporter.reference(artifact, "forward", batch, n, Case.data)) for n in range(2)]
                exporter.close()
                for runtime in (options.runtime or TOOLS) if model in (options.model or [model]) else ():
                    words = (runtime, str(artifact.folder), references, options.seconds, options.rounds)
                    turns = [measured(*words) for _ in range(options.turns)]
                    by_side = {side: [turn[side] for turn in turns] for side in ("xbench", "tool")}
                    rows.append(summary(model, runtime, TOOLS[runtime].__name__, by_side, options.json))
        finally:
            exporter.close()
    if options.json:
        print(json.dumps(rows))
    return int(any(abs(row["ratio"] - 1) > BOUND or row["half"] > BOUND for row in rows))


if __name__ == "__main__":
    sys.exit(main())
