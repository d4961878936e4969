"""Small networks as ONNX files, each made to test one property of a runtime (`conformance.py`).

`work` is the one that is timed: two convolutions, dropout, two outputs, enough work for a step to be longer than its
overhead. `norm` has no dropout, so that every step of its training is known, and running statistics. `numeric` returns
its inputs, by a convolution and a matrix product. `slim` reads 16 numbers of each row of a large input.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Values = list[tuple[str, list[Any]]]  # names and shapes

BATCH = 32
CHANNELS, SIZE = 32, 8  # of the image that `numeric` returns
ROW, READ = 2**18, 16  # numbers in a row of `slim`, and how many of them it reads
ROWS = 32


def write(folder: Path) -> dict[str, Path]:
    """Writes the networks; returns their paths by name."""
    models = {"work": _work(), "norm": _norm(), "numeric": _numeric(), "slim": _slim()}
    paths = {name: folder / f"{name}.onnx" for name in models}
    for name, model in models.items():
        onnx.checker.check_model(model)
        onnx.save(model, paths[name])
    return paths


def images(seed: int = 0) -> list[np.ndarray]:
    """Inputs of `numeric`: numbers in [1, 2) that use every bit."""
    draw = np.random.default_rng(seed)
    shapes = (2, CHANNELS, SIZE, SIZE), (2, CHANNELS)
    return [draw.uniform(1, 2, shape).astype(np.float32) for shape in shapes]


def rows() -> list[np.ndarray]:
    """The input of `slim`: 32 MiB."""
    return [np.ones((ROWS, ROW), np.float32)]


def bits(given: np.ndarray, expected: np.ndarray) -> int:
    """The bits of a number in [1, 2) that survive: 24 of float32, 11 of TF32 and float16, 8 of bfloat16."""
    error = float(np.abs(given - expected).max())
    return min(24, int(-np.log2(error))) if 0 < error < 1 else 24 if error == 0 else 0


def kind_of(kept: int) -> str:
    """The arithmetic that keeps `kept` bits."""
    return "float32" if kept >= 18 else "TF32 or float16" if kept >= 10 else "bfloat16" if kept >= 7 else "fewer bits"


def _work() -> onnx.ModelProto:
    draw = np.random.default_rng(0)
    weights = {
        "first.weight": (32, 3, 3, 3),
        "first.bias": (32,),
        "second.weight": (64, 32, 3, 3),
        "second.bias": (64,),
        "last.weight": (10, 64 * 8 * 8),
        "last.bias": (10,),
    }
    arrays = {n: draw.uniform(-1, 1, s) / np.sqrt(np.prod(s[1:]) or 1) for n, s in weights.items()}
    nodes = [
        helper.make_node("Conv", ["x", "first.weight", "first.bias"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "second.weight", "second.bias"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Dropout", ["d", "rate", "training"], ["e"]),
        helper.make_node("MaxPool", ["e"], ["features"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["features"], ["f"]),
        helper.make_node("Gemm", ["f", "last.weight", "last.bias"], ["logits"], transB=1),
    ]
    arrays |= {"rate": np.array(0.5), "training": np.array(True)}
    outputs = [("logits", ["batch", 10]), ("features", ["batch", 64, 8, 8])]
    return _model("work", nodes, [("x", ["batch", 3, 16, 16])], outputs, arrays)


def _norm() -> onnx.ModelProto:
    draw = np.random.default_rng(1)
    weights = {"first.weight": (16, 3, 3, 3), "first.bias": (16,), "last.weight": (10, 16 * 4 * 4), "last.bias": (10,)}
    arrays = {n: draw.uniform(-1, 1, s) / np.sqrt(np.prod(s[1:]) or 1) for n, s in weights.items()}
    arrays |= {f"norm.{n}": np.ones(16) for n in ("weight", "var")} | {
        f"norm.{n}": np.zeros(16) for n in ("bias", "mean")
    }
    norm = [f"norm.{name}" for name in ("weight", "bias", "mean", "var")]
    nodes = [
        helper.make_node("Conv", ["x", "first.weight", "first.bias"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", *norm], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MaxPool", ["c"], ["d"], kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Flatten", ["d"], ["f"]),
        helper.make_node("Gemm", ["f", "last.weight", "last.bias"], ["logits"], transB=1),
    ]
    return _model("norm", nodes, [("x", ["batch", 3, 16, 16])], [("logits", ["batch", 10])], arrays)


def _numeric() -> onnx.ModelProto:
    kernel = np.zeros((CHANNELS, CHANNELS, 3, 3))
    kernel[range(CHANNELS), range(CHANNELS), 1, 1] = 1
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["image"], pads=[1, 1, 1, 1]),
        helper.make_node("MatMul", ["y", "matrix"], ["row"]),
    ]
    shapes = [("x", ["batch", CHANNELS, SIZE, SIZE]), ("y", ["batch", CHANNELS])]
    given = [("image", shapes[0][1]), ("row", shapes[1][1])]
    return _model("numeric", nodes, shapes, given, {"kernel": kernel, "matrix": np.eye(CHANNELS)})


def _slim() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["part"]),
        helper.make_node("Mul", ["part", "scale"], ["y"]),
    ]
    ends = {"starts": np.array([0]), "ends": np.array([READ]), "axes": np.array([1])}
    return _model(
        "slim", nodes, [("x", ["batch", ROW])], [("y", ["batch", READ])], {"scale": np.ones(READ) * 2, **ends}
    )


def _model(
    name: str,
    nodes: list[onnx.NodeProto],
    inputs: Values,
    outputs: Values,
    arrays: dict[str, np.ndarray],
) -> onnx.ModelProto:
    """A model of opset 20; floating arrays in float32."""
    given, made = (
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in side] for side in (inputs, outputs)
    )
    kept = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in arrays.values()]
    tensors = [numpy_helper.from_array(a, n) for n, a in zip(arrays, kept, strict=True)]
    graph = helper.make_graph(nodes, name, given, made, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
