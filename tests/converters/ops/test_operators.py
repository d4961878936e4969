"""Every operator of every table computes what ONNX says, and has PyTorch's gradient, eagerly and compiled.

Each row of `cases.py` becomes a graph of one node, is printed by `converters.convert` and runs in the framework's
table, so the printer is tested too. PyTorch's gradients are proved by finite differences in float64; they are then the
truth for the other frameworks.
"""

import functools
import importlib.util
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from cases import CASES, Row
from cases_random import CASES_RANDOM
from onnx.reference import ReferenceEvaluator

from xbench.converters import Program
from xbench.converters.codegen.program import convert
from xbench.converters.passes.fusion import ATTENTION

# The name of a framework is the name of its table.
FRAMEWORKS = ("torch", "jax", "tensorflow")
ROWS = [pytest.param(op, i, id=f"{op}-{i}") for op, rows in CASES.items() for i in range(len(rows))]
# Not compilable: inputs whose values determine shapes.
VALUES_DECIDE_SHAPES: dict[str, Callable[[Row], bool]] = {
    "ImageDecoder": lambda row: True,
    "NonMaxSuppression": lambda row: row.constants is None,
    "NonZero": lambda row: True,
    "RoiAlign": lambda row: "sampling_ratio" not in row.attributes and row.constants is None,
    "Unique": lambda row: True,
}
# Not supported by a framework: it must refuse instead of computing something else.
REFUSED: dict[str, dict[str, Callable[[Row], bool]]] = {
    "torch": {"ImageDecoder": lambda row: importlib.util.find_spec("PIL") is None},
    "jax": VALUES_DECIDE_SHAPES | {"RoiAlign": lambda row: "sampling_ratio" not in row.attributes},
    "tensorflow": VALUES_DECIDE_SHAPES,
}
# JAX runs these but does not differentiate them: loops with a number of iterations known only at run time.
NOT_DIFFERENTIATED = {"jax": {"Loop": lambda row: len(row.inputs) > 1}}

# Operators whose results are not differentiable, or do not depend on an input.
DISCRETE = {"ArgMax", "ArgMin", "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less"}
DISCRETE |= {"DynamicQuantizeLinear", "EyeLike", "Hardmax", "LessOrEqual", "MelWeightMatrix", "NonZero"}
DISCRETE |= {"QLinearConv", "QLinearMatMul", "QuantizeLinear", "Round", "SequenceLength", "Sign", "Size", "Unique"}
DISCRETE |= {"NonMaxSuppression", "Range", "Shape"}
DIFFERENTIABLE = [
    p
    for p in ROWS
    if (case := CASES[p.values[0]][p.values[1]]).differentiable(p.values[0]) and p.values[0] not in DISCRETE
]


@functools.cache
def table(framework: str) -> dict[str, Callable[..., Any]]:
    pytest.importorskip(framework)
    return importlib.import_module(f"xbench.converters.ops.{framework}").TABLE


@functools.cache
def program(op: str, index: int) -> Program:
    return convert(ir.from_proto(CASES[op][index].model(op)), [])


@functools.cache
def expected(op: str, index: int) -> list[np.ndarray]:
    row = CASES[op][index]
    feed = dict(zip(program(op, index).inputs, row.given(op), strict=True))
    if row.referee == "onnxruntime":
        import onnxruntime

        session = onnxruntime.InferenceSession(row.model(op).SerializeToString(), providers=["CPUExecutionProvider"])
        return list(session.run(None, feed))
    return [np.asarray(value) for value in ReferenceEvaluator(row.model(op)).run(None, feed)]


def floats(arrays: Sequence[np.ndarray]) -> list[int]:
    return [i for i, a in enumerate(arrays) if a.dtype == np.float32]


def direction(shape: Sequence[int]) -> np.ndarray:
    """Weights of the outputs in a sum: one number that depends on every element. Their mean is not zero, or the
    gradient of what is added everywhere would be the rounding of a sum that cancels."""
    return (np.cos(np.arange(np.prod(shape, dtype=int), dtype=np.float64) + 1) + 0.5).reshape(shape)


def outputs_of(apply: Callable[..., Any], state: Any, training: bool) -> Callable[..., tuple[Any, ...]]:
    """The node as a function of its inputs. Running statistics, outputs after y in training, have no gradient."""

    def call(*inputs: Any) -> tuple[Any, ...]:
        outputs, _ = apply({}, state, *inputs, training=training)
        return tuple(outputs)

    return call


# ***** one runner per framework: eager outputs, compiled outputs, gradients *****


def torch_call(op: str, index: int, double: bool = False) -> Callable[..., tuple[Any, ...]]:
    import torch

    made = program(op, index)
    state = {name: torch.from_numpy(np.array(a)) for name, a in made.state.items()}
    if double:
        state = {name: a.double() if a.is_floating_point() else a for name, a in state.items()}
    return outputs_of(made.bind(table("torch")), state, CASES[op][index].training)


def run_torch(op: str, index: int) -> list[list[np.ndarray]]:
    import torch

    inputs = [torch.from_numpy(np.array(a)) for a in CASES[op][index].given(op)]
    return [[np.asarray(y) for y in torch_call(op, index)(*inputs)]]


def torch_total(op: str, index: int) -> tuple[Callable[..., Any], list[Any]]:
    """A float64 function of the floating inputs alone, and those inputs."""
    import torch

    row, call = CASES[op][index], torch_call(op, index, double=True)
    arrays = [torch.from_numpy(np.array(a)) for a in row.given(op)]
    which = floats(row.given(op))

    def total(*given: Any) -> Any:
        every = list(arrays)
        for position, value in zip(which, given, strict=True):
            every[position] = value
        results = [
            y
            for y in call(*every)[: 1 if row.training else None]
            if isinstance(y, torch.Tensor) and y.is_floating_point()
        ]
        return sum((y * torch.from_numpy(direction(y.shape))).nan_to_num(neginf=0.0).sum() for y in results)

    return total, [arrays[i].double().requires_grad_() for i in which]


@functools.cache
def torch_gradients(op: str, index: int) -> list[np.ndarray]:
    """Gradients of the floating inputs, in float64."""
    import torch

    total, given = torch_total(op, index)
    gradients = torch.autograd.grad(total(*given), given, allow_unused=True)
    return [np.zeros(x.shape) if g is None else g.numpy() for x, g in zip(given, gradients, strict=True)]


def run_jax(op: str, index: int) -> list[list[np.ndarray]]:
    import jax
    import jax.numpy as jnp

    made = program(op, index)
    call = outputs_of(made.bind(table("jax")), made.state, CASES[op][index].training)
    inputs = [jnp.asarray(a) for a in CASES[op][index].given(op)]
    return [[np.asarray(y) for y in f(*inputs)] for f in (call, jax.jit(call))]


def jax_gradients(op: str, index: int) -> list[np.ndarray]:
    import jax
    import jax.numpy as jnp

    made, arrays = program(op, index), CASES[op][index].given(op)
    call = outputs_of(made.bind(table("jax")), made.state, CASES[op][index].training)
    inputs, which = [jnp.asarray(a) for a in arrays], tuple(floats(arrays))

    def total(*inputs: Any) -> Any:
        results = [
            y
            for y in call(*inputs)[: 1 if CASES[op][index].training else None]
            if jnp.issubdtype(y.dtype, jnp.floating)
        ]
        weights = [direction(y.shape).astype(np.float32) for y in results]
        return sum(jnp.nan_to_num(y * w, neginf=0.0).sum() for y, w in zip(results, weights, strict=True))

    return [np.asarray(g) for g in jax.jit(jax.grad(total, which))(*inputs)]


def run_tensorflow(op: str, index: int) -> list[list[np.ndarray]]:
    import tensorflow as tf

    made = program(op, index)
    state = {name: tf.constant(a) for name, a in made.state.items()}
    call = outputs_of(made.bind(table("tensorflow")), state, CASES[op][index].training)
    inputs = [tf.constant(a) for a in CASES[op][index].given(op)]
    return [[np.asarray(y) for y in f(*inputs)] for f in (call, tf.function(call, autograph=False))]


def tensorflow_gradients(op: str, index: int) -> list[np.ndarray]:
    import tensorflow as tf

    made, arrays = program(op, index), CASES[op][index].given(op)
    state = {name: tf.constant(a) for name, a in made.state.items()}
    call = outputs_of(made.bind(table("tensorflow")), state, CASES[op][index].training)
    inputs = [tf.constant(a) for a in arrays]

    @functools.partial(tf.function, autograph=False)
    def gradients(*inputs: Any) -> Any:
        given = [inputs[i] for i in floats(arrays)]
        with tf.GradientTape() as tape:
            tape.watch(given)
            results = [tf.convert_to_tensor(y) for y in call(*inputs)[: 1 if CASES[op][index].training else None]]
            results = [y for y in results if y.dtype.is_floating]
            weighted = [y * tf.constant(direction(y.shape), y.dtype) for y in results]
            total = sum(tf.reduce_sum(tf.where(tf.math.is_finite(y), y, tf.zeros_like(y))) for y in weighted)
        return tape.gradient(total, given, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    return [np.asarray(tf.convert_to_tensor(g)) for g in gradients(*inputs)]


RUN = {"torch": run_torch, "jax": run_jax, "tensorflow": run_tensorflow}
GRADIENTS = {"jax": jax_gradients, "tensorflow": tensorflow_gradients}


def assert_close(actual: np.ndarray, truth: np.ndarray, share: float) -> None:
    """Equal up to a share of the largest finite element; integers and booleans exactly."""
    assert actual.shape == truth.shape
    if truth.dtype.kind != "f":
        assert actual.dtype.kind == truth.dtype.kind
        np.testing.assert_array_equal(actual, truth)
        return
    assert actual.dtype.kind == "f"
    peak = np.abs(truth[np.isfinite(truth)]).max(initial=0.0)
    np.testing.assert_allclose(actual, truth, rtol=0, atol=share * peak)


def refused(op: str, index: int, framework: str) -> bool:
    return REFUSED.get(framework, {}).get(op, lambda row: False)(CASES[op][index])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_table_has_an_operator_without_a_row(framework):
    elsewhere = {op for op, _ in CASES_RANDOM} | {ATTENTION}  # ONNX has no node for it: test_fusion.py
    assert sorted(set(table(framework)) - set(CASES) - elsewhere) == []


def test_no_row_is_for_an_operator_that_no_table_has():
    assert sorted(set(CASES) - set(itertools.chain(*(table(f) for f in FRAMEWORKS)))) == []


@pytest.mark.parametrize(("op", "index"), ROWS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_operator_computes_what_onnx_says(framework, op, index):
    if op not in table(framework):
        pytest.skip(f"{framework} has no {op}")
    if refused(op, index, framework):
        with pytest.raises(NotImplementedError):
            RUN[framework](op, index)
        return
    for outputs in RUN[framework](op, index):
        for y, truth in zip(outputs, expected(op, index), strict=True):
            assert y.dtype == truth.dtype or truth.dtype.kind != "f"  # JAX has integers of 32 bits
            assert_close(y, truth, 3e-6)


@pytest.mark.parametrize(("op", "index"), DIFFERENTIABLE)
def test_gradients_in_pytorch_are_finite_differences(op, index, float64):
    import torch

    if refused(op, index, "torch"):
        pytest.skip(f"torch refuses this {op}")
    total, given = torch_total(op, index)
    if CASES[op][index].smooth:
        assert torch.autograd.gradcheck(total, given, eps=1e-6, atol=1e-6, fast_mode=True)


@pytest.mark.parametrize(("op", "index"), DIFFERENTIABLE)
@pytest.mark.parametrize("framework", GRADIENTS)
def test_gradients_are_those_of_pytorch(framework, op, index, float64):
    if any(refused(op, index, name) for name in ("torch", framework)):
        pytest.skip(f"torch or {framework} refuses this {op}")
    if NOT_DIFFERENTIATED.get(framework, {}).get(op, lambda row: False)(CASES[op][index]):
        with pytest.raises(ValueError, match="differentiation"):
            GRADIENTS[framework](op, index)
        return
    for actual, right in zip(GRADIENTS[framework](op, index), torch_gradients(op, index), strict=True):
        assert_close(actual, right, 1e-5)


def test_a_constant_is_dropped_anew_at_every_step_of_a_compiled_program():
    """Dropout of channels is a product with dropped ones: constants, in every framework."""
    import jax
    import tensorflow as tf

    from xbench.converters.ops import jax as jax_ops
    from xbench.converters.ops import tensorflow as tf_ops

    ones, options = np.ones(1000, np.float32), {"seed": 1}
    by_key = jax.jit(lambda key, active: jax_ops.TABLE["Dropout"](ones, 0.5, True, rng=(key, active), **options))
    keys = [jax.random.key(number) for number in (0, 1)]
    active = tf.Variable(1.0)
    by_state = tf.function(lambda: tf_ops.TABLE["Dropout"](ones, 0.5, True, rng=(1, active + 0.0), **options))
    for first, second in ([np.asarray(by_key(key, 1.0)) for key in keys], [by_state().numpy() for _ in range(2)]):
        assert (first != second).any() and first.mean() == pytest.approx(1, abs=0.1) and set(first) == {0.0, 2.0}
    nothing = jax_ops.TABLE["Dropout"](ones, 1.0, True, rng=keys[0], **options)
    assert (np.asarray(nothing) == 0).all()
    active.assign(0.0)
    assert (np.asarray(by_key(keys[0], 0.0)) == 1).all() and (by_state().numpy() == 1).all()
