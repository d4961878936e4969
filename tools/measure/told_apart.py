"""Are equals told apart, is a slowdown of 5 % found, does a drift of 20 % change a ratio? On real runtimes.

    python tools/measure/told_apart.py [--sessions 13] [--processes 8] [--json FILE] [RUNTIME ...]

In every session three cells are timed side by side, as by `xbench time --processes 2`: a runtime, the same again, and
one whose forward pass takes 5 % longer (it waits at the end). Two are told apart if `xbench show` would not mark them
with a `~`, that is if the 95 % interval of the ratio does not contain 1: of single processes, and of groups of
sessions, drawn at random, that have `--processes` in total. For `xbench compare`, stores are made of the same number of
sessions each, in turns, so that no session is on both sides.

The drift is planted: two cells that take a given time, 2 and 3 ms, which grows by 20 % while they are timed. Printed
next to the ratio is the result of timing one after the other. Exit code 1 if a bound is missed: 5 of 100 equals told
apart, by any way; 95 of 100 slowdowns found, by the ratio of several processes; 1 %. The result of `compare` is printed
without a bound: it depends on the machine being the same at different times.
"""

import argparse
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from plants import install

from xbench.case import Case
from xbench.experiments import session
from xbench.stats.ratio import paired_ratio
from xbench.store.comparison import compare
from xbench.workers.prepare import Exporter

RUNTIMES = ("onnxruntime", "openvino", "torch", "jax")
MODEL, BATCH, SLOWER = "lenet", 64, 0.05
PROTOCOL = session.Protocol(budget=2.0, processes=2)
GROUPS = 25  # drawn from a runtime's sessions
NAMES = ("a", "b", "slow")


def sessions(runtime: str, number: int, exporter: Exporter, logs: Path) -> Iterator[dict[str, Any]]:
    """The records of `number` sessions, by name."""
    artifact = exporter.artifact(MODEL)
    words = {name: f"slowed:of={runtime},name={name},share={SLOWER if name == 'slow' else 0}" for name in NAMES}
    cases = [Case(MODEL, word, "forward", BATCH) for word in words.values()]
    for place in range(number):
        random.Random(place).shuffle(cases)
        records = session.run(cases, artifact, exporter, PROTOCOL, logs, hush)
        by_word = {record["case"]["runtime"]: record for record in records}
        failed = [record for record in by_word.values() if not record["times"]]
        if failed:
            print(f"{runtime}: {failed[0]['status']}: {failed[0]['message']}", flush=True)
            continue
        yield {name: by_word[word] for name, word in words.items()}


def hush(_: str) -> None:
    pass


def side_by_side(records: list[dict[str, Any]], processes: int) -> dict[str, int]:
    """How many pairs of equals were told apart, and of slow ones, by the ratios of `processes` processes per cell."""
    apart = {"equals": 0, "slow": 0, "of": 0}
    single = [[(place, process)] for place in range(len(records)) for process in range(PROTOCOL.processes)]
    several = [[(place, process) for place in group for process in (0, 1)] for group in groups(len(records), processes)]
    for group in single if processes == 1 else several:
        blocks = {name: joined([(records[place][name], process) for place, process in group]) for name in NAMES}
        equal, slow = (paired_ratio(blocks[name], blocks["a"], np.random.default_rng(0)) for name in ("b", "slow"))
        apart["equals"] += not (equal.low or 0) <= 1 <= (equal.high or math.inf)
        apart["slow"] += (slow.low or 0) > 1
        apart["of"] += 1
    return apart


def joined(processes: list[tuple[dict[str, Any], int]]) -> list[dict[str, Any]]:
    """The blocks of processes of several sessions as those of one: each was proved, warmed and timed again."""
    return [
        {**block, "process": place, "round": 1000 * place + block["round"]}
        for place, (record, process) in enumerate(processes)
        for block in record["times"]["blocks"]
        if block["process"] == process
    ]


def groups(number: int, processes: int) -> list[list[int]]:
    """Sessions with `processes` processes in total, drawn at random."""
    draw, size = random.Random(1), processes // PROTOCOL.processes
    return [draw.sample(range(number), size) for _ in range(GROUPS if number >= size else 0)]


def one_after_the_other(records: list[dict[str, Any]], runs: int) -> dict[str, int]:
    """The same for `xbench compare`, on stores of `runs` sessions each, drawn at random, in turns."""
    apart = {"equals": 0, "slow": 0, "of": 0}
    for group in groups(len(records), 2 * runs * PROTOCOL.processes):
        old = [alike(records[place]["a"]) for place in group[::2]]
        for name, key in (("b", "equals"), ("slow", "slow")):
            (change,) = compare(old, [alike(records[place][name]) for place in group[1::2]])
            apart[key] += change.verdict != "same" if key == "equals" else change.verdict == "slower"
        apart["of"] += 1
    return apart


def alike(record: dict[str, Any]) -> dict[str, Any]:
    """The record, as of a cell that both stores have."""
    return {**record, "key": "cell", "case": record["case"] | {"runtime": "cell"}}


def drifted(exporter: Exporter, logs: Path) -> tuple[float, float]:
    """The ratio under a drift, and the ratio of the medians of two cells that are timed one after the other."""
    artifact = exporter.artifact(MODEL)

    def run(*groups: tuple[float, ...]) -> list[dict[str, Any]]:
        begin, records = time.time() + 4.0, []
        rest = f"share=0.2,begin={begin},length=8"
        for group in groups:
            cases = [Case(MODEL, f"drifting:seconds={seconds},{rest}", "forward", 2) for seconds in group]
            while time.time() < begin - 3.0:
                time.sleep(0.01)
            records += session.run(cases, artifact, exporter, session.Protocol(4.0, target=0.0), logs, hush)
        return sorted(records, key=lambda record: record["case"]["runtime"])

    fast, slow = run((0.002, 0.003))
    ratio = paired_ratio(slow["times"]["blocks"], fast["times"]["blocks"], np.random.default_rng(0)).value
    fast, slow = run((0.002,), (0.003,))
    return ratio, slow["times"]["median_s"] / fast["times"]["median_s"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runtimes", nargs="*", metavar="RUNTIME", default=[*RUNTIMES])
    parser.add_argument("--sessions", type=int, default=13)
    parser.add_argument("--processes", type=int, default=8, help="an even number")
    parser.add_argument(
        "--json", type=Path, help="Keep the records here; those that are there already are not measured."
    )
    options = parser.parse_args()
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder))
        exporter = Exporter(Path(folder))
        try:
            ratio, naive = drifted(exporter, Path(folder))
            print(f"drift of 20 %: ratio {ratio:.4f} of a true 1.5; one after the other {naive:.4f}", flush=True)
            for runtime in options.runtimes:
                some = kept.setdefault(runtime, [])
                for records in sessions(runtime, options.sessions - len(some), exporter, Path(folder)):
                    some.append(records)
                    if options.json:
                        options.json.write_text(json.dumps(kept))
        finally:
            exporter.close()
    return report({name: kept[name] for name in options.runtimes}, options.processes, ratio)


def report(kept: dict[str, list[dict[str, Any]]], processes: int, ratio: float) -> int:
    bounded = f"ratio, {processes} processes"
    ways = {
        "ratio, 1 process": lambda runs: side_by_side(runs, 1),
        bounded: lambda runs: side_by_side(runs, processes),
        f"compare, {processes // 2} + {processes // 2} runs": lambda runs: one_after_the_other(runs, processes // 2),
    }
    print(f"{'':24} " + "".join(f"{name:>14}" for name in kept) + f"{'all':>14}")
    good = abs(math.log(ratio / 1.5)) < 0.01
    for way, count in ways.items():
        rows = [count(runs) for runs in kept.values()]
        rows.append({key: sum(row[key] for row in rows) for key in rows[0]})
        for key, words in (("equals", "equals apart"), ("slow", "5 % found")):
            shown = "".join(f"{row[key]:>7} of {row['of']:<3}" for row in rows)
            print(f"{way if key == 'equals' else '':24}{words:>14} {shown}")
        few = rows[-1]["equals"] <= 0.05 * rows[-1]["of"]
        good = good and few and (way != bounded or rows[-1]["slow"] >= 0.95 * rows[-1]["of"])
    print("within the bounds" if good else "outside of the bounds")
    return int(not good)


if __name__ == "__main__":
    os.environ.setdefault("XBENCH_CACHE", tempfile.mkdtemp())
    sys.exit(main())
