"""What a step costs where glibc gives freed memory back to the system, and where the process keeps it.

    python tools/measure/allocator.py [RUNTIME ...] [--model lstm_ptb] [--processes 6]

Every process opens the model's forward pass with one thread and steps. `held`: while a step computes, the result of the
one before is still there, as in `y = model(x)` in a loop; `let go`: it is not, as in what xbench times. `faults` are
the pages faulted in by a step. With glibc's own thresholds a process gives back what it freed, or not, by what it
happened to do before; with those of xbench (workers/worker.py) it keeps it.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from xbench import models
from xbench.workers.cell import CELL
from xbench.workers.jobs import cell as jobs
from xbench.workers.prepare import Exporter
from xbench.workers.variables import MEMORY, environment

STEPS = 20


def stepped(hold: bool) -> tuple[float, int]:
    """The median step in seconds, and the pages faulted in by one."""
    (cell,) = CELL
    kept, samples = None, []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for index in range(STEPS):
        start = time.perf_counter()
        cell.steps[index % len(cell.steps)]()
        samples.append(time.perf_counter() - start)
        kept = cell.last if hold else None
    del kept
    return statistics.median(samples), (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // STEPS


def child(artifact: str, runtime: str, references: list[str]) -> None:
    """One process: opens the cell, runs some steps, and prints the cost of both ways."""
    cell = {"mode": "forward", "device": "cpu", "threads": 1, "layout": "nchw", "precision": "fp32"}
    jobs.open_cell(artifact, runtime, references=references, **cell)
    stepped(hold=False)
    print(json.dumps([stepped(hold=True), stepped(hold=False)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runtimes", nargs="*", metavar="RUNTIME", default=["torch", "jax", "onnxruntime", "openvino"])
    parser.add_argument("--model", default="lstm_ptb")
    parser.add_argument("--processes", type=int, default=6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as logs:
        exporter = Exporter(Path(logs))
        artifact, batch = exporter.artifact(options.model), models.find(options.model).batch
        references = [str(exporter.reference(artifact, "forward", batch, seed, "synthetic")) for seed in (0, 1)]
        exporter.close()
    base = environment("cpu", 1)
    settings = {"glibc's own": {n: v for n, v in base.items() if n not in MEMORY}, "xbench's": base | MEMORY}
    print(f"{options.model} forward, batch {batch}, 1 thread: ms (pages faulted in) a step, one column a process")
    for runtime in options.runtimes:
        words = [sys.executable, __file__, "--child", str(artifact.folder), runtime, *references]
        for name, variables in settings.items():
            results = [
                json.loads(subprocess.run(words, env=variables, capture_output=True, text=True, check=True).stdout)
                for _ in range(options.processes)
            ]
            for way, each in zip(("held", "let go"), zip(*results, strict=True), strict=True):
                line = "".join(f"{seconds * 1e3:8.1f} ({faults:5d})" for seconds, faults in each)
                print(f"{runtime:12} {name:12} {way:7}{line}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        child(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        main()
