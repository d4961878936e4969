"""What conversion costs: `python tools/measure/conversion_tax.py`.

Times a converted network, through the runtime that xbench times, against the same network written by hand in Keras,
Flax NNX and PyTorch (`handwritten/`). Before any timing the two must agree, in the logits or in the loss and
in every gradient; a cell that does not is printed as such. Both sides live in one process with the same threads and
alternate in blocks of random order; a ratio is the median over rounds of converted over hand-written.

Hand-written networks take images in the layout their framework prefers (channels last in Keras and Flax). Converted
ones take ONNX's and compute in the one that `--layout` names, by default the faster one; what they transpose at their
borders is in the clock. Arrays are on the device before the clock starts, results complete before it stops. Gradients
are dense.

`--json` writes the figures. Exit code 1 when the geometric mean or a cell is above its bound, or a cell disagrees.
"""

import argparse
import dataclasses
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xbench import models
from xbench.case import AUTO, LAYOUTS
from xbench.converters.artifact import Artifact
from xbench.host import machine
from xbench.runtimes import Options, Trainer, load
from xbench.stats.ratio import paired_ratio
from xbench.workers import timing

MEAN_BOUND, CELL_BOUND = 1.00, 1.05
BATCHES = {"resnet50": 4, "mobilenet_v2": 8, "vit_s16": 2, "gpt2": 1, "lstm_ptb": 16}
LENGTHS = {"gpt2": 64}  # tokens, if the benchmark's sequence is shorter than the zoo's
# The runtime on the converted side: the class on the other, and its extra arguments.
FRAMEWORKS: dict[str, tuple[str, tuple[bool, ...]]] = {
    "tensorflow": ("keras:Keras", (False,)),
    "tensorflow:xla": ("keras:Keras", (True,)),
    "jax": ("flax:Flax", ()),
    "torch": ("torch:Torch", (False,)),
    "torch_compile": ("torch:Torch", (True,)),
}
DEFAULT = ("tensorflow", "jax", "torch")
MODES = ("forward", "gradient")
LEAST = 5  # samples of a block
LOGITS, GRADIENTS = 1e-4, 2e-2  # relative distance allowed; rounding carries some ReLU across its kink in training
Step = Callable[[], Any]


def spec_of(network: str) -> models.ModelSpec:
    """The zoo's network, with the benchmark's shorter sequence if it has one."""
    spec = models.find(network)
    if length := LENGTHS.get(network):
        shorter = (dataclasses.replace(spec.inputs[0], shape=("batch", length)),)
        spec = dataclasses.replace(spec, inputs=shorter, labels=("batch", length))
    return spec


def export(network: str, folder: Path) -> None:
    from xbench.converters.build import export_zoo

    models.MODELS[network] = spec_of(network)
    export_zoo(network, 0, folder)


# ***** one cell, in its own process *****


def converted(word: str, folder: Path, mode: str, threads: int, layout: str) -> Trainer:
    artifact = Artifact.read(folder)
    if word.startswith("torch"):  # as for an ONNX file; a network of the zoo would be run as its own module
        artifact = dataclasses.replace(artifact, info={**artifact.info, "origin": "onnx"})
    runtime: Any = load(word, artifact, Options(mode, "cpu", threads, layout=layout))
    if word.startswith("torch"):
        apply = runtime.module.apply_program  # draws dropout in training regardless of `prepare`
        runtime.module.apply_program = lambda *arrays, training, rng: apply(*arrays, training=training, rng=None)
    return runtime


def step_of(runtime: Trainer, mode: str, given: list[np.ndarray], labels: np.ndarray) -> Step:
    xs, (ys,) = runtime.put(given), runtime.put([labels])

    def step() -> Any:
        result = runtime.forward(*xs) if mode == "forward" else runtime.gradients(xs, ys)
        runtime.wait(result)
        return result

    return step


def chosen(
    word: str, folder: Path, mode: str, options: argparse.Namespace, given: list[np.ndarray], labels: np.ndarray
) -> tuple[str, Trainer]:
    """The converted network in the requested layout, or in the faster one, as in `xbench time --layout`."""
    layouts = Artifact.read(folder).layouts if options.layout == AUTO else (options.layout,)
    runtimes = [converted(word, folder, mode, options.threads, layout) for layout in layouts]
    for runtime in runtimes:
        runtime.prepare(given, labels, dropout=False)
    if len(runtimes) == 1:
        return layouts[0], runtimes[0]
    medians = race([step_of(runtime, mode, given, labels) for runtime in runtimes])
    best = medians.index(min(medians))
    return layouts[best], runtimes[best]


def race(steps: list[Step], rounds: int = 7) -> list[float]:
    """The median of each step, after an untimed one; they take turns, so machine noise affects all alike."""
    samples = [[timing.sample([step], 0, 1)[0] for step in steps] for _ in range(rounds + 1)]
    return [statistics.median(each) for each in zip(*samples[1:], strict=True)]


def distance(a: np.ndarray, b: np.ndarray, least: float = 0.0) -> float:
    return float(np.linalg.norm(np.float64(a) - b) / max(np.linalg.norm(np.float64(b)), least))


def disagreement(mode: str, network: Any, mine: Any, runtime: Trainer, answer: Any) -> dict[str, Any]:
    """The worst distance, the tensor it is in, and whether it is within the bound."""
    if mode == "forward":
        logits = np.asarray(mine[0] if isinstance(mine, tuple) else mine)
        errors, bound = {"logits": distance(logits, runtime.get(answer)[0])}, LOGITS
    else:
        loss, gradients = runtime.fetch(answer)
        # Some gradients are zero except for rounding: of the keys' bias, of a bias whose only reader is normalised.
        pairs, bound = network.pairs(mine, gradients), GRADIENTS
        least = 1e-3 * max(float(np.linalg.norm(b)) for _, _, b in pairs)
        errors = {name: distance(a, b, least) for name, a, b in pairs}
        errors["loss"] = abs(float(mine[0]) - loss) / abs(loss) * bound / LOGITS
    worst = max(errors, key=lambda name: errors[name])
    return {"worst": worst, "distance": errors[worst], "tensors": len(errors), "agrees": errors[worst] <= bound}


def block(step: Step, seconds: float, number: int) -> dict[str, Any]:
    """Samples of one side, after an untimed step, as the caches hold the other's data; not if a step outlasts a block.

    A block has at least LEAST samples: one in ten steps that return hundreds of megabytes takes twice its time.
    """
    cpu = time.process_time()
    samples = timing.sample([step], 0, 1)
    if samples[0] < seconds:
        cpu = time.process_time()
        samples = timing.sample([step], max(seconds, LEAST * samples[0]), 10_000)
    cpu = (time.process_time() - cpu) / len(samples)
    return {"round": number, "samples": samples, "cpu": cpu}


def measure(hand: Step, generated: Step, rounds: int, seconds: float) -> dict[str, Any]:
    """Blocks of the two in random order. The ratio of CPU times is also given: other processes disturb it less."""
    rng = np.random.default_rng(0)
    sides: dict[str, tuple[Step, list[dict[str, Any]]]] = {"hand": (hand, []), "converted": (generated, [])}
    for step, _ in sides.values():
        timing.warm([step], 2 * seconds + 1)
    for number in range(rounds):
        for name in rng.permutation([*sides]):
            step, blocks = sides[str(name)]
            blocks.append(block(step, seconds, number))
    kept = {name: blocks for name, (_, blocks) in sides.items()}
    ratio = paired_ratio(kept["converted"], kept["hand"], rng)
    times = {f"{name}_s": float(np.median([s for b in blocks for s in b["samples"]])) for name, blocks in kept.items()}
    cpu = {name: float(np.median([b["cpu"] for b in blocks])) for name, blocks in kept.items()}
    return {**times, "ratio": ratio.value, "low": ratio.low, "high": ratio.high, "cpu": cpu["converted"] / cpu["hand"]}


def cell(word: str, network: str, mode: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Build both sides, prove that they agree, and time them."""
    inputs, labels = models.sample(spec_of(network), options.batch or BATCHES[network], 0)
    given = [*inputs.values()]
    layout, runtime = chosen(word, folder, mode, options, given, labels)  # first: it sets the framework's threads
    entry, extra = FRAMEWORKS[word]
    module, _, name = entry.partition(":")
    program = Artifact.read(folder).program()
    source, first = {**program.params, **program.state}, given[:1] if module == "keras" else []
    arguments = (network, source, *([first] if first else []), *extra)
    written = getattr(importlib.import_module(f"handwritten.{module}"), name)(*arguments)
    x, y = written.put(given, labels)

    def hand() -> Any:
        return written.forward(*x) if mode == "forward" else written.gradients(x, y)

    generated = step_of(runtime, mode, given, labels)
    agreement = disagreement(mode, written, hand(), runtime, generated())
    facts = {"framework": word, "network": network, "mode": mode, "batch": len(labels), "layout": layout, **agreement}
    facts["parameters"] = [written.parameters(), sum(a.size for a in program.params.values())]
    return facts | (measure(hand, generated, options.rounds, options.seconds) if agreement["agrees"] else {})


# ***** all cells *****


def child(options: argparse.Namespace, folder: Path, network: str, word: str, mode: str) -> dict[str, Any]:
    """Run this file for one cell (or for the export, if `word` names it) and read its last line."""
    command = [sys.executable, __file__, "--child", str(folder), "--network", network]
    command += [] if word == "export" else ["--framework", word, "--mode", mode]
    command += ["--rounds", str(options.rounds), "--seconds", str(options.seconds), "--threads", str(options.threads)]
    command += ["--layout", options.layout]
    command += ["--batch", str(options.batch)] if options.batch else []
    quiet = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    environment = {**os.environ, **quiet, "OMP_NUM_THREADS": str(options.threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"framework": word, "network": network, "mode": mode, "error": reason}
    return json.loads(done.stdout.strip().splitlines()[-1])


def as_child(options: argparse.Namespace) -> int:
    cpus = sorted(os.sched_getaffinity(0))[: options.threads]
    os.sched_setaffinity(0, cpus)  # XLA takes a thread for every CPU it may use
    (network,) = options.network
    if not options.framework:
        export(network, options.child)
        print("{}")
        return 0
    (word,), (mode,) = options.framework, options.mode
    print(json.dumps(cell(word, network, mode, options.child, options)))
    return 0


def line(row: dict[str, Any]) -> str:
    name = f"{row['framework']:15} {row['network']:13} {row['mode']:9} {row.get('layout', ''):6}"
    if "ratio" in row:
        times = f"{row['hand_s'] * 1e3:9.2f} {row['converted_s'] * 1e3:9.2f}"
        low, high = (math.nan if end is None else end for end in (row["low"], row["high"]))
        return f"{name} {times} {row['ratio']:7.3f} [{low:.3f}, {high:.3f}] {row['cpu']:7.3f}"
    reason = row.get("error") or f"not timed: {row['worst']} is {row['distance']:.1e} apart"
    return f"{name} {reason}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", nargs="+", choices=BATCHES, default=[*BATCHES])
    parser.add_argument("--framework", nargs="+", choices=FRAMEWORKS, help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--mode", nargs="+", choices=MODES, default=[*MODES])
    parser.add_argument("--batch", type=int, help=f"default: {BATCHES}")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each block")
    parser.add_argument("--threads", type=int, default=machine.cpus())
    parser.add_argument("--layout", choices=LAYOUTS, default=AUTO, help="of the converted network, see xbench time")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.child:
        return as_child(options)
    rows: list[dict[str, Any]] = []
    print(
        f"{'framework':15} {'network':13} {'mode':9} layout {'hand ms':>9} {'conv. ms':>9} {'ratio':>7} "
        "[95 % interval] CPU"
    )
    for network in options.network:
        with tempfile.TemporaryDirectory(prefix="xbench-tax-") as folder:
            if error := child(options, Path(folder), network, "export", "").get("error"):
                raise SystemExit(f"cannot export {network}: {error}")
            for word in options.framework or DEFAULT:
                for mode in options.mode:
                    rows.append(child(options, Path(folder), network, word, mode))
                    print(line(rows[-1]), flush=True)
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    above = [row for row in rows if not row.get("ratio", math.inf) <= CELL_BOUND]
    within = mean <= MEAN_BOUND and not above
    print(f"geometric mean {mean:.3f} of {len(ratios)} cells, {len(above)} above {CELL_BOUND} or not timed: ", end="")
    print("within the bounds" if within else "OUTSIDE the bounds")
    if options.json:
        figures = {"cells": rows, "mean": mean, "within": within, "machine": machine.describe()}
        options.json.write_text(json.dumps(figures, indent=1))
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
