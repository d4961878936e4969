"""Standalone files of `converters/codegen/standalone.py` compute what the table computes, without xbench.

Every row of `cases.py` is written as its own file, so every operator's copy is run.
"""

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from cases import CASES
from test_operators import REFUSED, ROWS, assert_close, expected

from xbench.converters.codegen.program import convert
from xbench.converters.codegen.standalone import source

FRAMEWORKS = ("torch", "jax", "tensorflow")


def executed(text: str) -> dict[str, Any]:
    """The names a standalone file defines."""
    assert "xbench" not in text.split('"""', 2)[2], "the file refers to xbench"
    namespace: dict[str, Any] = {"__file__": "model.py", "__name__": "model"}
    exec(compile(text, "model.py", "exec"), namespace)
    return namespace


def as_arrays(framework: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    if framework == "torch":
        import torch

        return {name: torch.from_numpy(np.array(a)) for name, a in arrays.items()}
    if framework == "jax":
        import jax.numpy as jnp

        return {name: jnp.asarray(a) for name, a in arrays.items()}
    import tensorflow as tf

    return {name: tf.constant(a) for name, a in arrays.items()}


@pytest.mark.parametrize(("op", "index"), ROWS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_standalone_file_computes_what_onnx_says(framework, op, index):
    pytest.importorskip(framework)
    row = CASES[op][index]
    if REFUSED.get(framework, {}).get(op, lambda row: False)(row):
        pytest.skip(f"{framework} refuses this {op}")
    program = convert(ir.from_proto(row.model(op)), [])
    apply = executed(source(program, framework, "model"))["apply"]
    inputs = as_arrays(framework, dict(zip(program.inputs, row.given(op), strict=True)))
    outputs, _ = apply({}, as_arrays(framework, program.state), *inputs.values(), training=row.training)
    for y, truth in zip(outputs, expected(op, index), strict=True):
        assert_close(np.asarray(y), truth, 3e-6)
