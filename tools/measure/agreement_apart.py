"""Does `xbench time` measure what each runtime's own tool measures, where each compiles the model for itself, in a
process of its own? As agreement.py, which tells more in less time, and less of settings.

    python tools/measure/agreement_apart.py [--turns 8] [--seconds 3] [--model M ...] [--runtime R ...] [--json]

In every turn one process of xbench and one of the tool are measured, in random order, both new: xbench's proved and
audited as in `xbench time`, the tool's as its makers run it, on the same converted model (PyTorch: the same module),
the same inputs, the same number of threads, on the same CPUs. A bare loop over an OpenVINO request shows which part of
a difference is benchmark_app's process, and which is ours. The figure is the geometric mean over the turns of the ratio
of the medians; `+-` is its 95 % interval, which includes the spread of processes. Exit code 1 if a ratio is off by more
than 1 %.
"""

import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xbench.case import Case
from xbench.converters.artifact import Artifact
from xbench.experiments import session
from xbench.proof.record import base
from xbench.stats.statistics import students_t
from xbench.workers.prepare import Exporter
from xbench.workers.variables import environment

CELLS = (("resnet50", 1), ("lstm_ptb", 20))
BOUND = 0.01


def onnxruntime_loop(artifact: Artifact, arrays: list[np.ndarray], seconds: float) -> float:
    """The obvious loop."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(artifact.onnx), options, providers=["CPUExecutionProvider"])
    feed = dict(zip([each.name for each in session.get_inputs()], arrays, strict=True))
    return loop(lambda: session.run(None, feed), seconds)


def torch_timer(artifact: Artifact, arrays: list[np.ndarray], seconds: float) -> float:
    """torch.utils.benchmark's own choice of how often to run."""
    import torch
    from torch.utils.benchmark import Timer

    from xbench import models

    module = models.build(models.find(artifact.name), artifact.info["seed"]).eval()
    words = {"module": module, "inputs": [torch.from_numpy(array) for array in arrays]}
    with torch.inference_mode():
        timer = Timer("module(*inputs)", globals=words, num_threads=1)
        timer.blocked_autorange(min_run_time=0.5 * seconds)
        return float(timer.blocked_autorange(min_run_time=seconds).median)


def benchmark_app(artifact: Artifact, arrays: list[np.ndarray], seconds: float) -> float:
    """OpenVINO's tool, one request at a time: its median latency. It excludes the copy of all outputs into new arrays
    that its Python API then makes, which its duration includes and xbench's step avoids."""
    shapes = [
        f"{item['name']}[{','.join(map(str, array.shape))}]"
        for item, array in zip(artifact.info["inputs"], arrays, strict=True)
    ]
    words = ["-m", str(artifact.onnx), "-shape", ",".join(shapes), "-t", f"{seconds:.0f}"]
    words += [
        "-hint",
        "none",
        "-nstreams",
        "1",
        "-nthreads",
        "1",
        "-api",
        "sync",
        "-infer_precision",
        "CPU:f32",
        "-inference_only",
    ]
    if arrays[0].dtype == np.float32:
        words += ["-ip", "f32"]  # else it feeds images as bytes
    tool = Path(sys.executable).with_name("benchmark_app")
    text = subprocess.run([str(tool), *words], capture_output=True, text=True, check=True).stdout
    match = re.search(r"Median:\s+([\d.]+) ms", text)
    assert match, text
    return float(match[1]) / 1e3


def openvino_loop(artifact: Artifact, arrays: list[np.ndarray], seconds: float) -> float:
    """The obvious loop, without the copy of outputs that `infer()` makes."""
    import openvino

    core = openvino.Core()
    model = core.read_model(artifact.onnx)
    model.reshape({item["name"]: list(a.shape) for item, a in zip(artifact.info["inputs"], arrays, strict=True)})
    settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": 1}
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    for item, array in zip(artifact.info["inputs"], arrays, strict=True):
        request.set_tensor(item["name"], openvino.Tensor(array, shared_memory=True))
    return loop(lambda: request.infer(share_outputs=True), seconds)


def loop(step: Callable[[], object], seconds: float) -> float:
    """The median step, without those of the first third."""
    samples = []
    end = time.perf_counter() + 1.5 * seconds
    while (start := time.perf_counter()) < end:
        step()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples[len(samples) // 3 :])


TOOLS: dict[str, Callable[[Artifact, list[np.ndarray], float], float]] = {
    "openvino": benchmark_app,
    "openvino_loop": openvino_loop,
    "torch": torch_timer,
    "onnxruntime": onnxruntime_loop,
}


def answer_of(*words: str) -> str:
    """The last line that a script prints, in a process with the number of CPUs and the variables of a worker."""
    first = min(os.sched_getaffinity(0))
    answer = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env=environment("cpu", 1),
        preexec_fn=lambda: os.sched_setaffinity(0, [first]),
    )
    if answer.returncode:
        sys.exit(answer.stderr)
    return answer.stdout.splitlines()[-1]


def tool(runtime: str, artifact: Artifact, reference: Path, seconds: float) -> float:
    """The median step of a tool, in its own process."""
    return float(answer_of(__file__, "--tool", runtime, str(artifact.folder), str(reference), str(seconds)))


def by_xbench(case: Case, artifact: Artifact, exporter: Exporter, seconds: float, logs: Path) -> float:
    """The median step of one process of xbench."""
    protocol = session.Protocol(seconds, target=0.0)
    cell = session.warmed(case, base(case, artifact, "agreement"), artifact, exporter, protocol, logs)
    if not isinstance(cell, session.Open):
        sys.exit(f"{case.model} {case.runtime}: {cell['status']}: {cell['message']}")
    try:
        for number in range(15):
            session.block(cell, number, protocol)
    finally:
        cell.worker.stop()
    return statistics.median(second for block in cell.blocks + cell.repeated for second in block["samples"])


def agreement(
    case: Case, name: str, exporter: Exporter, turns: int, seconds: float, logs: Path
) -> dict[str, list[float]]:
    artifact = exporter.artifact(case.model)
    reference = exporter.reference(artifact, "forward", case.batch, 0, case.data)
    times: dict[str, list[float]] = {"xbench": [], "tool": []}
    for turn in range(turns):
        sides: list[tuple[str, Callable[[], float]]] = [
            ("xbench", lambda: by_xbench(case, artifact, exporter, seconds, logs)),
            ("tool", lambda: tool(name, artifact, Path(reference), seconds)),
        ]
        random.Random(turn).shuffle(sides)
        for side, measure in sides:
            times[side].append(measure())
    return times


def summary(model: str, runtime: str, name: str, times: dict[str, list[float]], quiet: bool) -> dict[str, Any]:
    """The mean ratio over the turns, and half its 95 % interval; printed, to stderr if `quiet`."""
    logs = np.log(times["xbench"]) - np.log(times["tool"])
    half = students_t(len(logs) - 1) * float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    row = {"ratio": math.exp(float(np.mean(logs))), "half": half}
    own, other = (1e3 * statistics.median(times[side]) for side in ("xbench", "tool"))
    medians = f"xbench {own:7.2f} ms, {name:16} {other:7.2f} ms"
    line = f"{model:9} {runtime:12} {medians}, ratio {row['ratio']:.4f} +-{half:.4f}"
    print(line, file=sys.stderr if quiet else sys.stdout, flush=True)
    return {"model": model, "runtime": runtime, "by": name, **row, **times}


def measured_by_tool(words: list[str]) -> None:
    runtime, folder, reference, seconds = words
    artifact = Artifact.read(folder)
    with np.load(reference, allow_pickle=False) as file:
        arrays = [file[f"input/{place}"] for place in range(len(artifact.info["inputs"]))]
    print(TOOLS[runtime](artifact, arrays, float(seconds)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--model", action="append", help="resnet50 or lstm_ptb; default: both")
    parser.add_argument("--runtime", action="append", choices=[*TOOLS], help="default: all four")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tool", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tool:
        measured_by_tool(options.tool)
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        exporter = Exporter(Path(folder))
        try:
            for model, batch in CELLS:
                for name in (options.runtime or TOOLS) if model in (options.model or [model]) else ():
                    runtime = name.partition("_")[0]
                    case = Case(model, runtime, "forward", batch)
                    times = agreement(case, name, exporter, options.turns, options.seconds, Path(folder))
                    rows.append(summary(model, runtime, TOOLS[name].__name__, times, options.json))
        finally:
            exporter.close()
    if options.json:
        print(json.dumps(rows))
    return int(any(abs(row["ratio"] - 1) > BOUND for row in rows))


if __name__ == "__main__":
    sys.exit(main())
