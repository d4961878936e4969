"""How clear is the verdict of `xbench bisect --like`? Right files, and files with one fault, and the distance of each
from the limits.

    python tools/quality/like_margins.py [NETWORK ...] [--kind K ...] [--seeds 0,1]

Networks, forms and faults: like_nets.py and like_plants.py. A line for each file: what was planted, what is named, its
share of the loss and its excess, which is compared with a limit (`parity/like/blame.py`). Of a right file, the largest
excess of those that have a share that is enough to be named. Then for each limit the largest excess in a right file and
the smallest of a fault that was named by it.

Exit code 1 if a fault is not named at its node, or a node of a right file is named.
"""

import argparse
import itertools
import logging
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import like_nets
from like_plants import KINDS, Trial, tried

from xbench.parity.like.blame import LEAST, LIMITS, SHARE
from xbench.workers.prepare import Exporter

Excess = tuple[str, float, float]  # its name, its value, the share of its source


def every(report: dict[str, Any]) -> list[Excess]:
    return [(n, v, each["share"]) for each in report["sources"] for n, v in each["excess"].items() if v is not None]


def largest(report: dict[str, Any]) -> Excess:
    """Of the sources with a share that may be named: the excess that is nearest to its limit."""
    known = [each for each in every(report) if each[2] >= LEAST]
    return max(known, key=lambda each: each[1] / LIMITS[each[0]], default=("none", 0.0, 0.0))


def named(report: dict[str, Any]) -> Excess:
    """The excess that the first node was named for."""
    fault = report["fault"]
    return max((each for each in every(report) if each[0] == fault and each[2] >= LEAST), key=lambda each: each[1])


def together(report: dict[str, Any]) -> float:
    """The share of the loss of all nodes that are named."""
    return float(sum(each["share"] for each in (report, *report["also"])))


def line(trial: Trial) -> str:
    words = trial.fault.words if trial.fault else "right"
    name, value, share = named(trial.report) if trial.report["named"] else largest(trial.report)
    outcome = "found" if trial.found else "WRONG"
    who = (trial.report["node"] or {"name": "nobody"})["name"]
    return f"{trial.network:17} {trial.form:9} {words:55.55} {outcome} {name:8} {value:8.2f} {share:5.0%} {who:.60}"


def margins(trials: list[Trial]) -> list[str]:
    """For each limit, the nearest of both sides."""
    right = [each for trial in trials if not trial.fault for each in every(trial.report) if each[2] >= LEAST]
    wrong = [named(trial.report) for trial in trials if trial.fault and trial.report["named"]]
    lines = []
    for name, limit in LIMITS.items():
        low = max((value for each, value, _ in right if each == name), default=None)
        high = min((value for each, value, _ in wrong if each == name), default=None)
        if low is not None or high is not None:
            sides = [f"{side:.2f}" if side is not None else "none" for side in (low, high)]
            lines.append(f"{name:8} limit {limit:4.1f}: right files up to {sides[0]}, faults from {sides[1]}")
    shares = [together(trial.report) for trial in trials if trial.fault and trial.report["named"]]
    return [*lines, f"share    limit {SHARE:4.0%}: faults from {min(shares, default=1):.0%}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=[*like_nets.NETWORKS])
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--seeds", default="0,1", help="of weights, forms and faults")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    trials = list[Trial]()
    with tempfile.TemporaryDirectory(prefix="xbench-like-") as place:
        exporter = Exporter(Path(place))
        seeds, kinds = map(int, options.seeds.split(",")), options.kind or KINDS
        for seed, kind, network in itertools.product(seeds, kinds, options.networks):
            folder = Path(place, f"{seed} {kind} {network}")
            folder.mkdir()
            try:
                trials.append(tried(network, kind, exporter, folder, seed))
                print(line(trials[-1]), flush=True)
            except LookupError as error:
                print(error, flush=True)
        exporter.close()
    print(*margins(trials), sep="\n")
    found, count = sum(each.found for each in trials), len(trials)
    print(f"{found} of {count} right: the fault is named at its node, or nobody in a right file")
    return int(found < count)


if __name__ == "__main__":
    sys.exit(main())
