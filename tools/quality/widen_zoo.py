"""Which nodes of networks of the zoo must stay in float32, and what does the mixed network cost?

    python tools/quality/widen_zoo.py [--samples 256] [--max-drop 5%] [--scores] [--file FILE] NETWORK:RUNTIME...

The weights are random, so no answer is right: a network's labels are its own answers in float32, and the metric is how
many of them are kept; with --scores it is how near the scores are: one less their relative error. Its images are random
as well, blurred so that neighbours are alike. FILE gets a line per network and runtime, in JSON; with no NETWORK it is
printed as a table.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from scipy.ndimage import gaussian_filter

from xbench.workers.prepare import Exporter

BLUR = 4.0  # pixels
NEAR = """import numpy as np

def near(outputs, labels):
    return 1 - np.linalg.norm(outputs - labels, axis=1) / np.linalg.norm(labels, axis=1)
"""


def write_samples(network: str, count: int, path: Path, logs: Path, scores: bool = False) -> None:
    """Random images and the network's own answers, or its scores."""
    exporter = Exporter(logs)
    try:
        artifact = exporter.artifact(network)
    finally:
        exporter.close()
    (given,) = artifact.info["inputs"]
    rng = np.random.default_rng(0)
    images = gaussian_filter(rng.standard_normal((count, *given["shape"][1:])), (0, 0, BLUR, BLUR))
    images = (images / images.std(axis=(1, 2, 3), keepdims=True)).astype(np.float32)
    session = onnxruntime.InferenceSession(artifact.inference)
    made = np.concatenate([session.run(None, {given["name"]: images[n : n + 16]})[0] for n in range(0, count, 16)])
    np.savez(path, **{given["name"]: images, "label": made if scores else made.argmax(-1).astype(np.int64)})


def widened(network: str, runtime: str, count: int, drop: str, scores: bool, more: list[str]) -> dict[str, Any]:
    """The record of `xbench widen`."""
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples.npz"
        write_samples(network, count, samples, Path(folder), scores)
        metric = Path(folder) / "near.py"
        metric.write_text(NEAR)
        more = [*more, "--metric", f"{metric}:near"] if scores else more
        words = ["widen", network, "--inputs", str(samples), "--runtime", runtime, "--max-drop", drop, "--json", *more]
        command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", *words, "--out", folder]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        (record,) = json.loads(answer.stdout)
    found = record["widening"]
    facts = {"network": network, "runtime": runtime, "max_drop": drop, "samples": count, "scores": scores}
    facts |= {"status": record["status"], "message": record["message"], "cpu": record["machine"]["cpu"]}
    return facts | {name: found[name] for name in ("nodes", "points", "wide", "trials", "ended")}


def line(found: dict[str, Any]) -> str:
    """What was found, in words: the metric, and the time over that of float32."""
    full = next((each for each in found["points"][1:] if not each["wide"]), None)
    chosen = next((each for each in found["points"][1:] if each["wide"] == found["wide"]), None)
    of = "scores" if found["scores"] else "answers"
    head = f"{found['network']:14} {found['runtime']:12} {of:7} --max-drop {found['max_drop']:4}"
    if chosen is None or full is None:
        return f"{head} {found['status']}: {found['message']}"
    number = f"{len(found['wide'])} of {len(found['nodes'])} nodes in float32, {found['trials']} evaluations"
    return f"{head} {number}; int8 {_point(full)}; chosen {_point(chosen)}"


def _point(point: dict[str, Any]) -> str:
    if point["ratio"] is None:
        return f"{point['value']:.1%}, not timed"
    return f"{point['value']:.1%}, time {point['ratio']:.2f} ({point['ratio_low']:.2f} to {point['ratio_high']:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--max-drop", default="5%")
    parser.add_argument("--scores", action="store_true", help="compare the scores instead of the answers")
    parser.add_argument("--file", type=Path)
    parser.add_argument("--more", default="", help="further options of widen")
    parser.add_argument("networks", nargs="*")
    asked = parser.parse_args()
    for each in asked.networks:
        network, _, runtime = each.partition(":")
        found = widened(network, runtime, asked.samples, asked.max_drop, asked.scores, asked.more.split())
        print(line(found), flush=True)
        if asked.file:
            with asked.file.open("a") as file:
                file.write(json.dumps(found) + "\n")
    if asked.file and not asked.networks:
        for text in asked.file.read_text().splitlines():
            print(line(json.loads(text)))


if __name__ == "__main__":
    main()
