"""How the time of `xbench time` is shared between the runtimes and xbench itself.

    python tools/measure/harness_share.py [OPTIONS OF xbench time]     (default: --budget 1, as in `make run`)

The runtimes' share is loading, compiling and stepping, whether timed, proved or audited, by the records of the run. The
rest is xbench's own: starting Python, reading references, comparing, sleeping, reading counters. The table lists it by
job of a worker. Judging the timed steps is counted separately: checks and resets within blocks (`block`), fetching the
state after a block (`state`), PyTorch's own steps (`trajectory`). Exit code 1 if this is more than a tenth, or the rest
is.
"""

import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from xbench.cli import main
from xbench.workers.worker import Worker

BOUND = 0.1
PHASES = ("load_s", "compile_s", "first_s", "proof_s")
PROOF = ("check", "check_more", "arm", "pace", "audit")
JUDGED = ("block", "state", "trajectory")


def counted(spent: Counter[str]) -> None:
    """Make every job of every worker add its seconds, as the parent waits for them."""
    plain = Worker.call

    def call(self: Worker, job: str, timeout: float, **arguments: Any) -> Any:
        start = time.monotonic()
        try:
            return plain(self, job, timeout, **arguments)
        finally:
            spent[job] += time.monotonic() - start

    Worker.call = call  # type: ignore[method-assign]


def of_runtimes(records: list[dict[str, Any]]) -> Counter[str]:
    """Seconds of the runtimes' own work, by kind."""
    spent: Counter[str] = Counter()
    for times in (record["times"] for record in records if record["times"]):
        for process in times["processes"]:
            spent.update({name: process[name] or 0.0 for name in PHASES})
            spent["warm-up"] += sum(process["warmup"])
        spent["steps"] += sum(sum(each["samples"]) + sum(each["lead"]) for each in times["blocks"] + times["repeated"])
    return spent


def report() -> int:
    spent: Counter[str] = Counter()
    counted(spent)
    with tempfile.TemporaryDirectory() as out:
        sys.argv = ["xbench", "time", *(sys.argv[1:] or ["--budget", "1"]), "--out", out]
        start = time.monotonic()
        with contextlib.suppress(SystemExit):
            main()
        total = time.monotonic() - start
        records = [json.loads(line) for line in (Path(out) / "results.jsonl").read_text().splitlines()]
    runtimes = of_runtimes(records)
    own = total - sum(runtimes.values())
    print(f"{len(records)} cells in {total:.0f} s, {own:.0f} s of it xbench's own: {own / total:.0%}")
    for name, seconds in runtimes.most_common():
        print(f"  the runtimes': {name:17} {seconds:7.1f} s")
    of_jobs = {
        "open_cell": spent["open_cell"] - sum(runtimes[name] for name in PHASES if name != "proof_s"),
        "proofs and audits": sum(spent.pop(name, 0.0) for name in PROOF) - runtimes["proof_s"],
        "warm": spent["warm"] - runtimes["warm-up"],
        "block": spent["block"] - runtimes["steps"],
    }
    rest = own
    parts = {**spent, **of_jobs}
    for name, seconds in sorted(parts.items(), key=lambda item: -item[1]):
        print(f"  xbench's own:  {name:17} {seconds:7.1f} s")
        rest -= seconds
    print(f"  xbench's own:  {'between jobs':17} {rest:7.1f} s")
    judged = sum(parts[name] for name in JUDGED if name in parts)
    print(f"of it to judge what was timed: {judged:.0f} s, {judged / total:.0%}")
    return int(judged > BOUND * total or own - judged > BOUND * total)


if __name__ == "__main__":
    sys.exit(report())
