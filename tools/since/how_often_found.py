"""Does `xbench since` find a planted release? Eight releases of ONNX Runtime, of which those from a random one on are
slower by 15 %, or wrong.

    python tools/since/how_often_found.py [--runs 50] [--file FILE]

Each release is an environment with the installed ONNX Runtime and a hook (`tools/since/planted_releases.py`): a
slower one waits 15 % of each call's time after it, a wrong one has a weight that is 1 % larger. FILE gets a line per
run, so that runs add up. With --runs 0 FILE is summed up.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from planted_releases import plant

from xbench.host import machine

RELEASES = [f"9.{number}.0" for number in range(8)]
SHARE = 0.15
OUTCOMES = ("found the planted release", "found a range with it", "said that it cannot be said", "were wrong")
KINDS: dict[str, list[str]] = {
    "slower": ["imdb_gru", "--batch", "8", "--budget", "1"],
    "wrong": ["lenet", "--wrong"],
}


def run(kind: str, place: int) -> dict[str, Any]:
    """One search for a fault that is planted from the release at `place` on."""
    bad = RELEASES[place:]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "environments")
        plant(root, RELEASES, dict.fromkeys(bad, SHARE) if kind == "slower" else {}, bad if kind == "wrong" else ())
        command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", "since", *KINDS[kind]]
        command += ["onnxruntime", "--versions", ",".join(RELEASES), "--from", RELEASES[0], "--json"]
        start = time.perf_counter()
        answer = subprocess.run(
            command, cwd=folder, env={**os.environ, "XBENCH_ENVIRONMENTS": str(root)}, capture_output=True, text=True
        )
        report = json.loads(answer.stdout) if answer.returncode in (0, 1) else {}
        sessions = _sessions(Path(folder))
    found = {name: report.get(name) for name in ("bad", "between", "certainty", "ratio")}
    steps, seconds = len(report.get("steps", ())), round(time.perf_counter() - start, 1)
    error = None if report else answer.stderr.splitlines()[-1:]
    about = {"cpu": machine.describe()["cpu"], "date": time.strftime("%Y-%m-%d")}
    return {
        "kind": kind,
        "planted": bad[0],
        **found,
        "steps": steps,
        "sessions": sessions,
        "s": seconds,
        "error": error,
    } | about


def _sessions(folder: Path) -> int:
    """How many sessions timed releases."""
    path = folder / "xbench-results" / "since.jsonl"
    return len({json.loads(line)["session"] for line in path.read_text().splitlines()}) if path.exists() else 0


def report(rows: list[dict[str, Any]]) -> None:
    """Print the counts of each kind, and every run that did not find the planted release alone."""
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind]
        if own:
            counts = Counter(map(outcome, own))
            steps, sessions = (max(row[name] for row in own) for name in ("steps", "sessions"))
            words = ", ".join(f"{counts[each]} {each}" for each in OUTCOMES if counts[each])
            print(f"{kind}: {len(own)} runs: {words}; at most {steps} steps and {sessions} sessions")
    for row in rows:
        if outcome(row) != OUTCOMES[0]:
            print(f"  {outcome(row)}: {row}")


def outcome(row: dict[str, Any]) -> str:
    """What came of a run."""
    if row["error"] or row["bad"] is None:
        return OUTCOMES[2] if "cannot be said" in str(row["error"]) else OUTCOMES[3]
    if row["bad"] == row["planted"] and not row["between"]:
        return OUTCOMES[0]
    return OUTCOMES[1] if row["planted"] in [*row["between"], row["bad"]] else OUTCOMES[3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=Path, default=Path(__file__).with_suffix(".jsonl"))
    parser.add_argument("--runs", type=int, default=50)
    known = parser.parse_args()
    draw = random.Random()
    for _ in range(known.runs):
        for kind in KINDS:
            row = run(kind, draw.randrange(1, len(RELEASES)))
            with known.file.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), file=sys.stderr, flush=True)
    report([json.loads(line) for line in known.file.read_text().splitlines()])


if __name__ == "__main__":
    main()
