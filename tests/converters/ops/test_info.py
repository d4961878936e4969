"""The table of operators agrees with ONNX's schemas, as far as they go."""

import onnx
import pytest

from xbench.converters.ops.info import OPERATORS, info, where

SCHEMAS = {each.name: each for each in onnx.defs.get_all_schemas() if not each.domain}
OLD = {"Upsample"}  # that newer opsets no longer have
BOOL = {"tensor(bool)"}


def test_every_row_is_an_operator_of_onnx_and_says_something():
    assert set(OPERATORS) - set(SCHEMAS) - OLD == set()
    assert [name for name, each in OPERATORS.items() if each == info("no operator")] == []


@pytest.mark.parametrize("name", sorted(set(OPERATORS) & set(SCHEMAS)))
def test_inputs_outputs_and_axes_are_those_of_the_schema(name):
    about, schema = OPERATORS[name], SCHEMAS[name]
    assert all(place < schema.max_input for place in about.static)
    assert about.outputs <= schema.max_output
    assert schema.max_output > 1 or not about.counts_outputs
    if about.axes is not None:
        assert schema.inputs[about.axes].name == "axes"
    if about.axis is not None:
        axis = schema.attributes["axis"]
        assert axis.required or axis.default_value.i == about.axis


def test_facts_that_a_schema_has_are_complete():
    graphs = {n for n, s in SCHEMAS.items() if any(a.type.name == "GRAPH" for a in s.attributes.values())}
    assert where("control") == graphs
    tensors = {n: [{*output.types} for output in schema.outputs] for n, schema in SCHEMAS.items()}
    assert where("boolean") == {n for n, outputs in tensors.items() if outputs == [BOOL]}
    reduced = {n for n, s in SCHEMAS.items() if "noop_with_empty_axes" in s.attributes}
    assert where("reduction") == reduced
    drawn = {name for name, s in SCHEMAS.items() if s.node_determinism.name == "NonDeterministic"}
    assert where("random") == drawn - graphs - {"AffineGrid", "Dropout"}  # no draws; draws in training
