"""Rows of the elementwise operators, reductions, selections, quantisation and losses. Merged into `cases.CASES`."""

from typing import Any

import numpy as np
from cases import (
    FLOAT,
    IMAGE,
    INT64,
    KINK,
    SORTED,
    Row,
    X,
    binary,
    int_array,
    ints,
    positive,
    real,
    reduced,
    row,
    scalar,
    truth,
    unary,
)

ORT: Any = {"referee": "onnxruntime"}  # for forms that the reference evaluator lacks or gets wrong
INSIDE = np.tanh(X)  # in (-1, 1)
SPECIAL = np.array([[1.5, np.inf, -np.inf], [np.nan, 0.0, -2.0]], np.float32)
BYTES = np.random.default_rng(3).integers(0, 256, (2, 3, 4)).astype(np.uint8)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def small(*values: int, kind: Any = np.uint8) -> np.ndarray:
    return np.array(values, kind)


def point(value: int, kind: Any = np.uint8) -> np.ndarray:
    return np.array(value, kind)


def integers(kind: Any, low: int = 0, high: int = 100) -> np.ndarray:
    return np.random.default_rng(5).integers(low, high, (2, 3)).astype(kind)


def bitwise() -> list[Row]:
    kinds = (np.int32, np.int64, np.uint8, np.uint16)
    return [row(integers(kind), integers(kind)[::-1, ::-1].copy()) for kind in kinds]


def shifted() -> list[Row]:
    count = np.array([[0, 1, 2], [3, 4, 7]])
    kinds = [(kind, way) for kind in (np.uint8, np.uint32) for way in ("LEFT", "RIGHT")]
    return [row(integers(kind), count.astype(kind), direction=way) for kind, way in kinds]


def remainders() -> list[Row]:
    a, b = int_array(3, 4, low=-9, high=9), np.array([-4, 2, 3, -5])
    return [
        row(a, b),
        row(a, b, fmod=1),
        row(a.astype(np.int8), b.astype(np.int8)),
        row(integers(np.uint16), small(7, 3, 9, kind=np.uint16)),
        row(X * 3, floats(1.5, -0.7, 2.0, -1.1), fmod=1),
    ]


def quantized() -> list[Row]:
    x = X * 100
    return [
        row(x, scalar(0.5), point(128)),
        row(x, scalar(0.25)),
        row(x, scalar(1.0), point(-3, kind=np.int8)),
        row(x, floats(0.5, 2.0, 1.0), small(1, 2, 3), axis=1),
        row(x, floats(0.5, 2.0, 1.0, 0.1), small(1, -2, 3, 0, kind=np.int8), axis=-1),
        row(x, scalar(0.01), point(300, kind=np.int16), opset=21),
        row(x, scalar(0.01), point(30000, kind=np.uint16), opset=21),
        row(x, positive(2, 3, 2), BYTES[:, :, :2], axis=2, block_size=2, opset=21),
        row(x, positive(2, 2, 4), axis=1, block_size=2, output_dtype=3, opset=21),
        row(floats(0.5, 1.5, 2.5, -0.5, 300, -300), scalar(1.0), point(0)),
    ]


def dequantized() -> list[Row]:
    return [
        row(BYTES, scalar(0.5), point(128)),
        row(BYTES, scalar(0.5)),
        row(BYTES.astype(np.int8), floats(0.5, 2.0, 1.0), small(1, -2, 3, kind=np.int8), axis=1),
        row(BYTES.astype(np.int32) * 1000, scalar(0.01)),
        row(BYTES.astype(np.uint16) * 200, scalar(0.01), point(30000, kind=np.uint16), opset=21),
        row(BYTES, positive(2, 3, 2), BYTES[:, :, :2], axis=2, block_size=2, opset=21),
    ]


def integer_products() -> list[Row]:
    a, b = BYTES[0], BYTES.reshape(4, 6)
    return [
        row(a, b),
        row(a, b, point(7), point(200)),
        row(a.astype(np.int8), b, point(-3, kind=np.int8), point(200)),
        row(BYTES, BYTES.transpose(0, 2, 1).copy(), point(7)),
    ]


def quantized_products() -> list[Row]:
    a, b = BYTES[0], BYTES.reshape(4, 6)
    scales = scalar(0.02), scalar(0.03), scalar(0.5)

    def product(kind: Any, *points: int) -> Row:
        (x, y, z), (p, q, r) = scales, (point(value, kind) for value in points)
        return row(a.astype(kind), x, p, b.astype(kind), y, q, z, r, opset=21)

    return [product(np.uint8, 113, 114, 118), product(np.int8, -3, 14, -8)]


PIXELS = np.random.default_rng(4).integers(0, 256, (2, 4, 7, 9)).astype(np.uint8)
FILTERS = np.random.default_rng(6).integers(0, 256, (6, 4, 3, 2)).astype(np.uint8)


def integer_convolutions() -> list[Row]:
    return [
        row(PIXELS, FILTERS, **ORT),
        row(PIXELS, FILTERS, point(120), point(130), pads=[1, 0, 2, 1], strides=[2, 1], **ORT),
        row(PIXELS, FILTERS[:, :2].copy(), point(9), group=2, auto_pad="SAME_UPPER", **ORT),
        row(PIXELS, FILTERS, point(9), dilations=[2, 3], **ORT),
        row(PIXELS[:, :, 0], FILTERS[:, :, 0], point(9), strides=[2], **ORT),
    ]


def quantized_convolutions() -> list[Row]:
    def conv(w_scale: np.ndarray, w_zero: np.ndarray, *bias: np.ndarray, **rest: Any) -> Row:
        x = (PIXELS, scalar(0.02), point(120))
        # Signed weights of seven bits: beyond them the referee saturates in 16 bits on a CPU without VNNI.
        w = (FILTERS if w_zero.dtype == np.uint8 else FILTERS.view(np.int8) // 2, w_scale, w_zero)
        return row(*x, *w, scalar(0.6), point(100), *bias, **ORT, **rest)

    return [
        conv(scalar(0.03), point(130), pads=[1, 1, 1, 1]),
        conv(positive(6) / 50, np.zeros(6, np.int8), int_array(6, low=-900, high=900).astype(np.int32), strides=[2, 2]),
    ]


def losses() -> list[Row]:
    """Two, three and four axes."""
    x, image = real(5, 3), real(2, 3, 4, 2)
    labels, map_ = np.array([0, 2, 1, 2, 0]), np.arange(16).reshape(2, 4, 2) % 3
    return [
        row(x, labels),
        row(x, labels.astype(np.int32), reduction="sum"),
        row(x, labels, positive(3), reduction="none"),
        row(x, labels, positive(3)),
        row(image, map_, positive(3), ignore_index=1),
        row(image, map_, ignore_index=0, reduction="none"),
        row(real(2, 3, 4), map_[..., 0] - (map_[..., 0] == 2) * 7, ignore_index=-5),
    ]


def scattered(**rest: Any) -> list[Row]:
    index = np.array([[0, -1, 1], [2, 0, -1]])
    return [
        row(real(3, 3), index, real(2, 3, seed=1), **rest),
        row(real(3, 4), index, real(2, 3, seed=1), axis=1, **rest),
    ]


def scattered_twice() -> list[Row]:
    index = np.array([[0, 1, 0], [0, 1, 2]])
    made = [row(real(3, 3), index, real(2, 3, seed=1), reduction=how) for how in ("add", "mul", "max", "min")]
    ties = np.array([[0, 1, 1], [2, 1, 0], [0, 1, 2]], np.float32), np.array([[0, 1, 1], [0, 2, 0]], np.float32)
    return made + [row(ties[0], index, ties[1], reduction=how, smooth=False) for how in ("max", "min")]


def scattered_rows() -> list[Row]:
    index, updates = np.array([[0, 1], [-1, 2]]), real(2, 4, seed=1)
    twice = np.array([[0, 1], [0, 1]])
    return [
        row(X, index, updates),
        *(row(X, twice, updates, reduction=how) for how in ("add", "mul", "max", "min")),
        *(row(np.round(X), twice, np.round(updates), reduction=how, smooth=False) for how in ("max", "min")),
        row(real(5), np.array([[3], [0]]), floats(9, 8)),
    ]


def selected_most() -> list[Row]:
    return [
        row(SORTED, ints(2), outputs=2),
        row(SORTED, ints(3), axis=1, largest=0, outputs=2),
        row(int_array(3, 4), ints(2), axis=0, outputs=2),
        row(np.array([[1.0, 3.0, 3.0, 2.0]], np.float32), ints(3), smooth=False, outputs=2),
    ]


RECURRENT = (real(5, 2, 3), real(1, 4, 3, seed=1), real(1, 4, 4, seed=2), real(1, 8, seed=3))

CASES_NUMERIC: dict[str, list[Row]] = {
    "Acos": unary(x=INSIDE),
    "Acosh": unary(x=positive(2, 3) + 1),
    "ArgMin": [row(X, axis=1), row(X, axis=-1, keepdims=0), row(int_array(3, 4), axis=1, select_last_index=1)],
    "Asin": unary(x=INSIDE),
    "Asinh": unary(),
    "Atan": unary(),
    "Atanh": unary(x=INSIDE * 0.9),
    "BitShift": shifted(),
    "BitwiseAnd": bitwise(),
    "BitwiseNot": [row(integers(kind)) for kind in (np.int32, np.int64, np.uint8, np.uint16)],
    "BitwiseOr": bitwise(),
    "BitwiseXor": bitwise(),
    "CastLike": [row(X * 3, int_array(2)), row(int_array(3, 4), X), row(X * 3, X)],
    "Ceil": unary(),
    "Celu": [row(X), row(X, alpha=2.0), row(KINK, alpha=2.0, smooth=False)],
    "CenterCropPad": [row(X, ints(4, 2, 3)), row(X, ints(5, 1), axes=[2, 1]), row(X, ints(2, 5), axes=[0, -1])],
    "Compress": [row(X, np.array([True, False, True]), axis=1), row(X, np.array([False, True, True]))],
    "ConvInteger": integer_convolutions(),
    "Cos": unary(),
    "Cosh": unary(),
    "CumSum": [
        row(X, np.array(1)),
        row(X, np.array(-1), exclusive=1),
        row(X, np.array(0), reverse=1),
        row(int_array(3, 4), np.array(1), reverse=1, exclusive=1),
    ],
    "DepthToSpace": [row(real(2, 8, 3, 2), blocksize=2), row(real(1, 9, 2, 3), blocksize=3, mode="CRD")],
    "DequantizeLinear": dequantized(),
    "Det": [row(real(3, 3)), row(real(2, 4, 4))],
    "DynamicQuantizeLinear": [row(x, outputs=3) for x in (X * 10, positive(3, 4), -positive(3, 4))],
    "Elu": [row(X), row(X, alpha=2.0), row(KINK, alpha=2.0, smooth=False)],
    "EyeLike": [row(real(3, 4)), row(real(3, 4), k=1, dtype=INT64), row(int_array(3, 4), k=-1, dtype=FLOAT)],
    "GatherElements": [
        row(X, int_array(2, 3, 2, low=-4, high=4), axis=2),
        row(X, int_array(1, 3, 4, low=0, high=2)),
        row(X, int_array(2, 2, 4, low=-3, high=3), axis=1, constants=(1,)),
    ],
    "GatherND": [
        row(X, np.array([[0, 1], [-1, 2]])),
        row(X, np.array([[1], [-1]]), batch_dims=1),
        row(X, np.array([[[0, 2, 3]]])),
    ],
    "GroupNormalization": [row(IMAGE, positive(4), real(4, seed=1), num_groups=2, opset=21)],
    "Hardmax": [row(X), row(X, axis=1)],
    "InstanceNormalization": [row(x, positive(x.shape[1]), real(x.shape[1])) for x in (IMAGE, real(2, 3, 5))],
    "IsInf": [row(SPECIAL), row(SPECIAL, detect_negative=0), row(SPECIAL, detect_positive=0)],
    "IsNaN": [row(SPECIAL)],
    "LRN": [row(IMAGE, size=3, **ORT), row(IMAGE, size=3, alpha=0.5, beta=0.5, bias=2.0, **ORT)],
    "LpNormalization": [row(X), row(X, axis=1, p=1, **ORT), row(X, axis=0)],
    "MatMulInteger": integer_products(),
    "Mean": [row(X, real(3, 1, seed=1)), row(real(4), X, real(3, 1), **ORT), row(X)],
    "MeanVarianceNormalization": [row(IMAGE, axes=[0, 2, 3], **ORT), row(IMAGE, axes=[1], **ORT)],
    "Mish": unary(),
    "Mod": remainders(),
    "NegativeLogLikelihoodLoss": losses(),
    "NonZero": [row(truth(3, 4)), row(int_array(2, 3, low=0, high=2))],
    "OneHot": [
        row(np.array([1, -2, 5]), np.array(4), floats(0.5, 2.0)),
        row(int_array(2, 3, low=0, high=4), np.array(4), ints(0, 1), axis=1),
        row(int_array(2, 3, low=0, high=4).astype(np.int32), np.array(4), floats(0, 1), axis=0, constants=(1, 2)),
    ],
    "PRelu": [
        row(X, positive(4)),
        row(X, scalar(0.25), constants=(1,)),
        row(X, real(3, 1, seed=1)),
        row(KINK, scalar(0.25), constants=(1,), smooth=False),
    ],
    "QLinearConv": quantized_convolutions(),
    "QLinearMatMul": quantized_products(),
    "QuantizeLinear": quantized(),
    "RMSNormalization": [row(X, positive(4), opset=23), row(X, positive(3, 4), axis=1, epsilon=0.1, opset=23)],
    "RNN": [
        row(*RECURRENT, hidden_size=4, outputs=2),
        row(*RECURRENT[:3], hidden_size=4, outputs=2, direction="reverse", activations=["Relu"], **ORT),
        row(*RECURRENT, small(5, 3, kind=np.int32), real(1, 2, 4, seed=4), hidden_size=4, outputs=2, **ORT),
    ],
    "ReduceL1": reduced(),
    "ReduceL2": reduced(),
    "ReduceLogSum": reduced(positive(2, 3, 4)),
    "ReduceLogSumExp": reduced(),
    "ReduceSumSquare": reduced(),
    "ReverseSequence": [row(real(4, 3, 2), ints(4, 1, 3)), row(real(3, 4), ints(4, 2, 3), batch_axis=0, time_axis=1)],
    "Round": [row(floats(0.5, 1.5, 2.5, -0.5, -1.5, 0.2, -2.7))],
    "Scatter": [row(real(3, 3), np.array([[1, 0, 2]]), real(1, 3, seed=1), opset=10, **ORT)],
    "ScatterElements": [*scattered(), *scattered_twice()],
    "ScatterND": scattered_rows(),
    "Selu": [row(X), row(X, alpha=2.0, gamma=3.0), row(KINK, smooth=False)],
    "Shrink": [row(X), row(X, lambd=0.7, bias=0.3)],
    "Sign": [row(X), row(int_array(3, 4))],
    "Sin": unary(),
    "Sinh": unary(),
    "Size": [row(X)],
    "SoftmaxCrossEntropyLoss": [
        *losses(),
        row(real(2, 3, 4), np.arange(8).reshape(2, 4) % 3, positive(3), outputs=2),
        row(real(5, 3), np.array([0, 2, 1, 2, 0]), outputs=2, reduction="none"),
    ],
    "Softplus": unary(),
    "Softsign": unary(),
    "SpaceToDepth": [row(real(2, 3, 4, 6), blocksize=2)],
    "Sum": [*binary(), row(X, real(4), real(3, 1)), row(X)],
    "Swish": [row(X, opset=24), row(X, alpha=2.0, opset=24)],
    "Tan": unary(x=INSIDE),
    "TensorScatter": [
        row(real(2, 3, 6, 4), real(2, 3, 2, 4), opset=24),
        row(real(2, 3, 6, 4), real(2, 3, 2, 4), np.array([4, 1]), opset=24),
        row(real(2, 3, 6, 4), real(2, 3, 3, 4), np.array([5, 0]), opset=24, mode="circular"),
        row(real(2, 6, 4), real(2, 2, 4), np.array([0, 3]), opset=24, axis=1),
    ],
    "ThresholdedRelu": [row(X), row(X, alpha=0.5)],
    "TopK": selected_most(),
    "Unique": [
        row(int_array(8, low=0, high=4), outputs=4),
        row(int_array(3, 4, low=0, high=3), outputs=4, sorted=0, **ORT),
        row(np.array([[1, 0], [2, 3], [1, 0]], np.float32), outputs=4, axis=0),
    ],
    "Xor": [row(truth(3, 4), truth(4, seed=1))],
}
