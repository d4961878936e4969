"""Everything that is asked of a GPU, in one report: `make gpu`, or

    python tools/pages/gpu.py [--device cuda] [--model M ...] [--runtime R ...] [--seconds 450] > docs/gpu.md

The fault kit, parity, times, lower precisions and the plane `device`, on whatever runtimes are installed, one part
after the other within so many seconds in all; what there was no time for is said. Exit code 1 where a runtime fails.
With `--device cpu` the same report is made without a GPU.
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from xbench.host import machine
from xbench.runtimes import RUNTIMES, version

XBENCH = (sys.executable, "-P", "-c", "from xbench.cli import main; main()")
GOOD = ("PASS", "UNSUPPORTED")


class OutOfTime(Exception):
    """The seconds of the report are over."""


class Report:
    """Runs commands within the time there is, and keeps whether anything failed."""

    def __init__(self, seconds: float, out: str) -> None:
        self.end, self.out, self.failed = time.monotonic() + seconds, out, False

    def run(self, *words: str) -> Any:
        """What an xbench command prints as JSON.

        Raises:
            OutOfTime: it did not end in the time that was left.
        """
        left = self.end - time.monotonic()
        try:
            if left < 1:
                raise subprocess.TimeoutExpired(words, left)
            answer = subprocess.run([*XBENCH, *words, "--json"], stdout=subprocess.PIPE, text=True, timeout=left)
        except subprocess.TimeoutExpired as error:
            raise OutOfTime(f"`xbench {' '.join(words)}` was not over when the time was") from error
        self.failed |= answer.returncode != 0
        return json.loads(answer.stdout) if answer.stdout else []


def kit(report: Report, words: list[str], runtimes: list[str], device: list[str]) -> Iterator[str]:
    yield "| runtime | held | not held | not asked |\n|---|---|---|---|"
    for runtime in runtimes:
        found = report.run("plugin", "test", runtime, *device)
        held = sum(each["held"] is True for each in found)
        broken = [f"{each['mode']} {each['check']}: {each['says']}" for each in found if each["held"] is False]
        silent = sorted({f"{each['check']}: {each['says']}" for each in found if each["held"] is None})
        yield f"| {runtime} | {held} | {_cell(broken)} | {_cell(silent)} |"


def parity(report: Report, words: list[str], runtimes: list[str], device: list[str]) -> Iterator[str]:
    modes = ("--mode", "forward", "--mode", "gradient", "--mode", "step")
    yield from _checked(report.run("check", *words, *modes, *device))


def lower(report: Report, words: list[str], runtimes: list[str], device: list[str]) -> Iterator[str]:
    for precision in ("tf32", "bf16", "fp16"):
        yield f"\n`--precision {precision}`\n"
        yield from _checked(report.run("check", *words, "--mode", "forward", "--precision", precision, *device))


def times(report: Report, words: list[str], runtimes: list[str], device: list[str]) -> Iterator[str]:
    report.run("time", *words, "--mode", "forward", "--mode", "step", "--budget", "0.5", "--out", report.out, *device)
    yield _shown(report.out)


def events(report: Report, words: list[str], runtimes: list[str], device: list[str]) -> Iterator[str]:
    out = f"{report.out}-events"
    plane = ("--mode", "forward", "--plane", "device", "--budget", "0.5", "--out", out)
    report.run("time", *words, *plane, *device)
    yield _shown(out)


PARTS: dict[str, Callable[[Report, list[str], list[str], list[str]], Iterator[str]]] = {
    "Times": times,
    "Parity": parity,
    "What an adapter promises (`xbench plugin test`)": kit,
    "By the device's own clock (`--plane device`)": events,
    "Less than float32": lower,
}


def _checked(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| model | runtime | mode | status | class | floors off | |\n|---|---|---|---|---|---|---|"
    for row in rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.1f}"
        told = "" if row["message"] is None else _cell([row["message"]])
        words = (row["model"], row["runtime"], row["mode"], row["status"], row["class"] or "", ratio, told)
        yield f"| {' | '.join(words)} |"


def _shown(out: str) -> str:
    words = [*XBENCH, "show", "--out", out, "--markdown"]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _cell(words: list[str]) -> str:
    return "; ".join(words).replace("|", "/").replace("\n", " ")


def facts(runtimes: list[str]) -> str:
    """The GPUs as the driver names them, the processor, and the versions."""
    gpus = ""
    if tool := shutil.which("nvidia-smi"):
        query = [tool, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        gpus = "; ".join(subprocess.run(query, capture_output=True, text=True).stdout.split("\n")).strip("; ")
    about = machine.describe()
    versions = ", ".join(f"{runtime} {version(RUNTIMES[runtime])}" for runtime in runtimes)
    return f"{gpus or 'No GPU'}. {about['cpu']}, {about['cpus']} CPUs. Python {platform.python_version()}; {versions}."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", action="append", help="default: lenet, resnet56_cifar, mobilenet_v2")
    parser.add_argument("--runtime", action="append", help="default: all that are installed")
    parser.add_argument("--seconds", type=float, default=450.0, help="of the whole report")
    options = parser.parse_args()
    known = [name for name, row in RUNTIMES.items() if not row.hidden and version(row)]
    runtimes, models = options.runtime or known, options.model or ["lenet", "resnet56_cifar", "mobilenet_v2"]
    chosen = [word for runtime in runtimes for word in ("--runtime", runtime)]
    device = ["--device", options.device]
    print(f"# On {options.device}\n\nPrinted by `{' '.join(['tools/pages/gpu.py', *sys.argv[1:]])}`. {facts(runtimes)}")
    with tempfile.TemporaryDirectory(prefix="xbench-gpu-") as folder:
        report = Report(options.seconds, str(Path(folder) / "results"))
        for title, part in PARTS.items():
            start = time.monotonic()
            print(f"\n## {title}\n", flush=True)
            try:
                for line in part(report, [*models, *chosen], runtimes, device):
                    print(line, flush=True)
            except OutOfTime as error:
                print(f"\nNot done: {error}.")
            print(f"\n{time.monotonic() - start:.0f} s.")
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
