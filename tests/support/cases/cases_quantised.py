"""Calls of ONNX Runtime's operators on quantised numbers: their names, their inputs, their attributes."""

import numpy as np
from bodies import normal, signed, unsigned, whole

S, Z, W = np.float32, np.uint8, np.int8
CHOICE = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [1, 1, 0, 0]], bool)
WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
FILTER = [S(0.04), Z(9), signed(4, 3, 3, 3), S(0.02), W(0), S(0.9), Z(5)]
EACH = [signed(4, 3, 3, 3), np.array([0.01, 0.02, 0.03, 0.04], S), np.zeros(4, W)]
OFFSETS = whole(20, -30, 50, -70)
LAST = {**WINDOW, "channels_last": 1}
A, B = [unsigned(3, 8), S(0.04), Z(90)], [signed(8, 5), S(0.02), W(3)]
A_SIGNED = [signed(8, 3), S(0.04), W(9)]
COLUMNS = [signed(5, 8), normal(5) ** 2, signed(5)]
QKV = [unsigned(2, 4, 8), signed(8, 24), normal(24), S(0.02), S(0.01)]
MASK = whole([1, 1, 1, 1], [1, 1, 0, 0])
IDS = whole([1, 2, 3, 4], [5, 6, 7, 0])
TABLES = [unsigned(9, 8), unsigned(6, 8), unsigned(3, 8), unsigned(8), unsigned(8)]
STEPS, MIDDLES = [S(0.01), S(0.02), S(0.03), S(0.01), S(0.01)], [Z(100), Z(120), Z(130), Z(10), Z(110)]


def without(numbers):
    """Those of embeddings that know no kinds of words."""
    return [*numbers[:2], None, *numbers[3:]]


def parts(kind, *shapes):
    """Each with its own scale and zero point."""
    draw = {Z: unsigned, W: signed}[kind]
    return [each for n, shape in enumerate(shapes) for each in (draw(*shape), S(0.04 + 0.01 * n), kind(90 - 50 * n))]


CASES_QUANTISED = [
    ("QuantizeLinear", [normal(3, 4), S(0.02), Z(100)], {}),
    ("QuantizeLinear", [normal(3, 4), normal(3) ** 2, signed(3)], {"axis": 0}),
    ("DequantizeLinear", [unsigned(3, 4), S(0.02), Z(100)], {}),
    ("DequantizeLinear", [signed(3, 4), normal(4) ** 2, signed(4)], {"axis": -1}),
    ("DequantizeLinear", [signed(3, 4), normal(4) ** 2, signed(4)], {}),
    ("QLinearConcat", [S(0.05), Z(100), *parts(Z, (2, 3), (2, 4))], {"axis": 1, "fed": 2}),
    ("QLinearConcat", [S(0.05), W(10), *parts(W, (2, 3), (1, 3), (1, 3))], {"axis": -2, "fed": 2}),
    ("QLinearWhere", [CHOICE, *parts(Z, (3, 4), (1, 4)), S(0.06), Z(110)], {}),
    ("QLinearWhere", [CHOICE, *parts(W, (3, 1), (3, 4)), S(0.06), W(11)], {}),
    *[
        ("QLinearSoftmax", [unsigned(3, 4, 5), S(0.04), Z(90), S(1 / 256), Z(0)], {"opset": opset, **axis})
        for opset in (11, 13)
        for axis in ({}, {"axis": 1})
    ],
    ("QLinearSoftmax", [signed(3, 4, 5), S(0.04), None, S(1 / 256), W(-128)], {"opset": 13, "axis": -2}),
    ("QLinearConv", [unsigned(1, 3, 8, 8), *FILTER], WINDOW),
    ("QLinearConv", [signed(1, 3, 8, 8), S(0.04), W(9), *FILTER[2:6], W(5), OFFSETS], {}),
    ("QLinearConv", [unsigned(1, 3, 8, 8), *FILTER[:2], *EACH, *FILTER[5:], OFFSETS], WINDOW),
    ("QLinearConv", [unsigned(1, 8, 7, 3), *FILTER], LAST),
    ("QLinearConv", [unsigned(1, 8, 7, 6), *FILTER], {**LAST, "group": 2}),
    ("QLinearConv", [unsigned(1, 9, 3), *FILTER[:2], signed(4, 3, 3), *FILTER[3:]], {"channels_last": 1}),
    ("QGemm", [*A, *B, whole(10, -200, 300, -40, 5), S(0.2), Z(100)], {}),
    ("QGemm", [*A, *B, whole([100], [-200], [300])], {"alpha": 0.5}),
    ("QGemm", [*A, unsigned(8, 5), S(0.02), Z(3)], {}),
    ("QGemm", [*A_SIGNED, *COLUMNS, None, S(0.2), W(10)], {"transA": 1, "transB": 1}),
    ("QAttention", QKV, {"num_heads": 2}),
    ("QAttention", [*QKV, MASK, Z(100), W(3)], {"num_heads": 2, "outputs": ["y", "present"]}),
    (
        "QAttention",
        [*QKV[:4], normal(24) ** 2 / 100, None, Z(100), signed(24)],
        {"num_heads": 4, "unidirectional": 1, "scale": 0.3},
    ),
    (
        "QEmbedLayerNormalization",
        [IDS, IDS % 3, *TABLES, MASK, *STEPS, *MIDDLES],
        {"outputs": ["y", "lengths"], "epsilon": 1e-5},
    ),
    (
        "QEmbedLayerNormalization",
        [IDS, None, *without(TABLES), None, *without(STEPS), *without(MIDDLES)],
        {"outputs": ["y", "lengths"]},
    ),
]
UNKNOWN_QUANTISED = {
    "of sixteen bits": ("DequantizeLinear", [np.zeros(3, np.int16), S(0.1), np.int16(0)], {}),
    "of blocks": ("DequantizeLinear", [signed(3), S(0.1), W(0)], {"block_size": 16}),
    "of a part without a scale": ("QLinearConcat", [S(0.05), Z(100), unsigned(2, 3)], {"axis": 1}),
    "without an axis": ("QLinearConcat", [S(0.05), Z(100), *parts(Z, (2, 3))], {}),
    "of no parts": ("QLinearConcat", [S(0.05), Z(100)], {"axis": 1}),
    "of an opset nobody tells": ("QLinearSoftmax", [*parts(Z, (3, 4)), S(1 / 256), Z(0)], {}),
    "with earlier keys": ("QAttention", [*QKV, None, None, None, normal(2, 2, 2, 3, 4)], {"num_heads": 2}),
    "with a mask of ends": ("QAttention", [*QKV, whole(3, 4)], {"num_heads": 2}),
    "without scales": ("QLinearConv", [unsigned(1, 3, 8, 8)], WINDOW),
    "without a second side": ("QGemm", A, {}),
    "with a text for an axis": ("QLinearConcat", [S(0.05), Z(100), *parts(Z, (2, 3))], {"axis": "x"}),
}
