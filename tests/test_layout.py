"""Channels last: the same values and gradients as ONNX's order, and transposes at the borders only.

Every row of `cases.py` that `converters/layout.py` knows is put behind a pooling of one pixel, which changes nothing but
wants its image channels last, and must still compute what ONNX says.
"""

import functools
import re

import numpy as np
import onnx_ir as ir
import pytest
import test_operators as operators
from cases import CASES

from xbench import models
from xbench.converters import Program, convert
from xbench.converters.layout import FORMS, WANT, channels_last, kernel_orders, reordered

FRAMEWORKS = ("jax", "tensorflow")


def rank(op, index):
    first = CASES[op][index].inputs[0]
    return first.ndim if first is not None and first.dtype == np.float32 else 0


@functools.cache
def pooled(op: str, index: int) -> ir.Model:
    """The graph of a row; an image that goes in passes a pooling that changes nothing."""
    model = ir.from_proto(CASES[op][index].model(op))
    node, image = model.graph[0], model.graph[0].inputs[0]
    if op not in WANT:
        same = ir.node("AveragePool", [image], {"kernel_shape": [1] * (rank(op, index) - 2)}, version=20)
        same.outputs[0].name, same.outputs[0].shape, same.outputs[0].dtype = "same", image.shape, image.dtype
        model.graph.insert_before(node, same)
        for position, value in enumerate(node.inputs):
            if value is image:
                node.replace_input_with(position, same.outputs[0])
    return model


@functools.cache
def turned(op: str, index: int) -> Program:
    return convert(channels_last(pooled(op, index)), [])


def transposes(program: Program) -> int:
    return len(re.findall(r"\bTranspose\(", program.source))


ROWS = [
    pytest.param(op, index, id=f"{op}-{index}")
    for op in sorted(FORMS)
    for index, row in enumerate(CASES[op])
    if rank(op, index) in (3, 4, 5) and row.opset >= 18 and row.referee == "onnx.reference"
]
# Rows of which the pass keeps ONNX's order, and why.
KEPT = {
    "Pool": "more than one output, integers or dilations: the tables have no kernel",
    "Dropout": "its mask is read",
    "": "axes known at run time only, or what is left of them has another order",
}


def test_every_form_has_a_row():
    assert sorted(set(FORMS) - {p.values[0] for p in ROWS}) == []


def test_most_rows_are_turned():
    """Were the pass to turn none, all values below would be right."""
    kept = [p.id for p in ROWS if "channels_last" not in turned(*p.values).source or "_nchw" in body(turned(*p.values))]
    assert len(kept) < len(ROWS) / 5, kept


def body(program: Program) -> str:
    """The text up to the last transpose back, whose result is the graph's."""
    return program.source.rpartition("Transpose(")[0].rpartition("\n")[0]


@pytest.mark.parametrize(("op", "index"), ROWS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_channels_last_computes_what_onnx_says(framework, op, index, monkeypatch):
    truth = operators.expected(op, index)
    monkeypatch.setattr(operators, "program", turned)
    for found in operators.RUN[framework](op, index):
        for y, right in zip(found, truth, strict=True):
            operators.assert_close(y, right, 3e-6)


@pytest.mark.parametrize(("op", "index"), [p for p in ROWS if p in operators.DIFFERENTIABLE or p.values[0] in WANT])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_channels_last_has_the_gradients_of_pytorch(framework, op, index, float64, monkeypatch):
    truth = operators.torch_gradients(op, index)
    monkeypatch.setattr(operators, "program", turned)
    for found, right in zip(operators.GRADIENTS[framework](op, index), truth, strict=True):
        operators.assert_close(found, right, 1e-5)
