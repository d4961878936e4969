"""Random draws: ONNX fixes their shape, type and distribution, not their values."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from cases_random import CASES_RANDOM, Drawn

from xbench.converters.codegen.program import convert

SIGMAS = 5


def torch_runner(program: Any) -> Callable[..., Any]:
    from xbench.converters.ops.torch import TABLE, arrays

    return functools.partial(run, program.bind(TABLE), arrays)


def jax_runner(program: Any) -> Callable[..., Any]:
    pytest.importorskip("jax")
    from xbench.converters.ops.jax import TABLE, arrays

    return functools.partial(run, program.bind(TABLE), arrays)


def tensorflow_runner(program: Any) -> Callable[..., Any]:
    pytest.importorskip("tensorflow")
    from xbench.converters.ops.tensorflow import TABLE, arrays

    return functools.partial(run, program.bind(TABLE), arrays)


def run(apply: Callable[..., Any], arrays: Any, *inputs: np.ndarray) -> np.ndarray:
    ((y,), _) = apply({}, {}, *map(arrays.asarray, inputs))
    return np.asarray(y)


@pytest.mark.parametrize(
    ("op", "drawn"), [pytest.param(*case, id=f"{case[0]}-{i}") for i, case in enumerate(CASES_RANDOM)]
)
@pytest.mark.parametrize("runner", [torch_runner, jax_runner, tensorflow_runner])
def test_draws_have_their_distribution(runner: Callable[..., Any], op: str, drawn: Drawn) -> None:
    model = drawn.row.model(op)
    call = runner(convert(ir.from_proto(model), []))
    values, again = call(*drawn.row.given(op)), call(*drawn.row.given(op))
    np.testing.assert_array_equal(values, again)
    kind = model.graph.output[0].type.tensor_type
    assert values.shape == tuple(d.dim_value for d in kind.shape.dim)
    assert values.dtype == ir.DataType(kind.elem_type).numpy()
    error = drawn.deviation / values.size**0.5
    assert abs(values.mean() - drawn.mean) < SIGMAS * error
    assert abs(values.std() - drawn.deviation) < SIGMAS * error * 3
