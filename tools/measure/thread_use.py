"""How many CPUs does a runtime use that was told one thread? Free, bound to one CPU, and in a cgroup of one CPU.

    python tools/measure/thread_use.py [MODEL ...] [--runtime R ...]

`cpus` is CPU time over wall time while steps were timed; `at once` is the number of threads running or waiting for a
CPU, with all CPUs available (the audit of each record). Exit code 1 if `cpus` is above 1.05. If no cgroup can be made,
a message says so and the column is empty. The cgroup is of version 1 (`cpu.cfs_quota_us`) or 2 (`cpu.max`).
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MODELS = ("lenet", "cifar_vgg", "lstm_ptb")
MOST = 1.05
WAYS = ("free", "bound", "cgroup")
GROUPS = Path("/sys/fs/cgroup")


def measured(words: list[str], enter: Callable[[], None], out: Path) -> list[dict[str, Any]]:
    """The records of a run whose process calls `enter` first."""
    command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", "time", *words, "--threads", "1"]
    subprocess.run([*command, "--out", str(out)], stdout=subprocess.DEVNULL, preexec_fn=enter, check=False)
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


@contextlib.contextmanager
def cgroup() -> Iterator[Path | None]:
    """A cgroup of one CPU, or None if none can be made."""
    for top, file, text in ((GROUPS / "cpu", "cpu.cfs_quota_us", "100000"), (GROUPS, "cpu.max", "100000 100000")):
        group = top / f"xbench-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(text)
        except OSError:
            group.rmdir()
            continue
        try:
            yield group
        finally:
            group.rmdir()
        return
    yield None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=[*MODELS])
    parser.add_argument("--runtime", action="append", default=[])
    options = parser.parse_args()
    words = [*options.models, "--budget", "1", *(word for each in options.runtime for word in ("--runtime", each))]
    first = min(os.sched_getaffinity(0))
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder, cgroup() as group:
        enters: dict[str, Callable[[], None] | None] = {
            "free": lambda: None,
            "bound": lambda: os.sched_setaffinity(0, [first]),
            "cgroup": (lambda: _join(group)) if group else None,
        }
        for way, enter in enters.items():
            for record in measured(words, enter, Path(folder, way)) if enter else ():
                case = record["case"]
                row = rows.setdefault((case["model"], case["mode"], case["runtime"]), {})
                if record["times"]:
                    worst = max(worst, record["times"]["cpus"])
                    row[way] = f"{record['times']['cpus']:.2f} ({record['audit']['threads_at_once'] or 0:.2f})"
                else:
                    row[way] = record["status"]
    print(f"{'':42} " + " ".join(f"{way:>14}" for way in WAYS) + "   cpus (at once)")
    for place, row in rows.items():
        print(f"{place[0]:15} {place[1]:8} {place[2]:17} " + " ".join(f"{row.get(way, ''):>14}" for way in WAYS))
    print(f"at most {worst:.2f} CPUs{'' if group else '; no cgroup can be made here'}")
    return int(worst > MOST)


def _join(group: Path) -> None:
    (group / ("tasks" if (group / "tasks").exists() else "cgroup.procs")).write_text(str(os.getpid()))


if __name__ == "__main__":
    sys.exit(main())
