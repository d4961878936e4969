"""Plants one fault in a quantised file, or in a network before it is quantised (`like_nets.py`), and says which nodes
or tensors may be named for it."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import like_nets
import numpy as np
import onnx
import onnxruntime
from like_nets import arrays, store

from xbench.parity import candidate
from xbench.parity.like.compare import compared
from xbench.workers.prepare import Exporter

MATTERS = 2.0  # times the loss of the right file, from which a change is a fault
NARROW, FAR = 1 / 10, 16  # times a range
LARGE = 100  # times the other channels
OUTPUT_SCALE = {"QuantizeLinear": 1, "QLinearConv": 6, "QLinearMatMul": 6, "QGemm": 7, "QLinearAdd": 6, "QLinearMul": 6}
OUTPUT_SCALE |= {"QLinearAveragePool": 3, "QLinearGlobalAveragePool": 3, "QLinearConcat": 0, "QLinearSoftmax": 3}
INPUT_BIAS = {"QLinearConv": (1, 8), "QGemm": (1, 6)}  # the scale of the input, and the bias in units of it
WEIGHTS = {"QLinearConv": 4, "QLinearMatMul": 4, "QGemm": 4}
PASSED = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool")  # a channel times 100 comes out times 100


@dataclass(frozen=True)
class Fault:
    """What was planted, in words; the nodes and the tensors of the original one of which is to be named."""

    words: str
    nodes: frozenset[str]
    tensors: frozenset[str] = frozenset()


def output(path: Path, inputs: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options)
    return np.asarray(session.run(None, {"x": inputs})[0], np.float64)


def loss(path: Path, plain: Path, shape: Sequence[int]) -> float:
    """How far the outputs of a file are from those of another, as a share of them."""
    inputs = np.random.default_rng(99).uniform(-1.7, 1.7, (16, *shape)).astype(np.float32)
    one, other = output(path, inputs), output(plain, inputs)
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def planted(
    plants: Callable[[onnx.ModelProto, random.Random], Fault | None],
    right: Path,
    plain: Path,
    shape: Sequence[int],
    seed: int,
    path: Path,
) -> Fault | None:
    """Writes the right file with one fault that matters; None if none of 20 does."""
    draw, usual = random.Random(seed), loss(right, plain, shape)
    for _ in range(20):
        model = onnx.load(right)
        fault = plants(model, draw)
        if fault is None:
            continue
        onnx.save(model, path)
        if not loss(path, plain, shape) < MATTERS * usual:
            return fault
    return None


def wrong_range(model: onnx.ModelProto, draw: random.Random) -> Fault | None:
    """A range of an activation that is far too narrow, far too wide, or beside the values."""
    known = arrays(model)
    scales = sorted(
        {n.input[OUTPUT_SCALE[n.op_type]] for n in model.graph.node if n.op_type in OUTPUT_SCALE} & {*known}
    )
    scale, kind = draw.choice(scales), draw.choice(["narrow", "wide", "zero"])
    makers = [n for n in model.graph.node if n.op_type in OUTPUT_SCALE and n.input[OUTPUT_SCALE[n.op_type]] == scale]
    zero = makers[0].input[OUTPUT_SCALE[makers[0].op_type] + 1]
    if kind == "zero":
        limits, value = np.iinfo(known[zero].dtype), int(known[zero])
        moved = value + 110 if value < (limits.min + limits.max) / 2 else value - 110
        store(model, zero, np.array(moved, known[zero].dtype))
    else:
        factor = NARROW if kind == "narrow" else FAR
        store(model, scale, known[scale] * np.float32(factor))
        for node in model.graph.node:
            first, bias = INPUT_BIAS.get(node.op_type, (0, 99))
            if bias < len(node.input) and node.input[first] == scale:
                store(model, node.input[bias], np.rint(known[node.input[bias]] / factor).astype(np.int32))
    return Fault(f"{scale} {kind}", frozenset(node.name for node in makers))


def wrong_weights(model: onnx.ModelProto, draw: random.Random) -> Fault | None:
    """Scales of weights that are too large or too small, or in another order."""
    known, named = arrays(model), dict[str, list[onnx.NodeProto]]()
    for node in model.graph.node:
        if node.op_type in WEIGHTS:
            named.setdefault(node.input[WEIGHTS[node.op_type]], []).append(node)
        elif node.op_type == "DequantizeLinear" and known.get(node.input[0], np.zeros(1)).ndim > 1:
            named.setdefault(node.input[1], []).append(node)
    for node in model.graph.node:  # of a dynamic file: the factor is after the sum
        if node.op_type in ("ConvInteger", "MatMulInteger"):
            scale = node.input[1].removesuffix("_quantized") + "_scale"
            if scale in known:
                named.setdefault(scale, []).append(node)
    scale = draw.choice(sorted(named))
    kinds = ["large", "small"] + ["reversed", "one"] * (known[scale].size > 1)
    kind, values = draw.choice(kinds), known[scale].copy()
    if kind == "one":
        values[draw.randrange(values.size)] *= 30
    else:
        values = values[::-1] if kind == "reversed" else values * np.float32(3 if kind == "large" else 0.3)
    store(model, scale, values)
    return Fault(f"{scale} {kind}", frozenset(node.name for node in named[scale]))


def large_channel(model: onnx.ModelProto, draw: random.Random) -> Fault | None:
    """A channel of a layer that is 100 times as large, and the weights that read it as much smaller: the network stays
    the same."""
    pairs = [*_pairs(model)]
    if not pairs:
        return None
    maker, bias, path, readers = draw.choice(pairs)
    known = arrays(model)
    channels = known[_weight(maker)].shape[_side(maker, True)]
    channel = draw.randrange(channels)
    for name in (_weight(maker), *bias):
        array = known[name].copy()
        np.moveaxis(array, _side(maker, True) if name == _weight(maker) else -1, 0)[channel] *= LARGE
        store(model, name, array)
    for reader in readers:
        array = known[_weight(reader)].copy()
        rows = np.moveaxis(array, _side(reader, False), 0)
        size = len(rows) // channels
        rows[channel * size : (channel + 1) * size] /= LARGE
        store(model, _weight(reader), array)
    names = {maker.name + end for end in ("", "_quant", "_MatMul_quant")} | {f"{_weight(maker)}_DequantizeLinear"}
    return Fault(f"channel {channel} of {path[-1]}", frozenset(names), frozenset(path))


Pair = tuple[onnx.NodeProto, list[str], list[str], list[onnx.NodeProto]]


def _pairs(model: onnx.ModelProto) -> Iterator[Pair]:
    """Layers whose result only layers read: the node, its biases, the tensors on the way, the readers."""
    known = arrays(model)
    ends = {value.name for value in model.graph.output}
    for node in model.graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul", "LayerNormalization") or _weight(node) not in known:
            continue
        value, path = node.output[0], [node.output[0]]
        bias = [*node.input[2:3]]
        while value not in ends:
            readers = [each for each in model.graph.node if value in each.input]
            if len(readers) == 1 and readers[0].op_type == "Add" and not bias and path == [node.output[0]]:
                (other,) = (each for each in readers[0].input if each != value)
                if other not in known:
                    break
                bias = [other]
            elif len(readers) != 1 or readers[0].op_type not in (*PASSED, "Flatten"):
                if readers and all(_reads(each, value, known) for each in readers):
                    yield node, bias, path, readers
                break
            value = readers[0].output[0]
            path.append(value)


def _reads(node: onnx.NodeProto, value: str, known: dict[str, np.ndarray]) -> bool:
    whole = not any(each.name == "group" and each.i != 1 for each in node.attribute)
    return node.op_type in ("Conv", "Gemm", "MatMul") and node.input[0] == value and _weight(node) in known and whole


def _weight(node: onnx.NodeProto) -> str:
    return str(node.input[1])


def _side(node: onnx.NodeProto, outputs: bool) -> int:
    """The axis of a layer's weight that has its outputs, or along its inputs."""
    if node.op_type == "LayerNormalization":
        return 0
    turned = node.op_type == "Conv" or any(each.name == "transB" and each.i for each in node.attribute)
    return int(outputs != turned)


# ***** a network, what is planted, what is found *****


@dataclass(frozen=True)
class Trial:
    """The report on a file with a fault, or on the right one, where there is None."""

    network: str
    form: str
    fault: Fault | None
    report: dict[str, Any]

    @property
    def found(self) -> bool:
        """Whether what was planted is named, or in a right file nothing."""
        if self.fault is None:
            return not self.report["named"]
        node = self.report["node"]
        named = node is not None and node["name"] in self.fault.nodes
        return bool(self.report["named"] and (named or self.report["tensor"] in self.fault.tensors))


PLANTS = {"range": wrong_range, "weights": wrong_weights}
KINDS = ("right", "range", "channel", "weights")


def form_of(network: str, kind: str, seed: int = 0) -> str:
    """Networks take turns at the forms; a dynamic file has no ranges."""
    forms = [*like_nets.STATIC] if kind == "range" else [*like_nets.FORMS]
    return forms[([*like_nets.NETWORKS].index(network) + seed) % len(forms)]


def tried(network: str, kind: str, exporter: Exporter, place: Path, seed: int = 0) -> Trial:
    """Makes a network, quantises it, plants a fault of a kind, and compares. Another seed gives other weights, another
    form and another fault.

    Raises:
        LookupError: nothing of that kind can be planted.
    """
    form, shape = form_of(network, kind, seed), like_nets.NETWORKS[network][0]
    number = [*like_nets.NETWORKS].index(network) + 1000 * seed
    plain, right, path = place / "plain.onnx", place / "right.onnx", place / "planted.onnx"
    like_nets.exported(network, plain, seed)
    fault: Fault | None = None
    if kind == "channel":
        model = onnx.load(plain)
        fault = large_channel(model, random.Random(number))
        onnx.save(model, plain)
    like_nets.quantised(network, form, plain, right)
    if kind in PLANTS:
        fault = planted(PLANTS[kind], right, plain, shape, number, path)
    if fault is None and kind != "right":
        raise LookupError(f"{network}: there is no {kind} to plant")
    own, original = (exporter.artifact(str(file)) for file in (path if kind in PLANTS else right, plain))
    inputs, _ = candidate.sample(original, 16, 0)
    return Trial(network, form, fault, compared(own, original, inputs, [0], [0], (path.name, plain.name)))
