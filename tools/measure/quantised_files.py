"""Is a quantised file that is wrong found, and is one that is right ever blamed?

    python tools/measure/quantised_files.py [NETWORK ...] [--form F ...] [--runtime R ...] [--seeds 100] --json FILE

Ten small networks, quantised by ONNX Runtime's own tools in four forms. First each scale, zero point, axis and range of
each file is changed by 2, 5, 10 and 25 %, and ONNX Runtime runs the changed file without fused kernels: a change that
moves the outputs by more than 1 % on both of two seeds must FAIL. If the mean of a few integers is rounded to an
integer, exact ties are common and right kernels take either side: a change that moves the outputs by less than these
ties is counted separately. Then the right files are checked on many seeds, also with ONNX Runtime's fused kernels:
failures are listed by runtime. FILE is written after each file, and what is in it is not run again.
"""

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from torch import nn
from torch.nn import functional

from xbench.converters.artifact import Artifact
from xbench.parity import calls, candidate, oracle, verdict
from xbench.runtimes import Options, load
from xbench.workers.prepare import Exporter

BATCH, SHARES, MOVED = 4, (0.02, 0.05, 0.1, 0.25), 0.01
IMAGE, VECTORS, SEQUENCE = (3, 16, 16), (4, 48), (12, 32)
Reference = tuple[Sequence[np.ndarray], dict[str, np.ndarray]]  # inputs, and their reference values


def conv(inputs: int, outputs: int, stride: int = 1, groups: int = 1, size: int = 3) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups)


class Sum(nn.Module):
    """A module's output plus its input."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.part = nn.Sequential(*parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.part(x)


class Concat(nn.Module):
    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([part(x) for part in self.parts], 1)


class Gate(nn.Module):
    """Squeeze and excite."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = conv(width, width // 2, size=1), conv(width // 2, width, size=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = functional.adaptive_avg_pool2d(x, 1)
        return x * functional.hardsigmoid(self.up(torch.relu(self.down(mean))))


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out, self.width = nn.Linear(width, 3 * width), nn.Linear(width, width), width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        return x + self.out((q @ k.transpose(-1, -2) / self.width**0.5).softmax(-1) @ v)


class Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


def head(width: int) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 10)


NETWORKS: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "plain": (
        IMAGE,
        lambda: nn.Sequential(
            conv(3, 8), nn.ReLU(), nn.MaxPool2d(2), conv(8, 16), nn.ReLU(), nn.MaxPool2d(2), *head(16)
        ),
    ),
    "residual": (IMAGE, lambda: nn.Sequential(conv(3, 8, 2), nn.ReLU(), Sum(conv(8, 8)), nn.ReLU(), *head(8))),
    "deep": (
        IMAGE,
        lambda: nn.Sequential(
            conv(3, 8), nn.ReLU(), *(Sum(conv(8, 8), nn.ReLU(), conv(8, 8)) for _ in range(3)), *head(8)
        ),
    ),
    "depthwise": (
        IMAGE,
        lambda: nn.Sequential(
            conv(3, 8, 2), nn.ReLU6(), conv(8, 8, groups=8), nn.ReLU6(), conv(8, 16, size=1), nn.ReLU6(), *head(16)
        ),
    ),
    "concat": (
        IMAGE,
        lambda: nn.Sequential(Concat(conv(3, 4, size=1), conv(3, 8), conv(3, 4, size=5)), nn.ReLU(), *head(16)),
    ),
    "gate": (
        IMAGE,
        lambda: nn.Sequential(conv(3, 8, 2), nn.Hardswish(), Gate(8), conv(8, 8), nn.Hardswish(), *head(8)),
    ),
    "norm": (IMAGE, lambda: nn.Sequential(conv(3, 8), nn.BatchNorm2d(8), nn.LeakyReLU(), nn.AvgPool2d(2), *head(8))),
    "decoder": (
        IMAGE,
        lambda: nn.Sequential(conv(3, 8, 2), nn.ReLU(), nn.Upsample(scale_factor=2), conv(8, 4), nn.Sigmoid()),
    ),
    "perceptron": (
        VECTORS,
        lambda: nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)),
    ),
    "attention": (
        SEQUENCE,
        lambda: nn.Sequential(Attention(32), nn.LayerNorm(32), Attention(32), Mean(), nn.Linear(32, 10)),
    ),
}
STATIC: dict[str, dict[str, Any]] = {
    "qdq-int8": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QInt8, "per_channel": True},
    "qdq-uint8": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QUInt8},
    "qlinear": {  # with ONNX's own operators: the tools write the other forms with Microsoft's
        "quant_format": QuantFormat.QOperator,
        "activation_type": QuantType.QUInt8,
        "op_types_to_quantize": ["Conv", "MatMul"],
    },
}
FORMS = (*STATIC, "dynamic")


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, shape: Sequence[int]) -> None:
        self.left = [{"x": np.random.default_rng(seed).standard_normal((8, *shape), np.float32)} for seed in range(8)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def quantised(network: str, form: str, folder: Path) -> Path:
    shape, make = NETWORKS[network]
    torch.manual_seed(0)
    plain, file = folder / "plain.onnx", folder / f"{network}-{form}.onnx"
    names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}}
    torch.onnx.export(make().eval(), (torch.randn(2, *shape),), plain, opset_version=17, dynamo=False, **names)
    if form == "dynamic":
        quantize_dynamic(plain, file)
    else:
        # Seven-bit weights: CPUs without VNNI saturate when adding two products of eight bits.
        quantize_static(plain, file, Calibration(shape), weight_type=QuantType.QInt8, reduce_range=True, **STATIC[form])
    return file


def reference(artifact: Artifact, seed: int) -> Reference:
    batch = candidate.sample(artifact, BATCH, seed)
    exact, floors, more = oracle.measured(artifact, "forward", [batch])
    return batch[0], {**exact, **{f"floor/{name}": np.array(value) for name, value in floors.items()}, **more}


def answers_of(model: onnx.ModelProto, references: Sequence[Reference]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return [session.run(None, {"x": inputs[0]})[0] for inputs, _ in references]


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """The distance of two arrays, as a share of the second."""
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def changes(right: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Every file with one scale, zero point, axis or range changed, and the change in words."""
    for place, tensor in enumerate(right.graph.initializer):
        value = numpy_helper.to_array(tensor)
        for words, other in _values(tensor.name, value):
            model = onnx.ModelProto.FromString(right.SerializeToString())
            model.graph.initializer[place].CopyFrom(numpy_helper.from_array(other, tensor.name))
            yield f"{tensor.name} {words}", model
    for place, node in enumerate(right.graph.node):
        if node.op_type == "QuantizeLinear":
            for share in SHARES:
                yield f"range of {node.output[0]} {share:.0%} narrower", _narrower(right, place, share)


def _values(name: str, value: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    is_scale = "scale" in name and value.dtype == np.float32
    is_zero = "zero_point" in name and value.dtype in (np.int8, np.uint8)
    for share in SHARES:
        if is_scale:
            yield f"{share:.0%} larger", value * np.float32(1 + share)
        if is_zero:
            way = -1 if value.max() > 64 else 1
            yield f"{share:.0%} of the range off", (value.astype(int) + way * round(255 * share)).astype(value.dtype)
    if is_scale and value.ndim and value.size > 1:
        yield "of another axis", np.full_like(value, value.mean())
        yield "in reverse", value[::-1].copy()


def _narrower(right: onnx.ModelProto, place: int, share: float) -> onnx.ModelProto:
    """The file with one node's input clamped to a part of its type's range."""
    model = onnx.ModelProto.FromString(right.SerializeToString())
    node = model.graph.node[place]
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    scale, zero = known[node.input[1]].max(), known[node.input[2]]
    limits = np.iinfo(zero.dtype)
    ends = [np.float32((end - int(zero.max())) * scale * (1 - share)) for end in (limits.min, limits.max)]
    names = [f"{node.output[0]}_{end}" for end in ("low", "high")]
    model.graph.initializer.extend(numpy_helper.from_array(np.array(e), n) for e, n in zip(ends, names, strict=True))
    model.graph.node.insert(place, helper.make_node("Clip", [node.input[0], *names], [f"{node.output[0]}_clamped"]))
    model.graph.node[place + 1].input[0] = f"{node.output[0]}_clamped"
    return model


def changed(file: Path, references: Sequence[Reference]) -> dict[str, Any]:
    """How many changes of a file move its outputs, and which of those are missed."""
    right_file, counts = onnx.load(file), {"changes": 0, "moving": 0, "missed": [], "as ties": []}
    right, ties = answers_of(right_file, references), max(tied(known) for _, known in references)
    for words, model in changes(right_file):
        made = answers_of(model, references)
        counts["changes"] += 1
        moved = [apart(one, other) for one, other in zip(made, right, strict=True)]
        if min(moved) > MOVED:
            counts["moving"] += 1
            judged = [
                verdict.judge({"output/y": y}, known).status for y, (_, known) in zip(made, references, strict=True)
            ]
            kind = "as ties" if min(moved) < ties else "missed"
            counts[kind] += [] if "FAIL" in judged else [f"{words}: {min(moved):.1%}, ties {ties:.1%}"]
    return counts


def tied(known: dict[str, np.ndarray]) -> float:
    """How far ties alone move the outputs, as a share of them."""
    return float(known.get("spread/far/output/y", np.zeros(2))[0] / np.linalg.norm(known["output/y"]))


def right(runtime: str, artifact: Artifact, references: Iterator[tuple[int, Reference]]) -> list[str]:
    """The seeds on which a runtime that runs the file itself does not pass."""
    made, wrong = load(runtime, artifact, Options("forward", "cpu", 1)), []
    for seed, (inputs, known) in references:
        if seed == 0:
            made.prepare(inputs, np.zeros(BATCH, np.int64), dropout=False)
        result = made.forward(*made.put(inputs))
        made.wait(result)
        judged = verdict.judge(candidate.named(artifact, calls.outputs(made, result)), known)
        wrong += [] if judged.status == "PASS" else [f"seed {seed}: {judged.status}, {judged.message}"]
    return wrong


def measured(file: Path, runtimes: Sequence[str], seeds: int, exporter: Exporter) -> dict[str, Any]:
    artifact = exporter.artifact(str(file))
    references = [reference(artifact, seed) for seed in range(seeds)]
    blamed = {runtime: right(runtime, artifact, iter(enumerate(references))) for runtime in runtimes}
    return changed(file, references[:2]) | {"seeds": seeds, "blamed": blamed}


def line(network: str, form: str, row: dict[str, Any]) -> str:
    blamed = ", ".join(f"{runtime} {len(wrong)}" for runtime, wrong in row["blamed"].items())
    counts = f"{row['moving']:3} of {row['changes']:3} changes move the outputs, {len(row['missed']):2} not found"
    counts += f", {len(row['as ties']):2} less than ties"
    return f"{network:10} {form:9} {counts}; of {row['seeds']} seeds not PASS: {blamed}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=[*NETWORKS])
    parser.add_argument("--form", action="append", choices=FORMS)
    parser.add_argument("--runtime", action="append", help="default: onnxruntime and torch")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--json", type=Path, required=True, help="a file for the figures, and to go on from")
    options = parser.parse_args()
    rows = json.loads(options.json.read_text()) if options.json.exists() else {}
    with tempfile.TemporaryDirectory(prefix="xbench-quantised-") as place:
        exporter = Exporter(Path(place))
        for network, form in itertools.product(options.networks, options.form or FORMS):
            if f"{network} {form}" not in rows:
                file = quantised(network, form, Path(place))
                rows[f"{network} {form}"] = measured(
                    file, options.runtime or ("onnxruntime", "torch"), options.seeds, exporter
                )
                options.json.write_text(json.dumps(rows, indent=1))
            print(line(network, form, rows[f"{network} {form}"]), flush=True)
        exporter.close()
    moving = sum(row["moving"] for row in rows.values())
    missed, ties = (sum(len(row[kind]) for row in rows.values()) for kind in ("missed", "as ties"))
    blamed = sum(len(wrong) for row in rows.values() for wrong in row["blamed"].values())
    print(f"{moving} changes move the outputs: {missed} not found, {ties} less than ties; {blamed} answers not PASS")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
