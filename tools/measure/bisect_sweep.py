"""Does `xbench bisect` find a fault wherever it is? Plants one at a random node, fifty times over five networks.

    python tools/measure/bisect_sweep.py [--draws 50] [--seed 0] [--only 3,7] [--json FILE]

Half of the faults are forward, in ONNX Runtime's graph: a result or a weight 1 % too large, rounded to a 256th, negated
or transposed, a bias dropped, an attribute or an operator changed. Half are backward: the gradient through one node of
JAX's, 1 % too large or negated, or one gradient of ONNX Runtime's. A draw that float32 noise hides, or that changes
nothing, is no fault: it is counted and drawn again. A fault is found if its node is named, by a subgraph of at most
three nodes, and the script that comes with it exits with 1. FILE is written after every draw, and a draw that is in it
is not run again.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
import faulty

from xbench.case import Case
from xbench.converters.artifact import Artifact
from xbench.host import machine
from xbench.proof.bisect.run import bisect
from xbench.workers.prepare import Exporter

NETWORKS = ("lenet", "alexnet_cifar", "imdb_gru", "cifar_vgg", "resnet56_cifar")
HONEST = {"forward": ("onnxruntime", "openvino", "torch", "jax"), "gradient": ("torch", "onnxruntime")}
MOST = 3  # nodes of a part that counts as found


def tried(model: str, mode: str, artifact: Artifact, draw: random.Random, place: Path) -> dict[str, Any] | None:
    """One planted fault and its outcome; None if it is no fault."""
    word, name, operator = faulty.drawn(artifact, mode, draw)
    words = [draw.choice(HONEST[mode]), word]
    draw.shuffle(words)
    start, out = time.perf_counter(), Path(tempfile.mkdtemp(dir=place))
    cases = [Case(model, each, mode, 2, threads=machine.cpus()) for each in words]
    report = bisect(cases, 0, 900, out, place, lambda _: None)
    row = {"model": model, "mode": mode, "a": words[0], "b": words[1], "operator": operator, "planted": name}
    if not report["differs"]:
        print(f"no fault: {word} of {model}, {mode}", flush=True)
        return None
    node = report["node"] or {"inputs": [], "outputs": []}
    named = name in node["inputs" if operator == "parameter" else "outputs"]
    blamed = report["wrong"] == "ab"[words.index(word)]
    row |= {key: report[key] for key in ("tensor", "nodes_in_subgraph", "confirmed", "note")}
    row["script"] = ran(out) if report["confirmed"] else None
    row["found"] = named and blamed and 0 < report["nodes_in_subgraph"] <= MOST and row["script"] == 1
    return row | {"seconds": round(time.perf_counter() - start, 1)}


def ran(out: Path) -> int:
    """The exit code of the script, run without xbench."""
    command = "import runpy, sys; sys.modules['xbench'] = None; sys.path.insert(0, '.'); "
    command += "runpy.run_path('reproduce.py', run_name='__main__')"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    return subprocess.run([sys.executable, "-c", command], cwd=out, env=environment, capture_output=True).returncode


def line(number: int, row: dict[str, Any]) -> str:
    place = f"{row['model']:15} {row['mode']:8} {row['operator']:18} {row['planted']}"
    words = next(word for word in (row["a"], row["b"]) if word.startswith("faulty"))
    runtime, fault = words.partition(":")[0].removeprefix("faulty_"), words.rpartition("=")[2]
    size = f"{row['nodes_in_subgraph']} node{'s' * (row['nodes_in_subgraph'] != 1)}"
    outcome = "found" if row["found"] else f"NOT FOUND: {row['tensor']}, {row['note']}, script {row['script']}"
    return f"{number:3} {place:70} {runtime:5} {fault:10} {size:8} {row['seconds']:6.1f} s  {outcome}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="numbers of draws, between commas")
    parser.add_argument("--json", type=Path, help="a file for the figures, and to go on from")
    options = parser.parse_args()
    known = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    rows = {row["number"]: row for row in known}
    numbers = [int(n) for n in options.only.split(",")] if options.only else range(options.draws)
    with tempfile.TemporaryDirectory(prefix="xbench-sweep-") as folder:
        site = Path(folder, "site")
        site.mkdir()
        sys.path.insert(0, str(faulty.install(site)))
        os.environ["PYTHONPATH"] = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        exporter = Exporter(Path(folder))
        for number in (n for n in numbers if n not in rows):
            model = NETWORKS[number % len(NETWORKS)]
            mode = ("forward", "gradient")[number // len(NETWORKS) % 2]
            draw, row, drawn = random.Random(f"{options.seed}/{number}"), None, 0
            artifact = exporter.artifact(model)
            exporter.close()
            while row is None:
                with tempfile.TemporaryDirectory(dir=folder) as place:
                    row = tried(model, mode, artifact, draw, Path(place))
                drawn += 1
            rows[number] = {"number": number, "drawn": drawn, **row}
            print(line(number, row), flush=True)
            if options.json:
                options.json.write_text(json.dumps([rows[n] for n in sorted(rows)], indent=1))
    hits = [row for row in rows.values() if row["found"]]
    sizes = sorted(row["nodes_in_subgraph"] for row in rows.values())
    none = sum(row["drawn"] - 1 for row in rows.values())
    print(f"found {len(hits)} of {len(rows)}; {none} draws were no fault; parts of {sizes[0]} to {sizes[-1]} nodes")
    return int(len(hits) < len(rows))


if __name__ == "__main__":
    sys.exit(main())
