"""The memory that a model of 6.2 GB takes on its way: `python tools/measure/gpt2_xl_memory.py`.

GPT-2 XL with random weights (1.56 billion parameters) is exported and written in the form of ONNX Runtime and of
OpenVINO by the command a user types, with a cache that is empty. For each process it starts, in that order, the largest
resident set (`VmHWM`, which the kernel keeps, file pages included), and over all of them together the largest sum of
resident sets, sampled 20 times a second; pages that processes share are counted in each.

`--factory quarter` is a model of a quarter of its layers. `--json FILE` keeps the figures. Exit code 1 when the command
fails, or the largest sum or any process passes 2.5 times the weights, or 24 GB.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from xbench.converters.artifact import WEIGHTS
from xbench.host import machine

RATIO_BOUND, BYTES_BOUND = 2.5, 24e9
INTERVAL = 0.05
TARGETS = ("onnxruntime", "openvino")
# The workers of `xbench convert --to`, in the order it starts them.
STAGES = ("command", "export", *(f"{target} {job}" for target in TARGETS for job in ("loads it", "writes it")))


def make(layers: int = 48) -> Any:
    """GPT-2 XL; weights are drawn once, without PyTorch's prior initialisation."""
    import torch  # only the workers need it: its memory is not to be in what is measured of the command

    from xbench.models.gpt2 import GPT2

    with torch.device("meta"):
        module = GPT2(width=1600, heads=25, layers=layers)
    module.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.uniform_(-0.03, 0.03, generator=generator)
            if "norm" in name and name.endswith("weight"):
                p.add_(1)
    return module


def quarter() -> Any:
    """Twelve of its 48 layers: 450 million parameters, 1.8 GB."""
    return make(layers=12)


def sizes(pid: int) -> dict[str, int] | None:
    """Bytes of a process by the kernel's names; None if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    fields = [line.split() for line in lines if line.startswith(("Vm", "Rss"))]
    by_name = {name.rstrip(":"): int(kilobytes) * 1024 for name, kilobytes, *_ in fields}
    return by_name if "VmRSS" in by_name else None


def children(pid: int) -> list[int]:
    pids: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            pids += map(int, tasks.read_text().split())
    return pids


def family(pid: int) -> dict[int, dict[str, int]]:
    """The sizes of a process and of all its living descendants."""
    pids = [pid]
    for each in pids:
        pids += children(each)
    return {each: used for each in pids if (used := sizes(each))}


def watch(command: list[str], environment: dict[str, str], folder: str) -> dict[str, Any]:
    """Run a command and sample it and all its descendants."""
    process = subprocess.Popen(command, cwd=Path(__file__).parent, env=environment, stdout=subprocess.PIPE)
    peaks: dict[int, dict[str, int]] = {}
    total, start = 0, time.perf_counter()
    while process.poll() is None:
        now = family(process.pid)
        total = max(total, sum(each["VmRSS"] for each in now.values()))
        for pid in {process.pid, *children(process.pid)} & now.keys():
            peaks[pid] = {name: max(size, peaks.get(pid, {}).get(name, 0)) for name, size in now[pid].items()}
        time.sleep(INTERVAL)
    workers = [
        {"peak": each["VmHWM"], "anonymous": each["RssAnon"], "file": each["RssFile"]} for each in peaks.values()
    ]
    weights = sum(path.stat().st_size for path in Path(folder).rglob(WEIGHTS) if "cache" in path.parts)
    output = process.stdout.read() if process.stdout else b"[]"
    facts = {"seconds": time.perf_counter() - start, "weights": weights, "sum": total}
    return {**facts, "code": process.returncode, "processes": workers, "rows": json.loads(output or b"[]")}


def measure(factory: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="xbench-gpt2-xl-") as folder:
        word = f"{Path(__file__).stem}:{factory}"
        xbench = str(Path(sys.executable).with_name("xbench"))
        command = [xbench, "convert", word, "--input", "x:int64:batch,16", "--json"]
        command += [part for target in TARGETS for part in ("--to", target)]
        command += ["--output", f"{folder}/models"]
        return watch(command, {**os.environ, "XBENCH_CACHE": f"{folder}/cache"}, folder)


def show(report: dict[str, Any]) -> None:
    weights = report["weights"]
    print(f"weights {weights / 1e9:.2f} GB; {report['seconds']:.0f} s")
    print(f"{'process':24}{'peak':>10}{'/ weights':>10}{'anonymous':>11}{'file':>10}")
    for index, row in enumerate(report["processes"]):
        name = STAGES[index] if len(report["processes"]) == len(STAGES) else f"process {index}"
        peak, anonymous, file = (row[each] / 1e9 for each in ("peak", "anonymous", "file"))
        print(f"{name:24}{peak:>7.2f} GB{row['peak'] / weights:>10.2f}{anonymous:>8.2f} GB{file:>7.2f} GB")
    print(f"{'all that live at once':24}{report['sum'] / 1e9:>7.2f} GB{report['sum'] / weights:>10.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--factory", choices=("make", "quarter"), default="make")
    options = parser.parse_args()
    report = measure(options.factory) | {"machine": machine.describe()}
    done = [row["runtime"] for row in report["rows"] if row["status"] == "CONVERTED" and row.get("files")]
    if report["weights"]:
        show(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    peak = max([report["sum"], *(row["peak"] for row in report["processes"])])
    within = report["code"] == 0 and done == list(TARGETS) and peak <= min(RATIO_BOUND * report["weights"], BYTES_BOUND)
    print("within the bounds" if within else f"OUTSIDE the bounds: {report['rows']}", file=sys.stderr)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
