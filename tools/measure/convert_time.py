"""How convert time grows with the graph, and what ResNet-50 takes: `python tools/measure/convert_time.py`.

1. ONNX files of 500 to 8,000 nodes go the way of `xbench convert model.onnx`: read and checked, brought to our opset,
   cleaned, printed, written. The exponent of time against nodes is that of a straight line through the logarithms.
   Time is the process's own on the CPU: all of it is one thread that computes, and the machine may be shared.
   What PyTorch's exporter takes for a module of so many layers is shown (`--module`), and is not ours.
2. `--resnet50`: `xbench check resnet50 --mode forward` on every runtime, with a cache that is empty.

`--json FILE` keeps the figures. Exit code 1 when a bound is missed (exponent 1.1; 90 s).
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from xbench.converters import build, write
from xbench.converters.frontends import pytorch as exporter
from xbench.converters.source import parse
from xbench.host import machine

SIZES = (500, 1000, 2000, 4000, 8000)
EXPONENT_BOUND, RESNET_BOUND = 1.1, 90.0
CHANNELS, SIDE = 8, 6
STAGES = {  # the calls of `build.export_file`, in its order
    "read": (build, "read"),
    "canonical": (build, "canonical"),
    "clean": (exporter, "clean"),
    "print": (write, "convert"),
    "save": (write.ir, "save"),
    "macs": (write.macs, "count"),
}


def nodes_of(block: int, x: str, weights: dict[str, np.ndarray]) -> Iterator[onnx.NodeProto]:
    """A residual block and, as tracers write it, a reshape to a shape computed from the input's shape, and back."""
    number = iter(range(100))

    def node(op: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, inputs, [f"b{block}_{next(number)}_{op.lower()}"], **attributes)

    def weight(name: str, *shape: int) -> str:
        full = f"b{block}.{name}"
        weights[full] = np.random.default_rng(block).uniform(0.1, 1, shape).astype(np.float32)
        return full

    def convolution(source: str, name: str) -> list[onnx.NodeProto]:
        conv = node("Conv", source, weight(f"{name}.conv", CHANNELS, CHANNELS, 3, 3), pads=[1, 1, 1, 1])
        statistics_ = [weight(f"{name}.{part}", CHANNELS) for part in ("scale", "bias", "mean", "var")]
        return [conv, node("BatchNormalization", conv.output[0], *statistics_)]

    first = convolution(x, "first")
    relu = node("Relu", first[-1].output[0])
    second = convolution(relu.output[0], "second")
    added = node("Add", second[-1].output[0], x)
    shape = node("Shape", added.output[0])
    zero, rest = node("Constant", value_ints=[0]), node("Constant", value_ints=[CHANNELS * SIDE * SIDE])
    batch = node("Gather", shape.output[0], zero.output[0])
    target = node("Concat", batch.output[0], rest.output[0], axis=0)
    rows = node("Reshape", added.output[0], target.output[0])
    scaled = node("Mul", rows.output[0], weight("factor", CHANNELS * SIDE * SIDE))
    back = node("Constant", value_ints=[0, CHANNELS, SIDE, SIDE])
    yield from (*first, relu, *second, added, shape, zero, rest, batch, target, rows, scaled, back)
    yield node("Reshape", scaled.output[0], back.output[0])


def write_model(path: Path, count: int) -> None:
    """Write a graph of `count` nodes: blocks, and ReLUs for the rest."""
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {}
    last = "x"
    while True:
        block = list(nodes_of(len(nodes), last, weights))
        if len(nodes) + len(block) > count:
            break
        nodes += block
        last = nodes[-1].output[0]
    for index in range(count - len(nodes)):
        nodes.append(helper.make_node("Relu", [last], [f"relu{index}"]))
        last = nodes[-1].output[0]
    shape = ["batch", CHANNELS, SIDE, SIDE]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", last)]
    used = {name for node in nodes for name in node.input}
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items() if name in used]
    graph = helper.make_graph(nodes, "blocks", values[:1], values[1:], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)


class Stages:
    """Counts the seconds inside the functions of `STAGES` while it is open."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.kept = {name: getattr(*place) for name, place in STAGES.items()}

    def __enter__(self) -> "Stages":
        for name, (module, attribute) in STAGES.items():
            setattr(module, attribute, self.timed(name, self.kept[name]))
        return self

    def __exit__(self, *_: object) -> None:
        for name, (module, attribute) in STAGES.items():
            setattr(module, attribute, self.kept[name])

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[name] += time.process_time() - start

        return call


def convert_once(path: Path) -> dict[str, float]:
    """Seconds of each stage of one conversion, and in total."""
    with tempfile.TemporaryDirectory() as folder, Stages() as stages:
        start = time.process_time()
        build.export_file(parse(str(path)), path, Path(folder))
        total = time.process_time() - start
    taken = {name: stages.seconds[name] for name in STAGES}
    return {**taken, "other": total - sum(taken.values()), "total": total}


def exponent(sizes: list[int], seconds: list[float]) -> float:
    slope, _ = np.polyfit([math.log(n) for n in sizes], [math.log(max(s, 1e-6)) for s in seconds], 1)
    return float(slope)


def growth(sizes: list[int], repeats: int) -> dict[str, Any]:
    """The fastest of several conversions at every size, rounds interleaved, and the exponent of every stage."""
    runs: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    with tempfile.TemporaryDirectory() as folder:
        paths = {size: Path(folder) / f"{size}.onnx" for size in sizes}
        for size, path in paths.items():
            write_model(path, size)
        convert_once(paths[sizes[0]])  # imports
        for _ in range(repeats):
            for size, path in paths.items():
                runs[size].append(convert_once(path))
    best = {size: min(rows, key=lambda row: row["total"]) for size, rows in runs.items()}
    names = list(best[sizes[0]])
    return {
        "seconds": {size: best[size] for size in sizes},
        "exponents": {name: exponent(sizes, [best[size][name] for size in sizes]) for name in names},
    }


def module_seconds(layers: int) -> dict[str, float]:
    """The time of `export` for a PyTorch module of `layers` layers, and PyTorch's part of it."""
    import torch

    class Layers(torch.nn.Sequential):
        pass

    parts = [layer for _ in range(layers // 2) for layer in (torch.nn.Linear(8, 8), torch.nn.ReLU())]
    kept, spent = torch.onnx.export, [0.0]

    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.process_time()
        try:
            return kept(*arguments, **options)
        finally:
            spent[0] = time.process_time() - start

    torch.onnx.export = timed
    try:
        start = time.process_time()
        exporter.export(Layers(*parts), {"x": np.zeros((2, 8), np.float32)})
        return {"layers": layers, "total": time.process_time() - start, "torch": spent[0]}
    finally:
        torch.onnx.export = kept


def resnet50() -> dict[str, Any]:
    """Wall time of the user's command, nothing cached: export, references, every runtime's parity, one by one.

    On a shared machine the wall time includes other work; `cpu` does not, and half of it is the minimum on two cores.
    """
    with tempfile.TemporaryDirectory() as cache:
        xbench = str(Path(sys.executable).with_name("xbench"))
        command = [xbench, "check", "resnet50", "--mode", "forward", "--json"]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        environment = {**os.environ, "XBENCH_CACHE": cache}
        answer = Path(cache, "answer.json")
        with answer.open("w") as file:  # a pipe would fill up before the lines end
            process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.PIPE, text=True)
            assert process.stderr is not None
            lines = [(time.perf_counter() - start, line.strip()) for line in process.stderr]
            process.wait()
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        output = answer.read_text()
    statuses = {row["runtime"]: row["status"] for row in (json.loads(output) if output else [])}
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu": cpu, "statuses": statuses, "lines": lines}


def show(figures: dict[str, Any]) -> None:
    names = list(figures["exponents"])
    print(f"{'nodes':>8}" + "".join(f"{name:>11}" for name in names))
    for size, row in figures["seconds"].items():
        print(f"{size:>8}" + "".join(f"{row[name]:>10.3f}s" for name in names))
    print("exponent" + "".join(f"{figures['exponents'][name]:>11.2f}" for name in names))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--module", type=int, nargs="*", default=[], metavar="LAYERS", help="also export a module")
    parser.add_argument("--resnet50", action="store_true", help="this and nothing else")
    options = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine.describe()}
    if options.resnet50:
        figures["resnet50"] = row = resnet50()
        for moment, line in row["lines"]:
            print(f"{moment:>7.1f} s  {line}")
        took = f"{row['seconds']:.1f} s, {row['cpu']:.1f} s of the CPUs"
        print(f"resnet50 to {len(row['statuses'])} runtimes with parity: {took}; {machine.cpus()} cores")
        within = row["seconds"] < RESNET_BOUND and set(row["statuses"].values()) == {"PASS"}
    else:
        figures |= growth(options.sizes, options.repeats)
        show(figures)
        figures["module"] = [module_seconds(layers) for layers in options.module]
        for row in figures["module"]:
            own = row["total"] - row["torch"]
            print(f"module of {row['layers']} layers: {row['torch']:.1f} s in torch.onnx.export, {own:.1f} s in ours")
        within = figures["exponents"]["total"] <= EXPONENT_BOUND
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    print("within the bounds" if within else "OUTSIDE the bounds", file=sys.stderr)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
