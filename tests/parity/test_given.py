"""A user's file is judged as it is: ONNX Runtime and OpenVINO run its own bytes, or refuse them."""

import json
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper

from xbench.case import Case
from xbench.parity import calls, candidate
from xbench.proof.record import graph_of
from xbench.proof.tuning import NOTHING_CHOSEN, as_opened
from xbench.runtimes import Options, load
from xbench.runtimes.openvino import _read
from xbench.workers.prepare import Exporter

REFUSED = """<ir_version: 9, opset_import: ["": 18]>
g (float[n,5] x, float[n,5] v) => (float[n,5] y) <float one = {1.0}> {
  a = Cast<to=1>(x)  b = Div(one, v)  y = Mul(b, a) }"""
WEIGHTS = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)


def graph(nodes, *initializers, opset=20, ir=10, inputs=(), shape=("n", 5)):
    """A file with input x (batch, 5) and output y."""
    shapes = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5]), *inputs]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    arrays = [numpy_helper.from_array(array, name) for name, array in initializers]
    made = helper.make_graph(nodes, "g", shapes, outputs, arrays)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def node(operator, inputs, outputs="y", **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def outside(path):
    model = graph([node("MatMul", "x w")], ("w", WEIGHTS), shape=("n", 4))
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)


FILES = {
    "opset 9": graph(
        [node("MatMul", "x w", "h"), node("Softmax", "h", axis=1)], ("w", WEIGHTS), shape=("n", 4), opset=9, ir=4
    ),
    "opset 11": graph(
        [node("Clip", "x low", "c"), node("Unsqueeze", "c", axes=[1])],
        ("low", np.float32(0)),
        shape=("n", 1, 5),
        opset=11,
        ir=6,
    ),
    "casts": graph([node("Cast", "x", "d", to=11), node("Cast", "d", "f", to=1), node("Relu", "f")]),
    "narrow": graph([node("Cast", "x", "h", to=10), node("Cast", "h", to=1)]),
    "dropout": graph([node("Dropout", "x", "d"), node("MatMul", "d w")], ("w", WEIGHTS), shape=("n", 4)),
    "constants": graph([node("Constant", "", "c", value_float=2.0), node("Mul", "x c")]),
    "folded": graph(
        [node("Transpose", "w", "t"), node("Transpose", "t", "u"), node("MatMul", "x u")],
        ("w", WEIGHTS),
        shape=("n", 4),
    ),
    "weights as inputs": graph(
        [node("MatMul", "x w")],
        ("w", WEIGHTS),
        shape=("n", 4),
        ir=3,
        opset=8,
        inputs=[helper.make_tensor_value_info("w", TensorProto.FLOAT, [5, 4])],
    ),
    "nothing computed": graph([node("Identity", "x")]),
    "names": graph([node("Relu", "x", "_"), node("Neg", "_", "float"), node("Add", "_ float")]),
    "unused": graph([node("Exp", "x", "unused"), node("Abs", "x")]),
    "outside": outside,
}


@pytest.fixture(scope="module")
def brought(tmp_path_factory):
    """Each file, as an artifact."""
    folder = tmp_path_factory.mktemp("brought")
    exporter, artifacts = Exporter(folder), {}
    for number, (name, file) in enumerate(FILES.items()):
        path = folder / str(number) / "file.onnx"
        path.parent.mkdir()
        file(path) if callable(file) else onnx.save(file, path)
        artifacts[name] = path, exporter.artifact(str(path))
    yield artifacts
    exporter.close()


def bare(runtime, path, x):
    if runtime == "onnxruntime":
        return onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
    model = openvino.Core().read_model(path)
    return openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]


@pytest.mark.parametrize("name", FILES)
def test_the_file_itself_is_run(name, brought):
    path, artifact = brought[name]
    assert artifact.onnx.read_bytes() == path.read_bytes()
    (x,), labels = candidate.sample(artifact, 3, 0)
    for runtime in ("onnxruntime", "openvino"):
        opened = as_opened(Case(artifact.name, runtime, "forward", 3), artifact, NOTHING_CHOSEN)
        ready = load(opened.runtime, artifact, Options("forward", "cpu", 1))
        ready.prepare([x], labels, dropout=False)
        result = ready.forward(*ready.put([x]))
        ready.wait(result)
        (output,) = calls.outputs(ready, result)
        assert np.array_equal(output, bare(runtime, path, x)), runtime


WRAPS = """<ir_version: 9, opset_import: ["": 20, "com.microsoft": 1]>
g (float[n,8] x) => (float[n,8] y) <float s = {0.02}, uint8 z = {128}> {
  q = QuantizeLinear(x, s, z)
  p = com.microsoft.QLinearAdd(q, s, z, q, s, z, s, z)
  y = DequantizeLinear(p, s, z) }"""


def test_openvino_has_the_answer_of_a_bare_session(shell):
    """With fixed shapes a sum of integers wraps around, with open ones it does not; the file has an open axis."""
    path = shell.folder / "wraps.onnx"
    onnx.save(onnx.parser.parse_model(WRAPS), path)
    x = np.full((2, 8), 2, np.float32)
    assert np.allclose(bare("openvino", path, x), 127 * 0.02)
    fixed = openvino.Core().read_model(path)
    fixed.reshape(x.shape)
    assert (openvino.Core().compile_model(fixed, "CPU")([x])[0] < 0).all()
    runtimes = ("--runtime", "openvino,openvino:shapes=fixed", "--mode", "forward", "--json")
    rows = {row["runtime"]: row for row in json.loads(shell.run("check", "wraps.onnx", *runtimes).stdout)}
    found = {runtime: (row["status"], row["note"]) for runtime, row in rows.items()}
    assert found == {"openvino": ("PASS", "shapes=open"), "openvino:shapes=fixed": ("FAIL", None)}
    for runtime, differs in (("openvino", False), ("openvino:shapes=fixed", True)):
        answer = shell.run("bisect", "wraps.onnx", runtime, "--json")
        assert (answer.returncode, json.loads(answer.stdout)["differs"]) == (int(differs), differs)


AXES = """<ir_version: 9, opset_import: ["": 17]>
g (float[n,time,8] x, float[?,time,8] v) => (float[n,time,8] y) { y = Add(x, v) }"""


@pytest.mark.parametrize(
    ("word", "shapes"),
    [("onnxruntime", [["n", "time", 8], [None, "time", 8]]), ("onnxruntime:shapes=fixed", [[3, 5, 8], [None, 5, 8]])],
)
def test_named_axes_are_fixed_for_onnx_runtime_if_requested(exporter, tmp_path, word, shapes):
    onnx.save(onnx.parser.parse_model(AXES), tmp_path / "axes.onnx")
    artifact = exporter.artifact(f"{tmp_path / 'axes.onnx'}@time=5")
    inputs, labels = candidate.sample(artifact, 3, 0)
    ready = load(word, artifact, Options("forward", "cpu", 1))
    ready.prepare(inputs, labels, dropout=False)
    given = [each.shape for each in ready.session.get_inputs()]
    assert [[None if "unk__" in str(size) else size for size in shape] for shape in given] == shapes
    (output,) = calls.outputs(ready, ready.forward(*ready.put(inputs)))
    assert np.array_equal(output, inputs[0] + inputs[1])


def test_what_a_runtime_refuses_is_recorded_in_its_own_words(shell):
    onnx.save(onnx.parser.parse_model(REFUSED), shell.folder / "refused.onnx")
    with pytest.raises(Exception, match="Node input 'a' is not a graph input") as refusal:
        onnxruntime.InferenceSession(shell.folder / "refused.onnx")
    options = ("--runtime", "onnxruntime", "--runtime", "torch", "--mode", "forward", "--json")
    rows = {row["runtime"]: row for row in json.loads(shell.run("check", "refused.onnx", *options).stdout)}
    assert (rows["onnxruntime"]["status"], rows["onnxruntime"]["graph"]) == ("CRASH", "given")
    assert str(refusal.value).splitlines()[0] in rows["onnxruntime"]["message"]
    assert (rows["torch"]["status"], rows["torch"]["graph"]) == ("PASS", "converted")
    shown = shell.run("inspect", "refused.onnx", "--json")
    assert "onnxruntime" in shown.stdout


def dropout(*training, nodes=()):
    nodes = [*nodes, node("Dropout", "x rate training", "d"), node("MatMul", "d w")]
    more = [("training", np.array(training[0]))] if training else []
    return graph(nodes, ("w", WEIGHTS), ("rate", np.float32(0.5)), *more, shape=("n", 4))


def test_a_file_that_drops_at_random_is_judged_by_the_graph_without(exporter, tmp_path):
    """OpenVINO refuses it, ONNX Runtime drops nothing, and by ONNX the result differs at every call."""
    no = node("Constant", "", "training", value=numpy_helper.from_array(np.array(False)))
    files = {"on": dropout(True), "off": dropout(False), "constant": dropout(nodes=[no])}
    files["outside"] = dropout(False)  # in a separate file
    tensor = next(each for each in files["outside"].graph.initializer if each.name == "training")
    onnx.external_data_helper.set_external_data(tensor, "training.bin")
    tensor.data_location = TensorProto.EXTERNAL
    (tmp_path / "training.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    kinds = {}
    for name, file in files.items():
        onnx.save(file, tmp_path / f"{name}.onnx")
        artifact = exporter.artifact(str(tmp_path / f"{name}.onnx"))
        case = Case(artifact.name, "openvino", "forward", 2, "cpu", 1)
        kinds[name] = graph_of(case, artifact)
        load("openvino", artifact, Options("forward", "cpu", 1))
    assert kinds == {"on": "converted", "off": "given", "constant": "given", "outside": "given"}


def test_what_openvino_refuses_is_said_without_the_places_in_its_source(exporter, tmp_path):
    onnx.save(dropout(True), tmp_path / "odd.onnx")
    with pytest.raises(RuntimeError, match=r"^-- Dropout-20 with a message: .*Training mode is not supported"):
        _read(openvino.Core(), SimpleNamespace(onnx=tmp_path / "odd.onnx"))


def test_files_pass_the_check_as_they_are(shell, brought):
    some = ("opset 9", "narrow", "dropout", "folded", "weights as inputs", "outside")
    words = [str(brought[name][0]) for name in some]
    options = ("--runtime", "onnxruntime", "--runtime", "openvino", "--mode", "forward", "--json")
    rows = json.loads(shell.run("check", *words, *options).stdout)
    wrong = {(row["model"], row["runtime"]) for row in rows if row["status"] != "PASS"}
    assert wrong <= {(str(brought["narrow"][0]), "openvino")}, "OpenVINO computes a Cast to float16 in float32"
    assert {row["graph"] for row in rows} == {"given"} and len(rows) == 2 * len(words)
