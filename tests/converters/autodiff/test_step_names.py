"""What a training step adds to a graph has names of its own, whatever the graph calls its tensors."""

import dataclasses

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from xbench import models
from xbench.converters.artifact import NAMES, Names, names_of
from xbench.converters.autodiff.step_names import free
from xbench.converters.autodiff.train_step import select, train_step

FACTS = {"labels": models.plain(models.classes(3)), "loss": dataclasses.asdict(models.Loss())}
FACTS |= {"optimizer": dataclasses.asdict(models.Optimizer())}


def network(data, weight, hidden):
    """A matrix product and a Relu under these names."""
    nodes = [helper.make_node("MatMul", [data, weight], [hidden]), helper.make_node("Relu", [hidden], ["y"])]
    given = [helper.make_tensor_value_info(data, TensorProto.FLOAT, ["batch", 4])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])]
    values = numpy_helper.from_array(np.random.default_rng(0).standard_normal((4, 3)).astype("f4"), weight)
    graph = helper.make_graph(nodes, "g", given, made, [values])
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))


@pytest.mark.parametrize("mode", ["gradient", "step"])
@pytest.mark.parametrize(
    ("data", "weight", "hidden"),
    [
        ("labels", "w", "h"),
        ("labels_", "labels", "h"),
        ("x", "step", "loss"),
        ("loss", "w", "gradient.w"),
        ("x", "w", "new.w"),
        ("dropout", "loss", "new.loss"),
    ],
)
def test_names_that_are_taken_are_left_to_the_model(data, weight, hidden, mode):
    plain, own = (
        onnx_of(select(train_step(network(*names), [names[1]], FACTS), mode))
        for names in (("x", "w", "h"), (data, weight, hidden))
    )
    x = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    values = {"w": numpy_helper.to_array(ir.to_proto(network("x", "w", "h")).graph.initializer[0])}
    right = ran(plain, {"x": x, **values})
    found = ran(own, {data: x, weight: values["w"]})
    names = names_of(own)
    assert found[names.loss] == right["loss"]
    kind = {"gradient": "gradient.", "step": "new."}[mode]
    assert np.array_equal(found[kind + weight], right[f"{kind}w"])


def onnx_of(model):
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def ran(proto, given):
    names = names_of(proto)
    given = given | {names.labels: np.array([0, 2]), names.step: np.zeros((), np.float32)}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    fed = {each.name: given[each.name] for each in session.get_inputs()}
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, fed), strict=True))


def test_the_usual_names_are_kept_where_they_are_free():
    model = train_step(network("x", "w", "h"), ["w"], FACTS)
    assert NAMES not in model.metadata_props
    assert names_of(ir.to_proto(model)) == Names("labels", "dropout", "step", "loss")


def test_an_input_that_is_called_as_a_gradient_is_refused():
    with pytest.raises(NotImplementedError, match=r"new\.w is the name of a tensor"):
        free(network("new.w", "w", "h").graph)
