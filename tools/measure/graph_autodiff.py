"""What training without autodiff costs: `python tools/measure/graph_autodiff.py`.

Times complete training steps of ONNX Runtime and OpenVINO, which run the graph of the step
(`converters/autodiff/train_step.py`), against eager PyTorch, with images in ONNX's order and channels last. All four
are first proved equal to the float64 oracle, and timed by `xbench time`'s own session: one process each, the same
threads, blocks interleaved in random order. A ratio is the median over rounds to the faster PyTorch. Exit code 1 if
one is above 1.0 or a cell fails.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from xbench.case import Case
from xbench.experiments.session import Protocol, run
from xbench.host import machine
from xbench.stats.ratio import paired_ratio
from xbench.workers.prepare import Exporter

BOUND = 1.0
BATCHES = {"resnet50": 4, "cifar_vgg": 64}
CELLS = (("torch", "nchw"), ("torch", "nhwc"), ("onnxruntime", "nchw"), ("openvino", "nchw"))


def measured(network: str, batch: int, options: argparse.Namespace, exporter: Exporter) -> list[dict[str, Any]]:
    cases = [Case(network, runtime, "step", batch, threads=options.threads, layout=layout) for runtime, layout in CELLS]
    protocol = Protocol(budget=options.budget, target=0.01)
    say = lambda line: print(f"  {network}: {line}", file=sys.stderr)  # noqa: E731
    records = list(run(cases, exporter.artifact(network), exporter, protocol, exporter.logs, say))
    passed = [record for record in records if record["status"] == "PASS"]
    references = [r for r in passed if r["case"]["runtime"] == "torch"]
    best = min(references, key=lambda record: record["times"]["median_s"], default=None)
    rows = []
    for record in records:
        row = {**record["case"], "status": record["status"], "message": record.get("message")}
        if record["status"] == "PASS" and best:
            blocks = record["times"]["blocks"], best["times"]["blocks"]
            row["median_s"] = record["times"]["median_s"]
            row["ratio"] = paired_ratio(*blocks, np.random.default_rng(0)).value if record is not best else 1.0
        rows.append(row)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=list(BATCHES))
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of sampling a cell")
    parser.add_argument("--threads", type=int, default=machine.cpus())
    parser.add_argument("--json", type=Path, help="a file for the figures")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as logs:
        exporter = Exporter(Path(logs))
        for network in options.networks:
            rows += measured(network, BATCHES.get(network, 2), options, exporter)
        exporter.close()
    for row in sorted(rows, key=lambda row: (row["model"], row.get("ratio", 0))):
        name = f"{row['model']} (batch {row['batch']}) {row['runtime']} {row['layout']}"
        shown = f"{row['median_s'] * 1e3:8.1f} ms  {row['ratio']:.3f}" if "ratio" in row else row["message"] or ""
        print(f"{name:45} {row['status']}  {shown}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    graph = [row for row in rows if row["runtime"] != "torch"]
    bad = [row for row in graph if row.get("ratio", np.inf) > BOUND]
    print("within the bound" if not bad else f"{len(bad)} of {len(graph)} above {BOUND}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
