"""The parts of `xbench bisect --like`: rounding as ONNX defines it, names without what quantisers add, few large
channels, and graphs of integers written as graphs of floats, which compute the same."""

import logging

import like_nets
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import QuantType

from xbench.parity import candidate, network
from xbench.parity.like import graph, walk
from xbench.parity.like.blame import LIMITS as LIMITS_OF_BLAME
from xbench.parity.like.blame import Finding, blamed
from xbench.parity.like.names import stems
from xbench.parity.like.rounding import LIMITS, Rounding, apart, far, unbounded

RNG = np.random.default_rng(0)


def reference(values, scale, zero, axis, block):
    """What ONNX's own evaluator makes of QuantizeLinear and DequantizeLinear."""
    settings = {"axis": axis} | ({"block_size": block} if block else {})
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **settings),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **settings),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    stored = [onnx.numpy_helper.from_array(array, name) for array, name in ((scale, "s"), (zero, "z"))]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], stored))
    return ReferenceEvaluator(model).run(None, {"x": values})[0]


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize(("shape", "axis", "block"), [((), 1, 0), ((3,), 0, 0), ((4,), 1, 0), ((3, 2, 5), 1, 2)])
def test_values_are_rounded_as_onnx_defines_it(kind, shape, axis, block):
    values = RNG.normal(size=(3, 4, 5)).astype(np.float32)
    scale = RNG.uniform(0.005, 0.02, shape).astype(np.float32)
    zero = RNG.integers(*np.array(LIMITS[kind]) // 2, shape).astype(kind)
    rounding = Rounding(scale.astype(np.float64), zero.astype(np.float64), *LIMITS[kind], axis, block)
    made, right = rounding.applied(values.astype(np.float64)), reference(values, scale, zero, axis, block)
    steps = np.abs(made - right) / rounding.spread(rounding.scale, values.shape)
    assert np.mean(steps > 0.01) < 0.02 and steps.max() < 1.01  # float32 may take the other side of a tie
    outside = np.abs(made - values) / rounding.spread(rounding.scale, values.shape) > 0.500001
    assert rounding.clipped(values.astype(np.float64)) == np.mean(outside) > 0


@pytest.mark.parametrize("zero", [0.0, 17.0])
def test_a_fitted_range_holds_all_values_in_as_many_levels(zero):
    values = np.concatenate([RNG.normal(size=500), [-4.0, 7.0]])
    rounding = Rounding(np.array(1.0), np.array(zero), *LIMITS["int8"]).fitted([values])
    assert rounding.clipped(values) == 0
    assert np.abs(rounding.applied(values) - values).max() <= 0.51 * float(rounding.scale)
    assert float(rounding.scale) == pytest.approx(7 / 127 if zero == 0 else 11 / 255)
    narrow = rounding.fitted([values], 0.5)
    assert float(narrow.scale) == pytest.approx(float(rounding.scale) / 2) and narrow.clipped(values) > 0


def test_a_range_without_the_far_channels_rounds_the_others_finely():
    values = RNG.normal(size=(16, 32))
    values[:, 5] *= 1000
    places = far(values, 1)
    assert np.flatnonzero(places).tolist() == [5]
    whole = Rounding(np.array(1.0), np.array(0.0), *LIMITS["int8"]).fitted([values])
    others = whole.fitted([np.compress(~places, values, 1)])
    parted = whole.apart(1, values, others, places)
    assert apart(np.delete(whole.applied(values), 5, 1), np.delete(values, 5, 1)) > 0.5
    assert apart(np.delete(parted.applied(values), 5, 1), np.delete(values, 5, 1)) < 0.02


def test_an_error_that_is_not_finite_is_infinite_unless_the_original_is_not_finite_either():
    assert apart(np.array([1.0, np.inf]), np.array([1.0, 2.0])) == np.inf
    assert apart(np.array([1.0, np.nan]), np.array([1.0, np.nan])) == 0
    assert apart(np.array([1.1, -np.inf]), np.array([1.0, -np.inf])) == pytest.approx(0.1)


def test_floats_of_16_bits_without_bounds_keep_their_digits():
    values = np.array([1e-30, 3.14159265, -7e25])
    made = unbounded(values, "float16")
    assert np.abs(made / values - 1).max() < 2.0**-11 and (made != values).all()


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("a_DequantizeLinear_Output", "a"),
        ("a_QuantizeLinear_Input", "a"),
        ("a_DequantizeLinear_Output_2", "a"),
        ("a_quantized", "a"),
        ("a_output_quantized_cast_output", "a"),
        ("quantized", "quantized"),
        ("_quantized", "_quantized"),
        ("x" * 5000 + "_quantized", "x" * 5000 + "_quantized"),
    ],
)
def test_names_lose_what_quantisers_add(name, stem):
    assert stems(name)[-1] == stem and stems(name)[0] == name


@pytest.mark.parametrize(
    ("shares", "faults", "expected"),
    [
        ([0.5], [2.0], [0]),
        ([0.5], [0.9], []),  # nothing is wrong with it
        ([0.9, 0.12], [0.9, 2.0], []),  # it is wrong, and loses too little
        ([0.7, 0.12, 0.11], [0.9, 2.0, 3.0], [1, 2]),  # two together lose enough
        ([0.9, 0.04, 0.04, 0.04, 0.04, 0.04], [0.9, *[9.0] * 5], []),
    ],
)
def test_a_source_is_blamed_if_something_is_wrong_with_it_and_it_matters(shares, faults, expected):
    found = [
        Finding(None, share**0.5, share, {"range": fault * LIMITS_OF_BLAME["range"]})
        for share, fault in zip(shares, faults, strict=True)
    ]
    assert [found.index(each) for each in blamed(found)] == expected


@pytest.mark.parametrize("form", [*like_nets.FORMS, "unsigned"])
@pytest.mark.parametrize("name", ["random 2", "googlenet", "densenet"])
def test_a_graph_without_integers_computes_the_same(name, form, exporter, tmp_path):
    """Weights of `unsigned` have a zero point."""
    more = {"weight_type": QuantType.QUInt8} if form == "unsigned" else {}
    logging.disable(logging.WARNING)
    like_nets.exported(name, tmp_path / "plain.onnx")
    how = "operators" if form == "unsigned" else form
    like_nets.quantised(name, how, tmp_path / "plain.onnx", tmp_path / "quantised.onnx", **more)
    logging.disable(logging.NOTSET)
    artifact = exporter.artifact(str(tmp_path / "quantised.onnx"))
    inputs, _ = candidate.sample(artifact, 3, 0)
    made = walk.Walk(graph.read(artifact))
    operators = {node.op_type for node in made.nodes}
    assert not operators & {"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"}
    with walk.in_float64():
        values = made.run(made.given(inputs))
    (own,) = (walk.array_of(values[value]) for value in made.graph.model.graph.outputs)
    (right,) = network.evaluated(artifact)(inputs)
    assert apart(own, right) < 1e-3  # ties may be broken otherwise
    assert all(node in made.graph.owners for node in made.nodes)
