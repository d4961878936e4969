"""Compare `xbench inspect`'s estimate of memory with measured memory: python tools/measure/memory_estimate.py

A process contains its framework as well as the network, so the comparison is between the growth of the peaks from one
batch size to a larger one, and the growth of the estimate of inputs and results. Runtimes that plan their memory, or
fuse, take less; those with extra buffers (im2col, another layout) take more.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

NETWORKS = {"lenet": (64, 1024), "alexnet_cifar": (64, 1024)}
RUNTIMES = ("onnxruntime", "openvino", "torch")
MIB = 2**20


def xbench(*words: object) -> str:
    command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    print(f"{'network':<14} {'batches':<11} {'estimated':>10}", *(f"{name:>12}" for name in RUNTIMES), "  (MiB)")
    for network, batches in NETWORKS.items():
        estimates = [
            json.loads(xbench("inspect", network, "--quick", "--json", "--batch", batch))["memory"]["live_bytes"]
            for batch in batches
        ]
        with tempfile.TemporaryDirectory() as folder:
            options = ("--mode", "forward", "--runtime", ",".join(RUNTIMES), "--budget", "0.5", "--out", Path(folder))
            rows = [json.loads(xbench("time", network, "--batch", b, *options, "--json")) for b in batches]
        peaks = [{row["runtime"]: row["peak_memory_bytes"] for row in run} for run in rows]
        grown = [
            (peaks[1][name] - peaks[0][name]) / MIB if all(p.get(name) for p in peaks) else None for name in RUNTIMES
        ]
        shown = ["not measured" if each is None else f"{each:12.1f}" for each in grown]
        words = f"{batches[0]} to {batches[1]}"
        print(f"{network:<14} {words:<11} {(estimates[1] - estimates[0]) / MIB:10.1f}", *shown, flush=True)


if __name__ == "__main__":
    main()
