"""Rows of each operator: inputs, attributes and opset of every supported form. Data for test_operators.py.

Inputs that an operator needs when it is compiled (`static` in `converters/ops/info.py`) become constants of the
one-node graph, all others its inputs. Spatial sizes differ from each other, so that a swapped height and width shows.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from xbench.converters.ops.info import info

INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT


@dataclass(frozen=True)
class Row:
    """One call of an operator; `referee` says what is right, `smooth` whether finite differences may be taken."""

    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 20
    outputs: int = 1
    constants: tuple[int, ...] | None = None
    referee: str = "onnx.reference"
    smooth: bool = True
    training: bool = False

    def static(self, op: str) -> tuple[int, ...]:
        return info(op).static if self.constants is None else self.constants

    def given(self, op: str) -> list[np.ndarray]:
        """The arrays that are inputs of the graph."""
        return [a for i, a in enumerate(self.inputs) if a is not None and i not in self.static(op)]

    def differentiable(self, op: str) -> bool:
        """Whether a floating array goes in and does not come out as integers."""
        kept = self.attributes.get("to", FLOAT) == FLOAT
        if op == "CastLike":
            kept = all(array.dtype == np.float32 for array in self.given(op))
        return kept and any(array.dtype == np.float32 for array in self.given(op))

    def model(self, op: str) -> onnx.ModelProto:
        """A graph of this one node."""
        names = ["" if a is None else f"x{i}" for i, a in enumerate(self.inputs)]
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(op, names, outputs, **self.attributes)
        inputs, constants = [], []
        for i, (name, array) in enumerate(zip(names, self.inputs, strict=True)):
            if array is not None and i in self.static(op):
                constants.append(numpy_helper.from_array(array, name))
            elif array is not None:
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph([node], op, inputs, results, constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        return onnx.shape_inference.infer_shapes(made, strict_mode=True)


def row(*inputs: Any, opset: int = 20, outputs: int = 1, **rest: Any) -> Row:
    own = {k: rest.pop(k) for k in ("constants", "referee", "smooth", "training") if k in rest}
    return Row(inputs, rest, opset, outputs, **own)


def real(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers of both signs and no ties."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    return np.abs(real(*shape, seed=seed)) + np.float32(0.5)


def int_array(*shape: int, low: int = -5, high: int = 6) -> np.ndarray:
    return np.random.default_rng([7, *shape]).integers(low, high, shape)


def truth(*shape: int, seed: int = 0) -> np.ndarray:
    return real(*shape, seed=seed) > 0


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


X = real(2, 3, 4)
KINK = np.array([-2, -0.0, 0, 3], np.float32)  # where activations have more than one slope
IMAGE = real(2, 4, 7, 9)
SORTED = np.sort(real(24)).reshape(2, 3, 4)  # far apart: no tie, no kink


def unary(*, smooth: bool = True, x: np.ndarray = X) -> list[Row]:
    return [row(x, smooth=smooth)]


def binary(a: np.ndarray = X, b: np.ndarray | None = None, smooth: bool = True) -> list[Row]:
    b = real(3, 1, seed=1) if b is None else b
    return [row(a, b, smooth=smooth), row(b, a, smooth=smooth)]


def compared() -> list[Row]:
    return [row(X, real(3, 1, seed=1)), row(int_array(3, 4), int_array(4))]


def reduced(x: np.ndarray = X) -> list[Row]:
    return [
        row(x, ints(1)),
        row(x, ints(-1, 0), keepdims=0),
        row(x),
        row(x, keepdims=0),
        row(x, noop_with_empty_axes=1),
        row(x, ints(1), opset=18),
    ]


def normalised() -> list[Row]:
    def batch_norm(x: np.ndarray, **rest: Any) -> Row:
        n = x.shape[1]
        statistics = (real(n, seed=2), positive(n, seed=3))
        return row(x, positive(n), real(n, seed=1), *statistics, constants=(3, 4), **rest)

    inputs = (IMAGE, real(6, 4), real(2, 4, 5), real(1, 2, 3, 4, 5))
    training = {"training": True, "training_mode": 1, "outputs": 3}
    return [
        *(batch_norm(x, epsilon=1e-3) for x in inputs),
        *(batch_norm(x, momentum=0.7, epsilon=1e-3, **training) for x in inputs),
    ]


def layer_normalised() -> list[Row]:
    return [
        row(X, positive(4), real(4, seed=1)),
        row(X, positive(4), epsilon=1e-2),
        row(X, positive(3, 4), real(3, 4, seed=1), axis=1),
        row(X, positive(3, 4), axis=-2),
    ]


def recurrent(gates: int, **attributes: Any) -> list[Row]:
    time, batch, size, hidden = 5, 2, 3, 4

    def cell(directions: int, biased: bool, states: int = 0, **rest: Any) -> Row:
        w = real(directions, gates * hidden, size, seed=1)
        r = real(directions, gates * hidden, hidden, seed=2)
        b = real(directions, 2 * gates * hidden, seed=3) if biased else None
        given = [real(directions, batch, hidden, seed=4 + i) for i in range(states)]
        inputs = (real(time, batch, size), w, r, b, *([None] if states else []), *given)
        inputs = inputs[:3] if not biased and not states else inputs
        return row(*inputs, hidden_size=hidden, outputs=3 if gates == 4 else 2, **rest, **attributes)

    both = {"direction": "bidirectional", "referee": "onnxruntime"}
    return [
        cell(1, True, referee="onnxruntime"),
        cell(1, False, referee="onnxruntime"),
        cell(1, True, gates - 2, referee="onnxruntime"),
        cell(2, True, **both),
        cell(2, False, gates - 2, **both),
    ]


CASES: dict[str, list[Row]] = {
    "Abs": unary(),
    "Add": [*binary(), row(int_array(3, 4), int_array(4))],
    "And": [row(truth(3, 4), truth(4, seed=1))],
    "ArgMax": [row(X, axis=1), row(X, axis=-1, keepdims=0), row(X)],
    "BatchNormalization": normalised(),
    "Cast": [
        row(X * 3, to=INT64),
        row(int_array(3, 4), to=FLOAT),
        row(truth(3, 4), to=FLOAT),
        row(X, to=TensorProto.BOOL),
        row(X, to=FLOAT),
        row(int_array(3, 4), to=TensorProto.INT32),
    ],
    "Clip": [
        row(X * 4, scalar(-1.5), scalar(2.5), constants=(1, 2)),
        row(X * 8, scalar(0), scalar(6), constants=(1, 2)),
        row(X, scalar(0.25), constants=(1,)),
        row(X, None, scalar(0.25), constants=(2,)),
        row(X),
        row(KINK, scalar(0.0), scalar(3.0), constants=(1, 2), smooth=False),
    ],
    "Concat": [row(X, real(2, 5, 4), axis=1), row(X, X, axis=-1), row(ints(1, 2), ints(3), axis=0)],
    "ConstantOfShape": [
        row(ints(2, 3)),
        row(ints(2, 3), value=numpy_helper.from_array(ints(7))),
        row(ints(4), value=numpy_helper.from_array(np.array([2.5], np.float32))),
        row(ints(4), value=numpy_helper.from_array(np.array([True]))),
        row(ints(2), value=numpy_helper.from_array(np.array([3], np.int32))),
        row(ints(2), value=numpy_helper.from_array(np.array([0.1], np.float16))),
    ],
    "Constant": [row(value_ints=[3, 1, 2])],
    "Div": [
        *binary(positive(2, 3, 4), positive(3, 1, seed=1)),
        row(int_array(3, 4, low=-9, high=9), ints(-4, 2, 3, -1)),
    ],
    "Dropout": [row(X), row(X, scalar(0.25), np.array(False), constants=(1, 2))],
    "Einsum": [row(X, real(2, 4, 5), equation="bij,bjk->bik"), row(real(3, 4), real(4), equation="ij,j->i")],
    "Equal": [row(int_array(3, 4), int_array(4)), row(int_array(3, 4), ints(2), constants=(1,))],
    "Erf": unary(),
    "Exp": unary(),
    "Expand": [row(real(3, 1), ints(2, 1, 4)), row(X, ints(1, 1)), row(int_array(3, 1), ints(3, 4))],
    "Flatten": [row(X), row(X, axis=2), row(X, axis=0), row(X, axis=-1)],
    "Floor": unary(smooth=False),
    "GRU": [*recurrent(3, linear_before_reset=1), *recurrent(3)],
    "Gather": [
        row(real(5, 3), int_array(2, 4, high=5)),
        row(X, ints(2, 0, -1), axis=1, constants=(1,)),
        row(X, int_array(2, 2, low=-4, high=4), axis=-1),
        row(X, np.array(1), axis=2, constants=(1,)),
        row(ints(5, 6, 7), ints(2, -3)),
        row(X, np.array(-1), axis=1, constants=(1,)),
    ],
    "Gelu": [row(X), row(X, approximate="tanh")],
    "Gemm": [
        row(real(2, 3), real(3, 4), real(4)),
        row(real(3, 2), real(4, 3), transA=1, transB=1),
        row(real(2, 3), real(4, 3), real(2, 4), transB=1, alpha=0.5, beta=2.0),
        row(real(2, 3), real(3, 4), real(2, 1), beta=0.25),
        row(real(2, 3), real(3, 4), real(1), beta=1.0),
        row(real(2, 3), real(3, 4), np.array(0.5, np.float32)),
    ],
    "Greater": compared(),
    "GreaterOrEqual": [*compared(), row(int_array(3, 4), int_array(3, 4))],
    "HardSigmoid": [row(X * 3), row(X * 3, alpha=0.5, beta=0.25), row(KINK, alpha=0.25, smooth=False)],
    "HardSwish": [row(X * 4)],
    "Identity": unary(),
    "LSTM": recurrent(4),
    "LayerNormalization": layer_normalised(),
    "LeakyRelu": [row(X), row(X, alpha=0.2), row(KINK, smooth=False)],
    "Less": compared(),
    "LessOrEqual": [*compared(), row(int_array(3, 4), int_array(3, 4))],
    "Log": unary(x=positive(2, 3)),
    "LogSoftmax": [row(X), row(X * 50, axis=1, referee="onnxruntime")],
    "MatMul": [
        row(X, real(2, 4, 5)),
        row(X, real(4, 5)),
        row(real(5, 1, 3, 4), real(2, 4, 6)),
        row(X, real(4)),
        row(real(3), real(2, 3, 4)),
        row(real(3), real(3, seed=1)),
    ],
    "Max": [*binary(), row(X, real(4), real(3, 1)), row(X, scalar(0.25), constants=(1,)), row(X)],
    "Min": [*binary(), row(X, real(4), real(3, 1)), row(scalar(0.25), X, constants=(0,))],
    "Mul": [*binary(), row(X, scalar(0.5), constants=(1,)), row(int_array(3), int_array(3))],
    "Neg": unary(),
    "Not": [row(truth(3, 4))],
    "Or": [row(truth(3, 4), truth(4, seed=1))],
    "Pad": [
        row(X, ints(1, 0, 2, 0, 3, 1)),
        row(X, ints(1, 2, 0, 1), scalar(1.5), ints(2, -2), constants=(1, 2, 3)),
        row(X, ints(0, -1, 1, 0, 0, 1), referee="onnxruntime"),
        row(X, ints(0, 2, 1, 0, 1, 3), mode="reflect"),
        row(IMAGE, ints(0, 0, 2, 1, 0, 0, 1, 3), mode="edge"),
        row(IMAGE, ints(0, 0, 2, 1, 0, 0, 1, 3), mode="wrap"),
        row(real(2, 1, 3), ints(0, 1, 2, 0, 1, 0), mode="edge"),
        row(real(2, 3), ints(0, 5, 0, 7), mode="wrap"),
    ],
    "Pow": [row(positive(2, 3), real(3)), row(X, scalar(2.0), constants=(1,)), row(X, ints(3), constants=(1,))],
    "Range": [
        row(*(np.array(n) for n in (2, 9, 3))),
        row(*(np.array(n) for n in (9, 2, -2))),
        row(*(scalar(n) for n in (0, 2, 0.5))),
    ],
    "Reciprocal": unary(x=positive(2, 3)),
    "ReduceMax": reduced(SORTED),
    "ReduceMean": reduced(),
    "ReduceMin": reduced(SORTED),
    "ReduceProd": reduced(positive(2, 3, 4)),
    "ReduceSum": reduced(),
    "Relu": [*unary(), row(KINK, smooth=False)],
    "Reshape": [row(X, ints(4, -1)), row(X, ints(0, 2, -1)), row(X, ints(3, 8), allowzero=1)],
    "Shape": [row(X), row(X, start=1), row(X, start=-2, end=-1)],
    "Sigmoid": unary(),
    "Slice": [
        row(X, ints(1), ints(3), ints(2)),
        row(X, ints(0, -3), ints(2**63 - 1, -1), ints(0, -1)),
        row(X, ints(-1), ints(-(2**62)), ints(1), ints(-1)),
        row(X, ints(-1), ints(-(2**63)), ints(2), ints(-1)),
        row(X, ints(3), ints(0), ints(2), ints(-2)),
        row(X, ints(0, 1), ints(2, 3)),
        row(X, ints(0), ints(4), ints(2), ints(2)),
        row(X, ints(0), ints(2**31 - 1), ints(2), ints(3)),
        row(X, ints(-1), ints(-5), ints(2), ints(-1)),
    ],
    "Softmax": [row(X), row(X * 50, axis=1), row(real(2, 3), axis=0)],
    "Split": [
        row(X, ints(1, 3), axis=2, outputs=2),
        row(X, axis=-1, outputs=2, num_outputs=2),
        row(X, axis=1, outputs=2, num_outputs=2),
    ],
    "Sqrt": unary(x=positive(2, 3)),
    "Squeeze": [row(real(2, 1, 3, 1), ints(1)), row(real(2, 1, 3, 1), ints(-1, 1)), row(real(2, 1, 3, 1))],
    "Sub": [*binary(), row(scalar(1.0), X, constants=(0,)), row(int_array(3), int_array(3))],
    "Tanh": unary(),
    "Tile": [row(X, ints(1, 2, 3)), row(real(3), ints(2))],
    "Transpose": [row(X), row(X, perm=[0, 2, 1]), row(X, perm=[2, 0, 1])],
    "Trilu": [row(real(3, 4)), row(X, np.array(1)), row(real(4, 3), np.array(-1), upper=0), row(real(3, 3), upper=0)],
    "Unsqueeze": [row(X, ints(0)), row(X, ints(-1, 1)), row(X, ints(3, 0))],
    "Where": [
        row(truth(3, 4), real(3, 4), real(4, seed=1)),
        row(truth(3, 4), real(3, 4), scalar(-np.inf), constants=(2,), smooth=False),
        row(truth(3, 1), scalar(1.0), real(3, 4), constants=(1,)),
        row(truth(3, 1), scalar(1.5), scalar(-np.inf), constants=(1, 2)),  # two numbers, and no array of their type
    ],
}

from cases_control import CASES_CONTROL  # noqa: E402 - which need the names above
from cases_image import CASES_IMAGE  # noqa: E402
from cases_numeric import CASES_NUMERIC  # noqa: E402

CASES |= CASES_CONTROL | CASES_IMAGE | CASES_NUMERIC
