"""How long does the oracle take beside busy processes?

    python tools/measure/oracle_time.py [MODEL ...] [--mode M] [--busy 2] [--rounds 3]

Threads of GNU's OpenMP spin before they sleep: 300,000 times by its own default, fewer in xbench's workers that time
nothing. Prints the seconds of a reference with both, alone and beside processes that never sleep: the median of rounds
in turns.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from timed_false_alarms import busy_processes

from xbench.workers.prepare import Exporter
from xbench.workers.variables import PATIENT

(NAME,) = PATIENT
SPINS = {"OpenMP's own": "300000", "xbench's": PATIENT[NAME]}


def seconds(models: list[str], mode: str, spins: str, seed: int) -> list[float]:
    """The time of a reference of each model, in a process that has computed one before."""
    os.environ[NAME] = spins
    with tempfile.TemporaryDirectory() as folder:
        exporter = Exporter(Path(folder))
        try:
            return [_timed(exporter, model, mode, seed) for model in models]
        finally:
            exporter.close()


def _timed(exporter: Exporter, model: str, mode: str, seed: int) -> float:
    artifact = exporter.artifact(model)
    exporter.reference(artifact, mode, 2, seed, "synthetic")
    start = time.perf_counter()
    exporter.reference(artifact, mode, 2, seed + 1, "synthetic")
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=["lenet", "resnet18", "mobilenet_v2"], metavar="MODEL")
    parser.add_argument("--mode", default="forward")
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    times: dict[tuple[int, str], list[list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="xbench-oracle-") as cache:
        os.environ["XBENCH_CACHE"] = cache
        for number in range(options.rounds):
            for busy in (0, options.busy):
                with busy_processes(busy):
                    for name, spins in SPINS.items():
                        seed = 2 * len(SPINS) * (2 * number + (busy > 0)) + 2 * [*SPINS].index(name)
                        times.setdefault((busy, name), []).append(seconds(options.models, options.mode, spins, seed))
    print(f"{'seconds':14} {'busy':>4} " + " ".join(f"{model:>14}" for model in options.models))
    for (busy, name), rounds in times.items():
        medians = [statistics.median(each) for each in zip(*rounds, strict=True)]
        print(f"{name:14} {busy:4} " + " ".join(f"{median:14.2f}" for median in medians))
    return 0


if __name__ == "__main__":
    sys.exit(main())
