"""Rows of control flow, sequences and signals. Merged into `cases.CASES`.

Operators with a subgraph or a sequence are written as ONNX text: a graph with array inputs that contains them.
"""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from cases import Row, real, row, scalar
from onnx import helper


@dataclass(frozen=True)
class Written(Row):
    """A graph as ONNX text."""

    text: str = ""

    def model(self, op: str) -> onnx.ModelProto:
        graph = onnx.parser.parse_graph(self.text)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        onnx.checker.check_model(made)
        return onnx.shape_inference.infer_shapes(made)


def graph(text: str, *inputs: Any, **rest: Any) -> Written:
    return Written(inputs, constants=(), text=text, referee="onnxruntime", **rest)


X = real(2, 3)

IF = """g (bool c, float[2,3] x) => (float[2,3] y, float[2,3] z) {
    y, z = If (c) <
        then_branch = t () => (a, b) { a = Exp(x)  b = Add(a, x) },
        else_branch = e () => (a2, b2) { a2 = Neg(x)  b2 = Mul(x, x) }>
}"""
IF_KNOWN = """g (float[2,3] x) => (float[n,m] y) {
    s = Size(x)
    six = Constant<value_int = 6>()
    c = Equal(s, six)
    y = If (c) <then_branch = t () => (a) { a = Transpose(x) }, else_branch = e () => (b) { b = Identity(x) }>
}"""
LOOP_COUNTED = """g (float[2,3] x) => (float[2,3] y, float[4,2,3] rows) {
    n = Constant<value_int = 4>()
    c = Constant<value = bool {1}>()
    y, rows = Loop (n, c, x) <body = b (int64 i, bool going, float[2,3] v) => (bool on, float[2,3] w, float[2,3] r) {
        on = Identity(going)  f = Cast<to = 1>(i)  s = Sin(v)  w = Add(s, f)  r = Mul(v, f)
    }>
}"""
LOOP_GROWING = """g (float[2,3] x) => (float[n,3] y) {
    n = Constant<value_int = 3>()
    y = Loop (n, , x) <body = b (int64 i, bool going, float[k,3] v) => (bool on, float[l,3] w) {
        on = Identity(going)  w = Concat<axis = 0>(v, x)
    }>
}"""
LOOP_WHILE = """g (int64 n, float[2,3] x) => (float[2,3] y) {
    c = Constant<value = bool {1}>()
    ten = Constant<value_float = 10.0>()
    y = Loop (n, c, x) <body = b (int64 i, bool going, float[2,3] v) => (bool on, float[2,3] w) {
        w = Add(v, v)  top = ReduceMax<keepdims = 0>(w)  on = Less(top, ten)
    }>
}"""
LOOP_NEVER = """g (float[2,3] x) => (float[2,3] y, float[k,2,3] rows) {
    n = Constant<value_int = 0>()
    y, rows = Loop (n, , x) <body = b (int64 i, bool going, float[2,3] v) => (bool on, float[2,3] w, float[2,3] r) {
        on = Identity(going)  w = Add(v, v)  r = Neg(v)
    }>
}"""
LOOP_SEQUENCE = """g (float[2,3] x) => (float[n,3] y) {
    n = Constant<value_int = 3>()
    empty = SequenceEmpty()
    parts = Loop (n, , empty) <body = b (int64 i, bool going, seq(float) v) => (bool on, seq(float) w) {
        on = Identity(going)  f = Cast<to = 1>(i)  r = Mul(x, f)  w = SequenceInsert(v, r)
    }>
    y = ConcatFromSequence<axis = 0>(parts)
}"""
SCAN = """g (float[2] s, float[4,2] x) => (float[2] last, float[4,2] rows) {
    last, rows = Scan<num_scan_inputs = 1, body = b (float[2] a, float[2] v) => (float[2] c, float[2] r) {
        c = Add(a, v)  r = Mul(c, v)
    }>(s, x)
}"""
SCAN_AXES = """g (float[2] s, float[2,4] x, float[4] z) => (float[2] last, float[2,4] rows, float[4,2] more) {
    last, rows, more = Scan<num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [0, 1],
        scan_output_axes = [1, 0], scan_output_directions = [1, 0],
        body = b (float[2] a, float[2] v, float u) => (float[2] c, float[2] r, float[2] q) {
        t = Tanh(v)  c = Add(a, t)  r = Mul(c, v)  q = Mul(c, u)
    }>(s, x, z)
}"""


def sequence(steps: str, result: str = "float[n,m] y") -> str:
    """A graph of float[2,3] a and b that begins with their sequence s."""
    return f"g (float[2,3] a, float[2,3] b) => ({result}) {{ s = SequenceConstruct(a, b) {steps} }}"


PAIR = (X, real(2, 3, seed=1))
AT = "zero = Constant<value_int = 0>() last = Constant<value_int = -1>() "
JOINED = "y = ConcatFromSequence<axis = 1>(r)"
MAP = "SequenceMap<body = f (float[2,3] u, float[2,3] v) => (float[2,3] w) { e = Exp(u)  w = Mul(e, v) }>"
OPTIONAL = """g (float[2,3] a) => (float[2,3] y, bool known) {
    o = Optional(a)  known = OptionalHasElement(o)  y = OptionalGetElement(o)
}"""
OPTIONAL_EMPTY = """g (float[2,3] a) => (float[2,3] y, bool known) {
    o = Optional<type = float[2,3]>()  known = OptionalHasElement(o)  y = Identity(a)
}"""


def ngrams(**rest: Any) -> dict[str, Any]:
    return {
        "max_gram_length": 2,
        "max_skip_count": 0,
        "min_gram_length": 1,
        "mode": "TF",
        "ngram_counts": [0, 4],
        "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
        "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        **rest,
    }


WORDS = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int32)


def image(pixel_format: str) -> Row:
    """A portable pixmap of 2 x 3 pixels."""
    content = io.BytesIO(b"P6 3 2 255\n" + bytes(range(0, 180, 10)))
    return row(np.frombuffer(content.getvalue(), np.uint8), pixel_format=pixel_format)


def windows() -> list[Row]:
    return [row(np.array(10)), row(np.array(7), periodic=0)]


def transforms() -> list[Row]:
    signal, both, half = real(2, 5, 3, 1), real(2, 5, 3, 2), real(2, 4, 2)
    half[:, [0, -1], 1] = 0  # of a real signal
    return [
        row(signal, None, np.array(1)),
        row(both, None, np.array(-2)),
        row(both, None, np.array(1), inverse=1),
        row(signal, None, np.array(1), onesided=1),
        row(signal, np.array(8), np.array(1), onesided=1),
        row(both, np.array(3), np.array(1)),
        row(half, np.array(6), np.array(1), onesided=1, inverse=1, referee="onnxruntime"),
    ]


def short_transforms() -> list[Row]:
    signal, both = real(2, 16, 1), real(2, 16, 2)
    return [
        row(signal, np.array(4), np.hanning(8).astype(np.float32), np.array(8)),
        row(signal, np.array(3), np.hanning(8).astype(np.float32)),
        row(signal, np.array(4), None, np.array(8)),
        row(both, np.array(4), None, np.array(8), onesided=0),
    ]


CASES_CONTROL: dict[str, list[Row]] = {
    "BlackmanWindow": windows(),
    "ConcatFromSequence": [
        graph(sequence("y = ConcatFromSequence<axis = -1>(s)"), *PAIR),
        graph(sequence("y = ConcatFromSequence<axis = 1, new_axis = 1>(s)", "float[2,2,3] y"), *PAIR),
    ],
    "DFT": transforms(),
    "HammingWindow": windows(),
    "HannWindow": windows(),
    "If": [graph(IF, np.array(True), X), graph(IF, np.array(False), X), graph(IF_KNOWN, X)],
    "ImageDecoder": [image(name) for name in ("RGB", "BGR", "Grayscale")],
    "Loop": [
        graph(LOOP_COUNTED, X),
        graph(LOOP_GROWING, X),
        graph(LOOP_WHILE, np.array(20), X, smooth=False),
        graph(LOOP_WHILE, np.array(2), X, smooth=False),
        graph(LOOP_NEVER, X),
        graph(LOOP_SEQUENCE, X),
    ],
    "MelWeightMatrix": [row(np.array(8), np.array(64), np.array(8192), scalar(0), scalar(4096))],
    "Optional": [graph(OPTIONAL, X), graph(OPTIONAL_EMPTY, X)],
    "OptionalGetElement": [graph(OPTIONAL, X)],
    "OptionalHasElement": [graph(OPTIONAL, X), graph(OPTIONAL_EMPTY, X)],
    "STFT": short_transforms(),
    "Scan": [graph(SCAN, real(2), real(4, 2)), graph(SCAN_AXES, real(2), real(2, 4), real(4))],
    "SequenceAt": [graph(sequence(f"{AT} y = SequenceAt(s, last)"), *PAIR)],
    "SequenceConstruct": [graph(sequence(JOINED.replace("(r)", "(s)")), *PAIR)],
    "SequenceEmpty": [graph(sequence("e = SequenceEmpty() r = SequenceInsert(e, b) " + JOINED), *PAIR)],
    "SequenceErase": [
        graph(sequence("r = SequenceErase(s) " + JOINED), *PAIR),
        graph(sequence(f"{AT} r = SequenceErase(s, zero) " + JOINED), *PAIR),
    ],
    "SequenceInsert": [
        graph(sequence("r = SequenceInsert(s, a) " + JOINED), *PAIR),
        graph(sequence(f"{AT} r = SequenceInsert(s, b, zero) " + JOINED), *PAIR),
        graph(sequence(f"{AT} r = SequenceInsert(s, b, last) " + JOINED), *PAIR),
    ],
    "SequenceLength": [graph(sequence("y = SequenceLength(s)", "int64 y"), *PAIR)],
    "SequenceMap": [
        graph(sequence(f"r = {MAP}(s, s) " + JOINED), *PAIR),
        graph(sequence(f"r = {MAP}(s, b) " + JOINED), *PAIR),
    ],
    "SplitToSequence": [
        graph(sequence("r = SplitToSequence<axis = 1, keepdims = 0>(a) y = ConcatFromSequence<axis = 0>(r)"), *PAIR),
        graph(sequence("t = Constant<value_int = 2>() r = SplitToSequence<axis = 1>(a, t) " + JOINED), *PAIR),
        graph(sequence("t = Constant<value_ints = [1, 2]>() r = SplitToSequence<axis = 1>(a, t) " + JOINED), *PAIR),
    ],
    "TfIdfVectorizer": [
        row(WORDS, **ngrams()),
        row(WORDS, **ngrams(max_skip_count=5, min_gram_length=2)),
        row(WORDS[1], **ngrams(mode="IDF", weights=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])),
        row(WORDS.astype(np.int64), **ngrams(mode="TFIDF", weights=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])),
    ],
}
