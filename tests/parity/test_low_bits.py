"""Weights of four and of eight bits in a file: the oracle has their dequantised values, runtimes are judged on
them in float32, and a wrong scale, zero point or block does not pass as rounding."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from xbench.converters.frontends.onnx_file import canonical
from xbench.parity import candidate, verdict
from xbench.runtimes import Options, Unavailable, load

RANGES = {"INT4": (-8, 8), "UINT4": (0, 16)}
BLOCK, SHAPE = 16, (32, 10)


def node(operator, inputs, output, **attributes):
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def model(nodes, initializers):
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", SHAPE[0]])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", SHAPE[1]])
    graph = helper.make_graph(nodes, "g", [given], [made], initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def stored(kind, values, name="w", shape=SHAPE):
    return helper.make_tensor(name, getattr(TensorProto, kind), shape, np.ravel(values).tolist())


def scales(shape):
    return numpy_helper.from_array((np.random.default_rng(1).random(shape) / 10 + 0.05).astype(np.float32), "s")


def drawn(kind, shape=SHAPE, seed=0):
    return np.random.default_rng(seed).integers(*RANGES[kind], shape)


def blocks(kind):
    """A product with weights that have a scale and a zero point per block of a column."""
    each = (SHAPE[0] // BLOCK, SHAPE[1])
    zeros = stored(kind, drawn(kind, each, 2), "z", each)
    nodes = [node("DequantizeLinear", "w s z", "f", axis=0, block_size=BLOCK), node("MatMul", "x f", "y")]
    return model(nodes, [stored(kind, drawn(kind)), scales(each), zeros])


def turned(kind):
    """Weights that are transposed before use, one scale per output."""
    nodes = [node("Transpose", "w", "t"), node("DequantizeLinear", "t s", "f", axis=1), node("MatMul", "x f", "y")]
    return model(nodes, [stored(kind, drawn(kind), shape=SHAPE[::-1]), scales(SHAPE[1])])


def constant(kind):
    """Weights in a Constant node."""
    nodes = [node("Constant", "", "w", value=stored(kind, drawn(kind)))]
    nodes += [node("DequantizeLinear", "w s", "f", axis=1), node("MatMul", "x f", "y")]
    return model(nodes, [scales(SHAPE[1])])


def floats(kind):
    values = np.random.default_rng(0).standard_normal(SHAPE)
    nodes = [node("DequantizeLinear", "w s", "f", axis=1), node("MatMul", "x f", "y")]
    return model(nodes, [stored(kind, values), scales(SHAPE[1])])


FILES = {f"{make.__name__}-{kind}": make(kind) for make in (blocks, turned, constant) for kind in RANGES}
FILES |= {kind: floats(kind) for kind in ("FLOAT8E4M3FN", "FLOAT8E5M2")}


def reference_of(exporter, path, file):
    onnx.save(file, path)
    artifact = exporter.artifact(str(path))
    return artifact, verdict.read(exporter.reference(artifact, "forward", 2, 0, "synthetic"))


@pytest.mark.parametrize("name", FILES)
def test_the_oracle_has_the_numbers_that_are_stored(name, exporter, tmp_path):
    artifact, reference = reference_of(exporter, tmp_path / "net.onnx", FILES[name])
    graph = FILES[name].graph
    (read,) = (each for each in graph.node if each.op_type == "DequantizeLinear")
    weights = helper.make_graph(
        [each for each in graph.node if each.op_type != "MatMul"],
        "g",
        [],
        [helper.make_tensor_value_info(read.output[0], TensorProto.FLOAT, SHAPE)],
        list(graph.initializer),
    )
    opset = [helper.make_opsetid("", 21)]
    (numbers,) = ReferenceEvaluator(helper.make_model(weights, opset_imports=opset, ir_version=10)).run(None, {})
    expected = reference["input/0"].astype(np.float64) @ numbers.astype(np.float64)
    assert np.abs(reference["output/y"] - expected).max() < 1e-6 * np.abs(expected).max()
    assert artifact.info["narrow"] is None


@pytest.mark.parametrize("name", ["blocks-INT4", "blocks-UINT4", "turned-INT4", "FLOAT8E4M3FN"])
def test_runtimes_are_right_in_float32(name, shell):
    """ONNX Runtime multiplies four-bit weights by eight-bit activations unless it is configured not to."""
    onnx.save(FILES[name], shell.folder / "net.onnx")
    options = [word for each in ("torch", "jax", "tensorflow", "onnxruntime") for word in ("--runtime", each)]
    rows = json.loads(shell.run("check", "net.onnx", "--mode", "forward", "--json", *options).stdout)
    assert {row["runtime"]: (row["status"], row["class"]) for row in rows} == {
        row["runtime"]: ("PASS", "fp32") for row in rows
    }
    assert len(rows) == 4


FAULTS = {
    "scale": lambda a: a * np.float32(1.02),
    "one scale": lambda a: a * np.where(np.arange(a.size).reshape(a.shape) == 3, 1.1, 1).astype(np.float32),
    "blocks": lambda a: a[::-1].copy(),
}


@pytest.mark.parametrize("fault", [*FAULTS, "zero point", "weight"])
def test_a_wrong_scale_block_or_zero_point_fails(fault, exporter, tmp_path):
    file = blocks("INT4")
    artifact, reference = reference_of(exporter, tmp_path / "net.onnx", file)
    for tensor in file.graph.initializer:
        if fault in FAULTS and tensor.name == "s":
            tensor.CopyFrom(numpy_helper.from_array(FAULTS[fault](numpy_helper.to_array(tensor)), "s"))
        if (fault, tensor.name) in (("zero point", "z"), ("weight", "w")):
            values = numpy_helper.to_array(tensor).astype(int)
            values.flat[0] += -1 if values.flat[0] == 7 else 1
            tensor.CopyFrom(stored("INT4", values, tensor.name, values.shape))
    session = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    made = candidate.named(artifact, session.run(None, {"x": reference["input/0"]}))
    assert candidate.judged(made, reference).status == "FAIL"


def test_what_rounds_to_four_bits_is_left_as_it_is():
    zero = stored("INT4", [0], "z", ())
    nodes = [node("QuantizeLinear", "w s z", "q"), node("DequantizeLinear", "q s z", "f"), node("MatMul", "x f", "y")]
    weights = numpy_helper.from_array(np.linspace(-1, 1, 320, dtype=np.float32).reshape(SHAPE), "w")
    file = model(nodes, [weights, numpy_helper.from_array(np.float32(0.1), "s"), zero])
    assert canonical(file).graph.initializers["z"].dtype.name == "INT4"
    assert canonical(blocks("INT4")).graph.initializers["w"].dtype.name == "INT8"


def test_tvm_says_what_it_lacks(exporter, tmp_path):
    artifact, reference = reference_of(exporter, tmp_path / "net.onnx", blocks("INT4"))
    ready = load("tvm", artifact, Options("forward", "cpu", 1))
    with pytest.raises(Unavailable, match=r"^tvm: DequantizeLinear blocked quantization is not supported yet\.$"):
        ready.prepare([reference["input/0"]], reference["labels"], dropout=False)
