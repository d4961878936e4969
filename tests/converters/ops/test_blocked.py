"""Files in the layout that ONNX Runtime writes for one kind of CPU: what they are here is the network they were made
from."""

import numpy as np
import onnx
import onnxruntime
import pytest
from bodies import computed, normal
from onnx import helper, numpy_helper

from xbench.converters.frontends import validity
from xbench.converters.frontends.tensors import NoOracle
from xbench.converters.ops import contrib
from xbench.host import machine

pytestmark = pytest.mark.skipif(machine.channel_block() is None, reason="ONNX Runtime has no such layout on this CPU")

WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
LINEAR = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def conv(outputs, inputs, size=3, bias=True, **words):
    weights = [normal(outputs, inputs, size, size) / 8, *[normal(outputs)] * bias]
    return "Conv", ["h", *weights], {"kernel_shape": [size, size], "pads": [size // 2] * 4, **words}


FIRST = [conv(20, 3), ("Relu", ["h"], {})]
WIDE = conv(32, 3)
TURNED, BACK = ("Transpose", ["h"], {"perm": [0, 2, 3, 1]}), ("Transpose", ["h"], {"perm": [0, 3, 1, 2]})
# Nodes of one value `h` after another; the operators of the layout that ONNX Runtime then uses.
NETWORKS = {
    "few channels": ([conv(16, 3), ("Sigmoid", ["h"], {})], {"Conv", "ReorderOutput"}),
    "channels that fill no block": ([*FIRST, conv(24, 20, strides=[2, 2])], {"Conv", "ReorderOutput"}),
    "dilated": ([*FIRST, conv(16, 20, dilations=[2, 2], pads=[2, 2, 2, 2], bias=False)], {"Conv", "ReorderOutput"}),
    "depthwise": (
        [*FIRST, conv(20, 1, group=20), ("Clip", ["h", 0.0, 6.0], {}), conv(8, 20, 1)],
        {"Conv", "ReorderOutput"},
    ),
    "groups": ([conv(64, 3), conv(64, 32, group=2)], {"Conv", "ReorderOutput"}),
    "a sum": (
        [*FIRST, ("same", [], {}), conv(20, 20), ("Add", ["h", "same"], {}), ("Relu", ["h"], {})],
        {"Conv", "ReorderOutput"},
    ),
    "an activation with a slope": ([conv(16, 3), ("LeakyRelu", ["h"], {"alpha": 0.3})], {"Conv", "ReorderOutput"}),
    "pools": (
        [
            WIDE,
            ("MaxPool", ["h"], {**WINDOW, "strides": [2, 2]}),
            conv(16, 32),
            ("AveragePool", ["h"], {**WINDOW, "count_include_pad": 1}),
            ("AveragePool", ["h"], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
        ],
        {"Conv", "MaxPool", "AveragePool", "ReorderOutput"},
    ),
    "a global maximum": ([WIDE, ("GlobalMaxPool", ["h"], {})], {"Conv", "GlobalMaxPool", "ReorderOutput"}),
    "a global mean": ([WIDE, ("GlobalAveragePool", ["h"], {})], {"Conv", "GlobalAveragePool", "ReorderOutput"}),
    "nearest": (
        [*FIRST, ("Resize", ["h", None, [1.0, 1.0, 2.0, 3.0]], NEAREST)],
        {"Conv", "Upsample", "ReorderOutput"},
    ),
    "linear": ([*FIRST, ("Resize", ["h", None, [1.0, 1.0, 2.0, 2.0]], LINEAR)], {"Conv", "Upsample", "ReorderOutput"}),
    "between others": (
        [*FIRST, ("Softmax", ["h"], {"axis": 1}), conv(16, 20)],
        {"Conv", "ReorderInput", "ReorderOutput"},
    ),
    "turned": ([*FIRST, TURNED], {"Conv", "ReorderOutput"}),
    "turned and back": (
        [TURNED, ("MatMul", ["h", normal(3, 20)], {}), BACK, conv(16, 20)],
        {"Conv", "ReorderInput", "ReorderOutput"},
    ),
}


def plain(chain):
    """A file of these nodes."""
    nodes, weights, names, value = [], [], {}, "x"
    for place, (operator, inputs, words) in enumerate(chain):
        if not inputs:
            names[operator] = value
            continue
        given = []
        for index, each in enumerate(inputs):
            stored = each is not None and not isinstance(each, str)
            given.append("" if each is None else f"w{place}_{index}" if stored else {"h": value, **names}[each])
            if stored:
                weights.append(numpy_helper.from_array(np.asarray(each, np.float32), given[-1]))
        nodes.append(helper.make_node(operator, given, [f"v{place}"], **words))
        value = f"v{place}"
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3, 12, 12])
    graph = helper.make_graph(
        nodes, "g", [x], [helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, None)], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def optimise(model, file):
    """Write the file that ONNX Runtime makes of it for this CPU; return its session."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(file), 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_file_in_blocks_is_the_network_it_was_made_from(tmp_path, name):
    chain, operators = NETWORKS[name]
    session = optimise(plain(chain), tmp_path / "m.onnx")
    image = normal(2, 3, 12, 12)
    nodes = onnx.load(tmp_path / "m.onnx").graph.node
    assert {node.op_type for node in nodes if node.domain == contrib.BLOCKED} == operators
    (expected,), (actual,) = session.run(None, {"x": image}), computed(tmp_path, image)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize("size", [None, 64])
def test_a_file_for_another_cpu_has_no_oracle(tmp_path, monkeypatch, size):
    optimise(plain([WIDE]), tmp_path / "m.onnx")
    monkeypatch.setattr(machine, "channel_block", lambda: size)
    with pytest.raises(NoOracle, match=r"com\.microsoft\.nchwc\.Conv"):
        validity.check(onnx.load(tmp_path / "m.onnx"))


def test_every_operator_of_the_layout_has_a_network():
    known = {name for domain, name in contrib.OPERATORS if domain == contrib.BLOCKED}
    assert set().union(*(operators for _, operators in NETWORKS.values())) == known


def test_a_file_of_less_than_no_channels_has_no_oracle(tmp_path):
    optimise(plain([WIDE]), tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    (node,) = (each for each in model.graph.node if each.op_type == "ReorderOutput")
    next(each for each in node.attribute if each.name == "channels").i = -1
    with pytest.raises(NoOracle, match=r"com\.microsoft\.nchwc\.ReorderOutput"):
        validity.check(model)
