"""Everything that is asked of a GPU, in one report: `make gpu`, or

    python tools/pages/gpu.py [--device cuda] [--model M ...] [--runtime R ...] [--part P ...] > docs/gpu.md

Times, parity, lower precisions, the plane `device` and the fault kit, on whatever runtimes are installed, one part
after the other within so many seconds in all; where the time is over, what was measured until then is shown. Exit code
1 where a runtime fails. With `--device cpu` the same report is made without a GPU.
"""

import argparse
import json
import platform
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
MODELS = ("lenet", "resnet56_cifar", "mobilenet_v2")


class OutOfTime(Exception):
    """The seconds of the report are over."""


class Report:
    """Runs commands within the time limit, and records whether anything failed."""

    def __init__(self, seconds: float, folder: str, models: list[str], runtimes: list[str], device: str) -> None:
        self.end, self.folder, self.failed = time.monotonic() + seconds, folder, False
        self.runtimes, self.device = runtimes, ("--device", device)
        self.cells = [*models, *(word for runtime in runtimes for word in ("--runtime", runtime))]

    def run(self, *words: str) -> str:
        """The output of an xbench command.

        Raises:
            OutOfTime: it did not end in the remaining time; what it has measured is kept.
        """
        shown = " ".join(words).replace(self.folder, "...")
        late = OutOfTime(f"`xbench {shown}` was not over when the time was")
        if (left := self.end - time.monotonic()) < 1:
            raise late
        command = subprocess.Popen([*XBENCH, *words], stdout=subprocess.PIPE, text=True)
        try:
            printed, _ = command.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            command.terminate()
            command.communicate()
            raise late from None
        self.failed |= command.returncode != 0
        return printed


def promises(report: Report) -> Iterator[str]:
    yield "| runtime | held | not held | not asked |\n|---|---|---|---|"
    for runtime in report.runtimes:
        findings = json.loads(report.run("plugin", "test", runtime, *report.device, "--json"))
        kept = sum(each["held"] is True for each in findings)
        broken = [f"{each['mode']} {each['check']}: {each['says']}" for each in findings if each["held"] is False]
        silent = sorted({f"{each['check']}: {each['says']}" for each in findings if each["held"] is None})
        yield f"| {runtime} | {kept} | {_cell(broken)} | {_cell(silent)} |"


def parity(report: Report) -> Iterator[str]:
    yield from _checked(report, "--mode", "forward", "--mode", "gradient", "--mode", "step")


def lower(report: Report) -> Iterator[str]:
    for precision in ("tf32", "bf16", "fp16"):
        yield f"\n`--precision {precision}`\n"
        yield from _checked(report, "--mode", "forward", "--precision", precision)


def times(report: Report) -> Iterator[str]:
    yield from _timed(report, "--mode", "forward", "--mode", "step")


def events(report: Report) -> Iterator[str]:
    yield from _timed(report, "--mode", "forward", "--plane", "device")


PARTS: dict[str, tuple[str, Callable[[Report], Iterator[str]]]] = {
    "times": ("Times", times),
    "parity": ("Parity", parity),
    "events": ("By the device's own clock (`--plane device`)", events),
    "lower": ("Less than float32", lower),
    "kit": ("What an adapter promises (`xbench plugin test`)", promises),
}


def _timed(report: Report, *words: str) -> Iterator[str]:
    out = tempfile.mkdtemp(dir=report.folder)
    try:
        report.run("time", *report.cells, *words, "--budget", "0.5", "--out", out, *report.device)
    finally:
        shown = subprocess.run([*XBENCH, "show", "--out", out, "--markdown"], stdout=subprocess.PIPE, text=True)
        yield shown.stdout.strip()


def _checked(report: Report, *words: str) -> Iterator[str]:
    out = Path(tempfile.mkdtemp(dir=report.folder))
    yield "| model | runtime | mode | status | class | x noise | |\n|---|---|---|---|---|---|---|"
    try:
        report.run("check", *report.cells, *words, "--out", str(out), *report.device)
    finally:
        for line in (line for path in out.glob("*.jsonl") for line in path.read_text().splitlines()):
            yield _row(json.loads(line))


def _row(record: dict[str, Any]) -> str:
    case, proof = record["case"], record["parity"] or {}
    ratio = "" if proof.get("ratio") is None else f"{proof['ratio']:.1f}"
    message = _cell([record["message"] or ""])
    words = (case["model"], case["runtime"], case["mode"], record["status"], proof.get("class") or "", ratio, message)
    return f"| {' | '.join(words)} |"


def _cell(words: list[str]) -> str:
    return "; ".join(words).replace("|", "/").replace("\n", " ")


def facts(runtimes: list[str], device: str) -> str:
    """The machine, as seen by `--device`, and the versions."""
    about = machine.facts(device)
    on = f"{about['gpu']['name']}, driver {about['gpu']['driver']}. " if device == "cuda" else ""
    versions = ", ".join(f"{runtime} {version(RUNTIMES[runtime])}" for runtime in runtimes)
    return f"{on}{about['cpu']}, {about['cpus']} CPUs. Python {platform.python_version()}; {versions}."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", action="append", help=f"default: {', '.join(MODELS)}")
    parser.add_argument("--runtime", action="append", help="default: all that are installed")
    parser.add_argument("--part", action="append", choices=PARTS, help="default: all")
    parser.add_argument("--seconds", type=float, default=1500.0, help="of the whole report")
    options = parser.parse_args()
    known = [name for name, row in RUNTIMES.items() if not (row.hidden or row.named) and version(row)]
    runtimes, models = options.runtime or known, options.model or [*MODELS]
    printed_by = " ".join(["tools/pages/gpu.py", *sys.argv[1:]])
    print(f"# On {options.device}\n\nPrinted by `{printed_by}`. {facts(runtimes, options.device)}")
    with tempfile.TemporaryDirectory(prefix="xbench-gpu-") as folder:
        report = Report(options.seconds, folder, models, runtimes, options.device)
        for title, part in (PARTS[name] for name in options.part or PARTS):
            start = time.monotonic()
            print(f"\n## {title}\n", flush=True)
            try:
                for line in part(report):
                    print(line, flush=True)
            except OutOfTime as error:
                print(f"\nNot done: {error}.")
            print(f"\n{time.monotonic() - start:.0f} s.")
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
