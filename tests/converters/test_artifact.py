"""The weights of an artifact on disk: they are read back, memory-mapped and read-only."""

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from xbench import models
from xbench.converters.artifact import ALIGNED, PAGE, WEIGHTS, Artifact, read_weights, write_weights
from xbench.converters.passes import macs

ARRAYS = {
    "matrix": np.arange(2000, dtype=np.float32).reshape(40, 50),
    "turned": np.arange(12, dtype=np.int64).reshape(3, 4).T,
    "scalar": np.array(2.5, np.float64),
    "empty": np.zeros((0, 3), np.float32),
    "bool": np.array([True, False, True]),
    "brain": np.array([1.5, -2], ml_dtypes.bfloat16),
    "words": np.array(["a", "bcd"]),
    "complex": np.array([1 + 2j]),
}


def test_arrays_of_every_kind_come_back(tmp_path):
    offsets = write_weights(tmp_path, {"params": ARRAYS, "state": {}})
    weights = read_weights(tmp_path)
    assert weights["state"] == {}
    assert list(weights["params"]) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert weights["params"][name].dtype == array.dtype
        np.testing.assert_array_equal(weights["params"][name], array)
        assert offsets[name] % (PAGE if array.nbytes >= PAGE else ALIGNED) == 0


def test_each_parameter_is_the_same_as_all_at_once(tmp_path):
    write_weights(tmp_path, {"params": ARRAYS, "state": {"more": np.ones(3)}})
    each = dict(Artifact(tmp_path, {}).each_parameter())
    assert list(each) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(each[name], array)


def test_writing_to_an_array_leaves_the_file(tmp_path):
    write_weights(tmp_path, {"params": ARRAYS})
    before = (tmp_path / WEIGHTS).read_bytes()
    read_weights(tmp_path)["params"]["matrix"][:] = 0
    assert (tmp_path / WEIGHTS).read_bytes() == before


def test_no_arrays_are_an_empty_file(tmp_path):
    write_weights(tmp_path, {"params": {}, "state": {}})
    assert read_weights(tmp_path) == {"params": {}, "state": {}}


def test_objects_are_refused(tmp_path):
    with pytest.raises(ValueError, match="w holds objects"):
        write_weights(tmp_path, {"params": {"w": np.array([{}])}})


def test_a_file_that_is_too_short_is_an_error(tmp_path):
    write_weights(tmp_path, {"params": ARRAYS})
    data = (tmp_path / WEIGHTS).read_bytes()
    (tmp_path / WEIGHTS).write_bytes(data[:100])
    with pytest.raises(ValueError):
        read_weights(tmp_path)


@pytest.mark.parametrize("name", ["lenet", "imdb_gru"])
def test_macs_are_the_same_where_shapes_must_be_inferred(exporter, name):
    model = ir.load(exporter.artifact(name).folder / "model.onnx")
    assert macs.count(model) == models.find(name).macs
    for node in model.graph:
        for value in node.outputs:
            value.shape = None
    assert macs.count(model) == models.find(name).macs


@pytest.mark.parametrize(("to", "macs_of_one"), [([-1, 6], 4 * 6 * 5), ([0, -1, 6], 4 * 6 * 5)])
def test_macs_of_a_sample_are_right_behind_a_reshape_that_takes_in_the_batch(to, macs_of_one):
    """The product of the batch and another size has no name; it was taken as 1."""
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [node("Reshape", ["x", "to"], ["flat"]), node("MatMul", ["flat", "w"], ["y"])]
    stored = [
        onnx.numpy_helper.from_array(np.array(to), "to"),
        onnx.numpy_helper.from_array(np.ones((6, 5), np.float32), "w"),
    ]
    given = [value("x", onnx.TensorProto.FLOAT, ["batch", 4, 6])]
    graph = onnx.helper.make_graph(nodes, "g", given, [value("y", onnx.TensorProto.FLOAT, None)], stored)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    assert macs.count(ir.from_proto(model)) == macs_of_one


def test_macs_are_unknown_behind_a_size_that_only_the_values_tell():
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [node("NonZero", ["x"], ["at"]), node("Cast", ["at"], ["f"], to=1), node("MatMul", ["v", "f"], ["y"])]
    stored = [onnx.numpy_helper.from_array(np.ones((3, 2), np.float32), "v")]
    given = [value("x", onnx.TensorProto.FLOAT, ["batch", 4])]
    graph = onnx.helper.make_graph(nodes, "g", given, [value("y", onnx.TensorProto.FLOAT, None)], stored)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    assert macs.count(ir.from_proto(model)) is None
