"""How much do two processes of the same program differ in their times, side by side and one after the other?

    python tools/measure/spread.py [--processes 6] [--rounds 12] [--sessions 6] [--json FILE]

Side by side: N processes of one cell take turns in rounds of blocks, as in `xbench time`; `process` is the standard
deviation of their medians, minus the part that rounds explain. One after the other: each cell is opened again in every
session; `session` is the standard deviation of the medians of those. Both in per cent. The last lines are xbench's
assumptions for unknown machines (`PROCESS`, `SESSION`, `FREEDOM` in stats/ratio.py): the standard deviation and the
degrees of freedom under which the column is likeliest (Smyth 2004).
"""

import argparse
import json
import math
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from xbench.case import Case
from xbench.experiments import session
from xbench.proof.record import base
from xbench.workers.prepare import Exporter

CELLS = (
    *(("lenet", runtime, "forward", 64) for runtime in ("torch", "torch_compile", "tensorflow", "jax", "onnxruntime")),
    *(("lenet", runtime, "forward", 64) for runtime in ("openvino", "tvm")),
    *(("lenet", runtime, "step", 64) for runtime in ("torch", "tensorflow", "jax", "onnxruntime", "openvino")),
    *(("cifar_vgg", runtime, "forward", 1) for runtime in ("torch", "jax", "onnxruntime", "openvino")),
    *(("lstm_ptb", runtime, "forward", 20) for runtime in ("torch", "tensorflow", "onnxruntime")),
)
PROTOCOL = session.Protocol(budget=1.0)


def opened(case: Case, artifact: Any, exporter: Exporter, logs: Path, number: int) -> Any:
    folder = logs / f"{case.runtime}-{number}"
    folder.mkdir(exist_ok=True)
    cell = session.warmed(case, base(case, artifact, "spread"), artifact, exporter, PROTOCOL, folder)
    if not isinstance(cell, session.Open):
        sys.exit(f"{case.model} {case.runtime} {case.mode}: {cell['status']}: {cell['message']}")
    return cell


def rounds_of(cells: list[Any], rounds: int) -> np.ndarray:
    """The logarithms of the block medians, processes x rounds."""
    order = [*cells]
    for number in range(rounds):
        random.shuffle(order)
        for cell in order:
            session.block(cell, number, PROTOCOL)
    for cell in cells:
        cell.worker.stop()
    by_cell = [sorted(cell.blocks + cell.repeated, key=lambda block: block["round"]) for cell in cells]
    return np.log([[np.median(block["samples"]) for block in blocks] for blocks in by_cell])


def between(logs: np.ndarray) -> tuple[float, float]:
    """The variance between processes minus the part that rounds explain; and that part. Medians, against outliers."""
    logs = logs - np.median(logs, axis=0)
    inside = logs - np.median(logs, axis=1, keepdims=True)
    noise = (1.4826 * float(np.median(np.abs(inside)))) ** 2 * math.pi / 2 / logs.shape[1]
    return float(np.var(np.median(logs, axis=1), ddof=1)) - noise, noise


def assumed(variances: list[float], noise: list[float], freedom: int) -> tuple[float, int]:
    """The standard deviation and the degrees of freedom that make these variances likeliest: divided by the expected
    variance, including the part that rounds explain, they have an F distribution."""
    from scipy.stats import f

    some, explained = np.array(variances), np.array(noise)

    def likelihood(sigma: float, worth: int) -> float:
        expected = sigma**2 + explained
        return float(np.sum(f.logpdf(some / expected, freedom, worth) - np.log(expected)))

    pairs = [(sigma, worth) for sigma in np.arange(0.002, 0.3, 0.0005) for worth in (1, 2, 3, 4, 6, 8, 12, 20, 50)]
    return max(pairs, key=lambda pair: likelihood(*pair))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--sessions", type=int, default=6)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        logs, cells = Path(folder), [Case(*cell) for cell in CELLS]
        exporter = Exporter(logs)
        try:
            models = {case.model: exporter.artifact(case.model) for case in cells}
            for number in range(options.sessions):
                for case in cells:
                    alone = opened(case, models[case.model], exporter, logs, number)
                    row = rows.setdefault(f"{case.model} {case.runtime} {case.mode}", {"sessions": []})
                    row["sessions"].append(float(np.median(rounds_of([alone], 6))))
            for case in cells:
                some = [opened(case, models[case.model], exporter, logs, n) for n in range(options.processes)]
                rows[f"{case.model} {case.runtime} {case.mode}"]["processes"] = rounds_of(some, options.rounds).tolist()
        finally:
            exporter.close()
    if options.json:
        options.json.write_text(json.dumps(rows))
    report(rows)


def report(rows: dict[str, dict[str, Any]]) -> None:
    print(f"{'':34} process %  rounds explain %  session %")
    processes, explained, sessions = [], [], []
    for name, row in rows.items():
        variance, noise = between(np.array(row["processes"]))
        processes.append(variance + noise)
        explained.append(noise)
        sessions.append(float(np.var(row["sessions"], ddof=1)))
        shown = [100 * math.sqrt(max(value, 0)) for value in (variance, noise, sessions[-1])]
        print(f"{name:34} {shown[0]:9.2f} {shown[1]:17.2f} {shown[2]:10.2f}")
    first = next(iter(rows.values()))
    for word, variances, noise, count in (
        ("process", processes, explained, len(first["processes"])),
        ("session", sessions, [0.0] * len(sessions), len(first["sessions"])),
    ):
        sigma, worth = assumed(variances, noise, count - 1)
        print(f"{word}: {100 * sigma:.2f} %, worth {worth} degrees of freedom")


if __name__ == "__main__":
    main()
