"""Operators that are written once, in NumPy: every row of every operator."""

import numpy as np
import pytest
import test_operators as rows
from cases import CASES

from xbench.converters.ops.arrays import numpy as xp
from xbench.converters.ops.generic import operators, reduce

TABLE = operators(xp, {})
KERNELS = {"Conv", "ConvTranspose"}  # every framework has its own


def test_every_operator_but_convolutions_is_written_once():
    assert set(CASES) - set(TABLE) == KERNELS


@pytest.mark.parametrize("op", sorted(set(CASES) - KERNELS))
def test_an_operator_computes_in_numpy_what_onnx_says(op):
    for index, row in enumerate(CASES[op]):
        program = rows.program(op, index)
        call = rows.outputs_of(program.bind(TABLE), program.state, row.training)
        with np.errstate(all="ignore"):
            outputs = call(*row.given(op))
        for y, right in zip(outputs, rows.expected(op, index), strict=True):
            rows.assert_close(np.asarray(y), right, 3e-6)


@pytest.mark.parametrize("axis", [2, -3, 5])
def test_an_axis_that_is_a_tensor_is_within_the_rank(axis):
    with pytest.raises(ValueError, match=f"CumSum: there is no axis {axis} among 2"):
        reduce.CumSum(xp, np.ones((2, 3)), np.array(axis))
