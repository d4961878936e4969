"""Stores for tests: records as in docs/results.md, the same every time, without a framework.

`record` is one cell, `suite` all cells of some networks on some runtimes, `write` puts records into a folder.
"""

import itertools
import json
import math
import shlex
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xbench.case import Case, digest
from xbench.store.results import FILE, VERSION, encode

MACHINE = {
    "cpu": "AMD EPYC",
    "cpus": 2,
    "governor": None,
    "memory_bytes": 25_276_514_304,
    "load": [0.1, 0.1, 0.1],
    "os": "Linux-6.1-x86_64",
    "python": "3.11.7",
}
NATIVE = ("torch", "torch_compile", "tensorflow", "jax")
SPEED = {"openvino": 1.0, "onnxruntime": 1.2, "torch_compile": 1.9, "torch": 2.6, "jax": 6.0, "tensorflow": 4.0}
START = {"openvino": 0.5, "onnxruntime": 0.2, "torch_compile": 17.0, "torch": 1.0, "jax": 1.5, "tensorflow": 4.0}
MODES = {"forward": 1.0, "gradient": 3.0, "step": 3.3}  # how many times as long as a forward pass
MESSAGES = {
    "FAIL": "output/relu_3 is 40 % off at [0, 3]: 512 noise floors",
    "UNVERIFIED": "float32 itself loses too much",
    "UNSUPPORTED": "no operator LSTM (2)",
    "CRASH": "the worker ended: Segmentation fault",
}


def record(
    model: str = "lenet",
    runtime: str = "torch",
    *,
    mode: str = "forward",
    batch: int = 1,
    median: float = 0.01,
    status: str = "PASS",
    blocks: int = 8,
    **fields: Any,
) -> dict[str, Any]:
    """The record of a cell whose steps took about `median` seconds. Fields of the case (`device`, `threads`,
    `precision`, ...) and of the record (`session`, `note`, ...; `parity`, `times` and `cost` add to what is there) by
    keyword."""
    places = {name: fields.pop(name) for name in Case.__dataclass_fields__ if name in fields}
    case = {"model": model, "runtime": runtime, "mode": mode, "batch": batch, "threads": 2, **places}
    case = vars(Case(**case))
    rng = np.random.default_rng(zlib.crc32(json.dumps(case, sort_keys=True).encode()))
    passed = status == "PASS"
    made: dict[str, Any] = {
        "schema": VERSION,
        "key": digest(case),
        "case": case,
        "status": status,
        "message": MESSAGES.get(status),
        "note": "untuned" if runtime == "tvm" else None,
        "autodiff": None if mode == "forward" else "native" if runtime.split(":")[0] in NATIVE else "graph",
        "dropout": False,
        "layout": None,
        "tuning": None,
        "parity": parity(status, mode, rng) if status in ("PASS", "FAIL", "UNVERIFIED") else None,
        "contracts": None,
        "audit": None,
        "times": times(median, START.get(runtime, 2.0), blocks, rng) if passed else None,
        "cost": cost(median, mode, batch, rng) if passed else None,
        "session": "s1",
        "artifact": digest(model),
        "macs": 2_293_000,
        "versions": {runtime.split(":")[0]: "1.0", "numpy": "2.4.6", "xbench": "0.1.0"},
        "machine": dict(MACHINE),
        "command": f"xbench time {shlex.quote(model)} --runtime {shlex.quote(runtime)} --mode {mode} --batch {batch} "
        f"--threads {case['threads']} --rerun",
        "time": "2026-11-23T18:59:26Z",
    }
    for name, value in fields.items():
        both = isinstance(value, dict) and isinstance(made.get(name), dict)
        made[name] = made[name] | value if both else value
    return made


def parity(status: str, mode: str, rng: np.random.Generator) -> dict[str, Any]:
    """The result of the proof: up to a few noise floors if it passed, hundreds if it failed."""
    wrong = status == "FAIL"
    ratio = float(rng.uniform(300, 900) if wrong else rng.uniform(0.5, 4))
    kind = {"forward": "output", "gradient": "gradient", "step": "weight"}[mode]
    return {
        "status": status,
        "worst_tensor": f"{kind}/{'relu_3' if wrong else 'linear_1'}",
        "ratio": ratio,
        "tensors": {"forward": 1, "gradient": 10, "step": 30}[mode],
        "rel_l2": ratio * 6e-7,
        "message": None,
        "first_wrong": f"{kind}/relu_3" if wrong else None,
        "steps": 2 if mode == "step" else 0,
        "class": "wrong" if wrong else "fp32" if status == "PASS" else None,
        "seeds": [0.9 * ratio, ratio],
    }


def times(median: float, start: float, blocks: int, rng: np.random.Generator) -> dict[str, Any]:
    """Times with `blocks` rounds of four samples that scatter by a per cent, with an upper tail."""
    drawn = median * (1 + 0.01 * rng.standard_normal((blocks, 4)) + 0.02 * (rng.random((blocks, 4)) > 0.9))
    health = dict.fromkeys(("steal", "others", "waited", "throttled", "clock_hz", "celsius", "load", "gpu"))
    return {
        "load_s": 0.2 * start,
        "compile_s": 0.3 * start,
        "first_s": 0.5 * start,
        "anew_s": 0.5 * start,
        "median_s": float(np.median(drawn)),
        "low_s": float(np.median(drawn)) * 0.99,
        "high_s": float(np.median(drawn)) * 1.01,
        "converged": True,
        "drift": 0.0,
        "resemblance": 0.0,
        "processes": [{"load_s": 0.2 * start, "compile_s": 0.3 * start, "first_s": 0.5 * start, "anew_s": 0.5 * start}],
        "blocks": [
            {
                "round": number,
                "process": 0,
                "samples": [float(value) for value in samples],
                "lead": [],
                "health": {**health, "wall_s": float(samples.sum())},
                "disturbed": None,
            }
            for number, samples in enumerate(drawn)
        ],
        "repeated": [],
        "cpus": 1.9,
    }


def cost(median: float, mode: str, batch: int, rng: np.random.Generator) -> dict[str, Any]:
    return {
        "peak_memory_bytes": int(rng.uniform(90, 700)) << 20,
        "peak_memory_of": "steps",
        "references_bytes": 352,
        "device_memory_bytes": None,
        "energy_j": None,
        "artifact_bytes": 1_734_704,
        "parameter_bytes": 1_724_320,
        "convert_s": 2.6,
        "flop": 2 * 2_293_000 * batch * (1 if mode == "forward" else 3),
        "bytes": 1_730_672 + 6_288 * batch,
        "peak_flops": 2.06e11,
        "bandwidth": 3.2e10,
    }


def suite(
    models: Sequence[str] = ("lenet", "resnet50"),
    runtimes: Sequence[str] = tuple(SPEED),
    modes: Sequence[str] = ("forward", "step"),
    batches: Sequence[int] = (1, 8),
    *,
    blocks: int = 8,
    **fields: Any,
) -> list[dict[str, Any]]:
    """All cells. Networks differ in their time, a batch costs less than as many samples, a few cells do not pass."""
    made = []
    for (place, model), mode, batch, runtime in itertools.product(enumerate(models), modes, batches, runtimes):
        step = 1e-3 * (1 + place) ** 1.5 * MODES[mode] * SPEED.get(runtime.split(":")[0], 3.0) * batch**0.8
        odd = zlib.crc32(f"{model} {mode} {runtime}".encode()) % 23
        status = {0: "FAIL", 1: "UNSUPPORTED", 2: "UNVERIFIED"}.get(odd, "PASS")
        made.append(record(model, runtime, mode=mode, batch=batch, median=step, status=status, blocks=blocks, **fields))
    return made


def ten_thousand() -> list[dict[str, Any]]:
    """As many cells as a report must handle: forty networks on seven runtimes."""
    models = [f"network_number_{number}" for number in range(40)]
    batches = [2**power for power in range(12)]
    return suite(models, (*SPEED, "tvm"), tuple(MODES), batches, blocks=3)[:10_000]


def spread_out(count: int, networks: int, cells: int, **fields: Any) -> list[dict[str, Any]]:
    """Many records of many networks in groups of few cells; if a network has several groups they differ in mode, batch
    and threads."""
    made = []
    for place in range(count):
        group, cell = divmod(place, cells)
        turn, network = divmod(group, networks)
        turn, power = divmod(turn, 12)
        threads, mode = divmod(turn, len(MODES))
        runtime = tuple(SPEED)[cell if cells > 1 else group % len(SPEED)]
        rest = {"mode": tuple(MODES)[mode], "batch": 2**power, "threads": threads + 1, "blocks": 3}
        status = {0: "FAIL", 1: "UNSUPPORTED", 2: "UNVERIFIED"}.get(group * 7 % 23 + cell, "PASS")
        made.append(record(f"network_number_{network}", runtime, **{"status": status, **rest, **fields}))
    return made


def training(model: str = "lenet", runtime: str = "torch", *, steps: int = 60, **fields: Any) -> dict[str, Any]:
    """A record of `training.jsonl`: two epochs of a loss that falls."""
    made = record(model, runtime, mode="step", batch=64, times=None, cost=None, data="digits", **fields)
    losses = [2.3 * math.exp(-3 * step / steps) + 0.01 * (step % 3) for step in range(steps)]
    made["training"] = {
        "epochs": 2,
        "batch": 64,
        "seed": 0,
        "train_samples": 64 * steps // 2,
        "test_samples": 100,
        "content": "0123456789abcdef",
        "losses": losses,
        "proof_steps": 20,
        "oracle_losses": losses[:20],
        "first_wrong_step": None,
        "train_accuracy": [0.8, 0.95],
        "test_accuracy": [0.75, 0.93],
        "epoch_s": [1.5, 0.5],
        "usage": [
            {"steps": steps // 4, "seconds": 0.5, "joules": 12.5, "peak_bytes": 300_000_000 + n, "device_bytes": None}
            for n in range(4)
        ],
    }
    made["command"] = f"xbench train {shlex.quote(model)} --data digits --runtime {shlex.quote(runtime)} --epochs 2"
    return made


def phases(model: str = "lenet", runtime: str = "torch", **fields: Any) -> dict[str, Any]:
    """A record of `phases.jsonl`."""
    made = record(model, runtime, mode="step", batch=64, times=None, cost=None, **fields)
    means = {"t_io": 1e-4, "t_h2d": 5e-5, "t_f": 1e-3, "t_b": 2e-3, "t_u": 3e-4, "t_step": 3.3e-3, "t_iter": 3.6e-3}
    values = {name: {"mean": mean, "std": mean / 20} for name, mean in (means | {"other": 1.5e-4}).items()}
    made["phases"] = {**values, "rounds": []} if made["status"] == "PASS" else None
    made["command"] = f"xbench phases {shlex.quote(model)} --runtime {shlex.quote(runtime)} --batch 64"
    return made


def write(folder: Path, records: Iterable[dict[str, Any]], file: str = FILE) -> Path:
    """Write the records into a file of the folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(b"".join(encode(each) for each in records))
    return folder
