"""Is a right runtime blamed for how it works while it is timed? Runs `xbench time` repeatedly beside busy processes.

    python tools/measure/timed_false_alarms.py [--runs 30] [--busy 1] [--at-once 1] [--file FILE] [OPTIONS OF time]

Without options it times the default suite on every runtime, forward, gradient and step, at a small budget. A cell that
is neither PASS nor UNSUPPORTED is an alarm, and is printed with its message. FILE gets a line per run, so that runs add
up; a run that was ended resumes. `--busy 0 --at-once 2` makes two runs at once, each the busy process of the other.
With --runs 0 FILE is printed.
"""

import argparse
import contextlib
import functools
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xbench.host import machine

GOOD = ("PASS", "UNSUPPORTED")
BUSY = "while True: pass"
MODES = [word for mode in ("forward", "gradient", "step") for word in ("--mode", mode)]


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run `count` processes that never sleep."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(options: list[str], out: Path) -> list[dict[str, Any]]:
    """The records of one `xbench time` into a folder, where an ended one resumes. The folder is removed."""
    command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", "time", *options, "--out", str(out)]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    shutil.rmtree(out)
    return [{**{n: r["case"][n] for n in ("model", "runtime", "mode")}, **_facts(r)} for r in records]


def _facts(record: dict[str, Any]) -> dict[str, Any]:
    times = record["times"] or {}
    judged = {name: each["held"] for name, each in (record["contracts"] or {}).items()}
    return {"status": record["status"], "message": record["message"], "blocks": len(times.get("blocks", ())), **judged}


def summary(cells: list[dict[str, Any]], busy: int, options: list[str]) -> dict[str, Any]:
    """The line of a run alongside `busy` busy processes: by mode and runtime the number of cells, of those judged while
    timed, and of blocks."""
    cells = [each for each in cells if each["status"] != "UNSUPPORTED"]
    counts: dict[str, list[int]] = {}
    for each in cells:
        own = counts.setdefault(f"{each['mode']} {each['runtime']}", [0, 0, 0])
        own[:] = [own[0] + 1, own[1] + (each.get("timed") is True), own[2] + each["blocks"]]
    alarms = [each for each in cells if each["status"] not in GOOD]
    facts = machine.describe()
    about = {"date": time.strftime("%Y-%m-%d"), "xbench": commit(), "cpu": facts["cpu"], "cpus": facts["cpus"]}
    return {**about, "busy": busy, "options": options, "cells": counts, "alarms": alarms}


def commit() -> str:
    """The version of the source."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def report(runs: list[dict[str, Any]]) -> int:
    """Print the counts by runtime and mode over all runs and every alarm; return the number of alarms."""
    alarms = [each for run in runs for each in run["alarms"]]
    total = [0, 0]
    for key in sorted({key for run in runs for key in run["cells"]}):
        cells, judged, blocks = (sum(run["cells"].get(key, (0, 0, 0))[at] for run in runs) for at in range(3))
        wrong = sum(f"{each['mode']} {each['runtime']}" == key for each in alarms)
        total = [total[0] + cells, total[1] + blocks]
        print(f"{key:24} {cells:5} cells, {judged:5} judged while timed, {blocks:6} blocks, {wrong:2} alarms")
    for each in alarms:
        print(f"{each['model']} {each['runtime']} {each['mode']}: {each['status']}: {each['message']}")
    print(f"{len(runs)} runs, {total[0]} cells, {total[1]} blocks: {len(alarms)} alarms")
    return len(alarms)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=Path, default=Path(__file__).with_suffix(".jsonl"))
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--busy", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1)
    known, given = parser.parse_known_args()
    options = given or ["--budget", "0.3", *MODES]
    folders = [known.file.with_suffix(f".run{number}") for number in range(known.at_once)]
    with busy_processes(known.busy), ThreadPoolExecutor(known.at_once) as pool:
        for number in range(0, known.runs, known.at_once):
            for cells in pool.map(functools.partial(run, options), folders[: known.runs - number]):
                line = summary(cells, known.busy + known.at_once - 1, options)
                with known.file.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                words = f"{sum(cells for cells, _, _ in line['cells'].values())} cells, {len(line['alarms'])} alarms"
                print(f"after {number + known.at_once} of {known.runs}: {words}", file=sys.stderr, flush=True)
    return int(report([json.loads(line) for line in known.file.read_text().splitlines()]) > 0)


if __name__ == "__main__":
    sys.exit(main())
