"""Is a right runtime blamed for how it works while it is timed? Runs `xbench time` repeatedly beside busy processes.

    python benchmarks/timed_false_alarms.py --json FILE [--runs 30] [--busy 1] [OPTIONS OF xbench time]

Without options it times the default suite on every runtime, forward, gradient and step, at a small budget. A cell that
is neither PASS nor UNSUPPORTED is an alarm, and is printed with its message. FILE gets a line per cell; a later call
adds to it.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GOOD = ("PASS", "UNSUPPORTED")
BUSY = "while True: pass"
MODES = [word for mode in ("forward", "gradient", "step") for word in ("--mode", mode)]


@contextlib.contextmanager
def beside(count: int) -> Iterator[None]:
    """So many processes that never sleep."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(options: list[str]) -> list[dict[str, Any]]:
    """The records of one `xbench time`."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", "time", *options, "--out", out]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = (Path(out) / "results.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return [{**{n: r["case"][n] for n in ("model", "runtime", "mode")}, **_said(r)} for r in records]


def _said(record: dict[str, Any]) -> dict[str, Any]:
    times = record["times"] or {}
    held = {name: each["held"] for name, each in (record["contracts"] or {}).items()}
    return {"status": record["status"], "message": record["message"], "blocks": len(times.get("blocks", ())), **held}


def report(cells: list[dict[str, Any]]) -> int:
    """Counts by runtime and mode, every alarm, and the number of alarms."""
    cells = [each for each in cells if each["status"] != "UNSUPPORTED"]
    alarms = [each for each in cells if each["status"] not in GOOD]
    for key in sorted({(each["mode"], each["runtime"]) for each in cells}):
        own = [each for each in cells if (each["mode"], each["runtime"]) == key]
        judged = Counter(each.get("timed") for each in own)
        wrong = sum(each in alarms for each in own)
        words = f"{judged[True]:4} judged while timed, {judged[None]:3} not"
        print(f"{key[0]:8} {key[1]:14} {len(own):4} cells, {words}, {wrong:2} alarms")
    for each in alarms:
        print(f"{each['model']} {each['runtime']} {each['mode']}: {each['status']}: {each['message']}")
    print(f"{len(cells)} cells, {sum(each['blocks'] for each in cells)} blocks: {len(alarms)} alarms")
    return len(alarms)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--busy", type=int, default=1)
    known, options = parser.parse_known_args()
    with beside(known.busy):
        for number in range(known.runs):
            cells = run(options or ["--budget", "0.3", *MODES])
            with known.json.open("a") as file:
                file.writelines(json.dumps(each) + "\n" for each in cells)
            alarms = sum(each["status"] not in GOOD for each in cells)
            print(f"run {number + 1} of {known.runs}: {len(cells)} cells, {alarms} alarms", file=sys.stderr, flush=True)
    return int(report([json.loads(line) for line in known.json.read_text().splitlines()]) > 0)


if __name__ == "__main__":
    sys.exit(main())
