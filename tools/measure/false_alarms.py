"""Is a right runtime ever blamed? Checks every network on every runtime on many seeds.

    python tools/measure/false_alarms.py [MODEL ...] [--runtime R ...] [--mode M ...] [--seeds 100] --json FILE

Inputs and labels change with the seed; weights do not. A verdict of `xbench check` is the worst of two seeds, and if
they disagree in training a third decides: rounding may carry the input of a ReLU across its kink. So two counts are
printed: seeds that fail by themselves and, in training, verdicts of three seeds in a row that fail. The second are
false alarms. A seed on which float32 itself loses too much blames nobody, and is counted apart. FILE is written after
every network and mode, and what is in it is not run again. `false_alarms.json` has the results of `--seeds 30` by
the current rules, those of gradients since 2026-11-28; the script resumes from it.
"""

import argparse
import itertools
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from xbench import models
from xbench.case import STEPS, Case
from xbench.converters.artifact import Artifact
from xbench.experiments.choose import choose_runtimes
from xbench.host import machine
from xbench.proof.record import impossible
from xbench.workers.prepare import Exporter
from xbench.workers.worker import WorkerFailure, worker_of

BATCH, TIMEOUT = 2, 900.0
DISK = 4 * 2**30  # bytes of references on disk at once


def cell(case: Case, artifact: Artifact, paths: list[Path], log: Path) -> list[dict[str, Any]]:
    """The verdict on every reference, in one process of the runtime."""
    worker = worker_of(case, log, timed=False)
    try:
        request = {"artifact": str(artifact.folder), "runtime": case.runtime, "mode": case.mode, "device": case.device}
        request |= {"threads": case.threads, "layout": case.layout, "references": [str(paths[0])]}
        worker.call("open_cell", TIMEOUT, **request)
        return [worker.call("check_more", TIMEOUT, path=str(path)) for path in paths]
    finally:
        worker.stop()


def judged(
    cases: list[Case], artifact: Artifact, seeds: int, exporter: Exporter, folder: Path
) -> dict[str, list[dict[str, Any]] | str]:
    """Runtime -> its verdict on every seed, or why there is none; makes as many references at once as fit."""
    mode, results = cases[0].mode, {case.runtime: impossible(case, artifact) or [] for case in cases}
    numbers = [*range(seeds)]
    while numbers:
        paths: list[Path] = []
        while numbers and sum(path.stat().st_size for path in paths) < DISK:
            paths.append(exporter.reference(artifact, mode, BATCH, numbers.pop(0), "synthetic", STEPS))
        for case in cases:
            verdicts = results[case.runtime]
            try:
                if not isinstance(verdicts, str):
                    verdicts += cell(case, artifact, paths, folder / "worker.log")
            except WorkerFailure as failure:
                results[case.runtime] = f"{failure.status}: {failure.message}"
        for path in paths:
            path.unlink()
    return results


def row(case: Case, verdicts: list[dict[str, Any]] | str) -> dict[str, Any]:
    place = {"model": case.model, "mode": case.mode, "runtime": case.runtime}
    if isinstance(verdicts, str):
        return place | {"message": verdicts}
    unclear = [n for n, each in enumerate(verdicts) if each["status"] == "UNVERIFIED" and each["ratio"] is not None]
    clear = [(n, each["status"] == "PASS") for n, each in enumerate(verdicts) if n not in unclear]
    alone = [n for n, is_good in clear if not is_good]
    triples = [clear[n][0] for n in range(0, len(clear) - 2, 3) if sum(good for _, good in clear[n : n + 3]) < 2]
    ratios = sorted(math.inf if v["ratio"] is None else v["ratio"] for v in verdicts)
    alarms = alone if case.mode == "forward" else triples
    place |= {"seeds": len(verdicts), "failed_alone": alone, "false_alarms": alarms, "not_judged": unclear}
    return place | {"median": ratios[len(ratios) // 2], "worst": ratios[-1]}


def line(result: dict[str, Any]) -> str:
    if "message" in result:
        return f"{result['model']:15} {result['mode']:8} {result['runtime']:13} {result['message']}"
    head = f"{result['model']:15} {result['mode']:8} {result['runtime']:13} {result['seeds']:4} seeds"
    counts = f"{len(result['failed_alone']):2} fail alone, {len(result['false_alarms']):2} false alarms"
    if unclear := result.get("not_judged"):
        counts += f", {len(unclear)} not judged"
    return f"{head}, {counts}, median {result['median']:.1f}, worst {result['worst']:.1f} x noise"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=[*models.MODELS])
    parser.add_argument("--runtime", action="append", help="default: all that are installed")
    parser.add_argument("--mode", action="append", help="default: forward and gradient")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--json", type=Path, required=True, help="a file for the figures, and to go on from")
    options = parser.parse_args()
    targets = choose_runtimes(options.runtime)
    rows = json.loads(options.json.read_text()) if options.json.exists() else []
    known = {(r["model"], r["mode"], r["runtime"]): r for r in rows}
    with tempfile.TemporaryDirectory(prefix="xbench-alarms-") as folder:
        os.environ["XBENCH_CACHE"] = folder  # because references are deleted
        exporter = Exporter(Path(folder))
        for model, mode in itertools.product(options.models, options.mode or ("forward", "gradient")):
            words = [r for r in targets if (model, mode, r) not in known]
            cases = [Case(model, word, mode, BATCH, threads=machine.cpus()) for word in words]
            artifact = exporter.artifact(model)
            results = judged(cases, artifact, options.seeds, exporter, Path(folder)) if cases else {}
            for case in cases:
                known[model, mode, case.runtime] = row(case, results[case.runtime])
                print(line(known[model, mode, case.runtime]), flush=True)
            options.json.write_text(json.dumps([*known.values()], indent=1))
        exporter.close()
    alarms, alone = (sum(len(r.get(k, [])) for r in known.values()) for k in ("false_alarms", "failed_alone"))
    print(f"{sum(r.get('seeds', 0) for r in known.values())} checks: {alone} fail alone, {alarms} false alarms")
    return int(alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
