"""Files that compute in 16 bits: their weights are those of the file, their casts round, their class is judged."""

import json
import runpy

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from xbench.converters.codegen import standalone
from xbench.converters.ops import torch_types
from xbench.converters.ops.arrays import torch as arrays
from xbench.parity import candidate, verdict
from xbench.parity.network import default_type
from xbench.parity.verdict import LIMITS, NARROW, TYPE, judge

TYPES = {"fp16": (TensorProto.FLOAT16, np.float16), "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16)}
RUNTIMES = ("torch", "torch_compile", "onnxruntime", "openvino", "tensorflow", "jax", "tvm")


def node(operator, inputs, output, **attributes):
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def file(path, kind, nodes, shape, weights, narrow_ends=False):
    """A file of float32 from x to y, or of 16 bits from end to end."""
    type_, dtype = TYPES[kind]
    draw = np.random.default_rng(0)
    initializers = [
        numpy_helper.from_array((draw.standard_normal(size) / 3).astype(dtype), n) for n, size in weights.items()
    ]
    begin, end = [node("Cast", "x", "in", to=type_)], [node("Cast", "out", "y", to=TensorProto.FLOAT)]
    if narrow_ends:
        begin, end = [node("Identity", "x", "in")], [node("Identity", "out", "y")]
    outside = type_ if narrow_ends else TensorProto.FLOAT
    given = helper.make_tensor_value_info("x", outside, ["batch", *shape])
    made = helper.make_tensor_value_info("y", outside, ["batch", 10])
    graph = helper.make_graph([*begin, *nodes, *end], "g", [given], [made], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


IMAGES = (
    [
        node("Conv", "in w b", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c scale bias mean var", "n"),
        node("Relu", "n", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f w2 b2", "out", transB=1),
    ],
    (3, 16, 16),
    {"w": (8, 3, 3, 3), "b": 8, "scale": 8, "bias": 8, "mean": 8, "var": 8, "w2": (10, 8), "b2": 10},
)
TOKENS = (
    [
        node("MatMul", "in w", "m"),
        node("Add", "m b", "a"),
        node("LayerNormalization", "a scale bias", "n", axis=-1),
        node("Gelu", "n", "g"),
        node("MatMul", "g w2", "m2"),
        node("Softmax", "m2", "out", axis=-1),
    ],
    (24,),
    {"w": (24, 32), "b": 32, "scale": 32, "bias": 32, "w2": (32, 10)},
)


def positive(path):
    """The file with variances above zero."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.name == "var":
            array = np.abs(numpy_helper.to_array(tensor)) + np.asarray(0.5, numpy_helper.to_array(tensor).dtype)
            tensor.CopyFrom(numpy_helper.from_array(array, "var"))
    onnx.save(model, path)
    return path


@pytest.fixture
def images(tmp_path):
    return positive(file(tmp_path / "images.onnx", "fp16", *IMAGES))


def checked(shell, path, *words):
    answer = shell.run("check", path, "--mode", "forward", "--json", *words)
    return {row["runtime"]: row for row in json.loads(answer.stdout)}


@pytest.mark.parametrize(("net", "whole"), [("images", False), ("images", True), ("tokens", False), ("tokens", True)])
def test_every_runtime_is_judged_on_a_file_of_float16(net, whole, shell, tmp_path):
    path = file(tmp_path / "net.onnx", "fp16", *(IMAGES if net == "images" else TOKENS), narrow_ends=whole)
    rows = checked(shell, positive(path))
    assert {name: row["status"] for name, row in rows.items()} == dict.fromkeys(rows, "PASS")
    assert len(rows) >= 6
    assert {row["class"] for row in rows.values()} <= {"fp32", "tf32", "half"}
    assert {row["certificate"]["equal"] for row in rows.values()} == {True}
    assert all(len(row["certificate"]["parameters"]) >= 5 for row in rows.values())


def test_of_bfloat16_who_has_it_is_right_and_who_has_not_says_so(shell, tmp_path):
    rows = checked(shell, file(tmp_path / "net.onnx", "bf16", *TOKENS), "--runtime", "torch,jax,openvino,onnxruntime")
    assert {name: row["status"] for name, row in rows.items()} == {
        **dict.fromkeys(("torch", "jax", "openvino"), "PASS"),
        "onnxruntime": "UNSUPPORTED",
    }
    assert rows["onnxruntime"]["message"].startswith("operators missing: ")


def test_it_is_not_trained(shell, images):
    answer = shell.run("check", images, "--mode", "gradient", "--runtime", "torch", "--json")
    (row,) = json.loads(answer.stdout)
    assert (row["status"], row["message"]) == ("UNSUPPORTED", "it cannot be trained: its floats are of 16 bits")


def reference_of(exporter, path):
    artifact = exporter.artifact(str(path))
    return artifact, verdict.read(exporter.reference(artifact, "forward", 2, 0, "synthetic"))


def test_the_oracle_has_the_weights_of_the_file_and_rounds_where_it_casts(exporter, tmp_path):
    nodes = [node("MatMul", "in w", "out")]
    path = file(tmp_path / "net.onnx", "fp16", nodes, (24,), {"w": (24, 10)})
    artifact, reference = reference_of(exporter, path)
    weights = numpy_helper.to_array(onnx.load(path).graph.initializer[0]).astype(np.float64)
    expected = reference["input/0"].astype(np.float16).astype(np.float64) @ weights
    assert np.abs(reference["output/y"] - expected).max() < 1e-13 * np.abs(expected).max()
    assert artifact.info["narrow"] == str(reference[NARROW]) == "fp16"


@pytest.mark.parametrize("stored", ["cast", "rounded", "unread"])
def test_a_file_that_only_stores_or_rounds_is_judged_as_float32(stored, exporter, tmp_path):
    half = TensorProto.FLOAT16
    weights = numpy_helper.from_array(np.linspace(-1, 1, 240, dtype=np.float16).reshape(24, 10), "w16")
    nodes = {
        "cast": [node("Cast", "w16", "w", to=1), node("MatMul", "x w", "y")],
        "rounded": [node("Cast", "x", "a", to=half), node("Cast", "a", "b", to=1), node("Relu", "b", "y")],
        "unread": [node("Cast", "x", "a", to=half), node("Relu", "a", "nothing reads it"), node("Relu", "x", "y")],
    }[stored]
    shapes = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 24 if name == "x" or stored != "cast" else 10])
        for name in "xy"
    ]
    graph = helper.make_graph(nodes, "g", shapes[:1], shapes[1:], [weights] if stored == "cast" else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, tmp_path / "net.onnx")
    artifact, reference = reference_of(exporter, tmp_path / "net.onnx")
    assert artifact.info["narrow"] is None and NARROW not in reference


def scaled(name, factor):
    def change(model):
        for tensor in model.graph.initializer:
            if tensor.name == name:
                array = numpy_helper.to_array(tensor)
                tensor.CopyFrom(numpy_helper.from_array((array * np.float16(factor)).astype(array.dtype), name))

    return change


def without(operator):
    def change(model):
        (match,) = (each for each in model.graph.node if each.op_type == operator)
        match.op_type = "Identity"
        del match.input[1:], match.attribute[:]

    return change


def attribute(operator, **values):
    def change(model):
        (match,) = (each for each in model.graph.node if each.op_type == operator)
        for name, value in values.items():
            kept = [each for each in match.attribute if each.name != name]
            del match.attribute[:]
            match.attribute.extend([*kept, helper.make_attribute(name, value)])

    return change


FAULTS = {
    "a weight 2 % larger": scaled("w2", 1.02),
    "a kernel 2 % smaller": scaled("w", 0.98),
    "a bias left out": scaled("b2", 0.0),
    "a mean of another sign": scaled("mean", -1.0),
    "no activation": without("Relu"),
    "another epsilon": attribute("BatchNormalization", epsilon=0.05),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_another_network_gives_fails(fault, exporter, images):
    artifact, reference = reference_of(exporter, images)
    model = onnx.load(images)

    def given(model):
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return candidate.named(artifact, session.run(None, {"x": reference["input/0"]}))

    assert candidate.judged(given(model), reference).status == "PASS"
    FAULTS[fault](model)
    result = candidate.judged(given(model), reference)
    assert (result.status, result.worst_tensor) == ("FAIL", "output/y")
    assert "more than rounding to fp16 explains" in result.message


def test_of_such_a_file_float32_is_as_good_and_another_type_is_not():
    expected = np.linspace(1.0, 2.0, 100)
    floors = {"floor/output/y": np.array([1e-6, 1e-7])}
    plain = {"output/y": expected, **floors}
    narrow = {**plain, NARROW: np.array("fp16"), f"{TYPE}output/y": np.array("float16")}
    off = {"output/y": expected * 1.003}
    assert judge(off, plain).status == "FAIL"
    assert judge(off, narrow).status == "PASS"
    assert judge({"output/y": expected * 1.02}, narrow).status == "FAIL"
    exact = judge({"output/y": expected}, narrow)
    assert (exact.status, exact.precision) == ("PASS", "fp32")
    assert candidate.judged({"output/y": expected.astype(np.float16)}, narrow).status == "PASS"
    with pytest.raises(verdict.Changed, match="output/y is float32 where the graph says float16"):
        candidate.judged({"output/y": expected.astype(np.float32)}, narrow)


def test_casts_round_and_everything_else_does_not():
    third, tenth = torch.full((2,), 1 / 3, dtype=torch.float64), np.full(2, 0.1, np.float16)
    with default_type(torch.float64):
        assert arrays.astype(third, "float16").dtype == torch.float64
        assert arrays.astype(third, "float16")[0].item() == float(np.float16(1 / 3))
        assert arrays.astype(third, "bfloat16")[0].item() == float(ml_dtypes.bfloat16(1 / 3))
        assert arrays.asarray(tenth).dtype == torch.float64
    assert arrays.astype(third, "float16").dtype == torch.float16
    assert arrays.asarray(tenth).dtype == torch.float16


def test_bfloat16_passes_between_numpy_and_torch_and_into_files(tmp_path):
    array = np.array([1.5, -2.25, 1 / 3], ml_dtypes.bfloat16)
    tensor = torch_types.from_numpy(array)
    assert tensor.dtype == torch.bfloat16 and tensor.tolist() == array.astype(float).tolist()
    assert torch_types.to_numpy(tensor).dtype == array.dtype and (torch_types.to_numpy(tensor) == array).all()
    verdict.join(tmp_path / "a.npz", {"x": array})
    assert (verdict.read(tmp_path / "a.npz")["x"] == array.astype(np.float32)).all()


def test_limits_of_16_bits_are_those_that_were_asked_for_before():
    assert verdict.ALLOWED["fp16"] == verdict.ALLOWED["bf16"] == LIMITS["half"]


@pytest.mark.parametrize("kind", TYPES)
def test_the_standalone_file_of_pytorch_has_its_weights(kind, exporter, tmp_path):
    artifact = exporter.artifact(str(file(tmp_path / "net.onnx", kind, *TOKENS)))
    standalone.write(artifact.program(), "torch", "net", tmp_path)
    made = runpy.run_path(str(tmp_path / "net.py"))
    params, state = made["load"]()
    (output,) = made["apply"](params, state, torch.randn(2, 24))[0]
    assert params["w"].dtype == {"fp16": torch.float16, "bf16": torch.bfloat16}[kind]
    assert output.shape == (2, 10) and torch.allclose(output.sum(1), torch.ones(2), atol=1e-2)
