"""Files that round in places, to floats of 8 or 16 bits, and inputs of bfloat16: rounding as ONNX says it is right, and
any other is not."""

import functools
import importlib
import json

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.source import parse
from xbench.parity import candidate, oracle, verdict
from xbench.runtimes import Options, load

KINDS = {17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz"}
HARD = [0.0, -0.0, 1e-9, 0.001, 0.0017, 1.0625, 1.1875, 17.0, 239.0, 250.0, 447.0, 460.0, 470.0, 5e4, 6e4, 1e6, np.inf]
TENSORS = {"torch": "torch:tensor", "tensorflow": "tensorflow:constant", "jax": "jax.numpy:asarray"}


def artifact_of(model, folder):
    """The artifact of a file: a model, or the text of one."""
    model = parser.parse_model(model) if isinstance(model, str) else model
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / "file.onnx")
    build.export_file(parse(str(folder / "file.onnx")), folder / "file.onnx", folder)
    return Artifact.read(folder)


def answered(artifact, runtime, inputs, labels):
    ready = load(runtime, artifact, Options())
    ready.prepare(inputs, labels, dropout=False)
    return ready.get(ready.forward(*ready.put(inputs)))


@pytest.mark.parametrize("saturate", [1, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cast_to_8_bits_is_that_of_onnx_runtime(kind, saturate, tmp_path):
    """Halves go to the even neighbour; what is too large is the largest, or without `saturate` NaN or infinite."""
    text = f"a = Cast<to={kind}, saturate={saturate}>(x) y = Cast<to=1>(a)"
    model = f'<ir_version: 10, opset_import: ["": 21]> g (float[n,34] x) => (float[n,34] y) {{ {text} }}'
    artifact = artifact_of(model, tmp_path)
    x = np.array([HARD + [-each for each in HARD]], np.float32)
    (expected,) = onnxruntime.InferenceSession(artifact.onnx).run(None, {"x": x})
    for framework, word in TENSORS.items():
        table, (module, _, name) = (
            importlib.import_module(f"xbench.converters.ops.{framework}").TABLE,
            word.partition(":"),
        )
        tensor = getattr(importlib.import_module(module), name)(x)
        cast = functools.partial(table["Cast"], tensor, to=kind, saturate=saturate)
        if framework == "tensorflow" and KINDS[kind].endswith("fnuz"):
            with pytest.raises(NotImplementedError, match="TensorFlow does not cast to"):
                cast()
            continue
        result = np.asarray(table["Cast"](cast(), to=1))
        apart = x[(result != expected) & ~(np.isnan(result) & np.isnan(expected))]
        if framework == "jax" and KINDS[kind].endswith("fnuz"):  # where XLA may make NaN of what underflows below zero
            apart = apart[apart != np.float32(-1e-9)]
        assert not apart.size, (framework, apart)


def quantised(kind, scales=(0.01, 0.005, 0.02, 0.004)):
    """Two products of activations and weights that are quantised to 8-bit floats and back."""
    draw, nodes, arrays = np.random.default_rng(0), [], []
    for name, shape in (("v", (16, 32)), ("w", (32, 10))):
        arrays.append(numpy_helper.from_array((draw.normal(size=shape) * 0.3).astype(np.float32), name))
    for name, scale in zip(("x", "v", "r", "w"), scales, strict=True):
        arrays.append(helper.make_tensor(f"{name}_s", TensorProto.FLOAT, [], [scale]))
        arrays.append(helper.make_tensor(f"{name}_z", kind, [], [0.0]))
        given = [f"{name}_s", f"{name}_z"]
        nodes.append(helper.make_node("QuantizeLinear", [name, *given], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *given], [f"{name}_d"]))
    nodes.insert(4, helper.make_node("MatMul", ["x_d", "v_d"], ["m"]))
    nodes.insert(5, helper.make_node("Relu", ["m"], ["r"]))
    nodes.append(helper.make_node("MatMul", ["r_d", "w_d"], ["y"]))
    ends = ([helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", size])] for n, size in zip("xy", (16, 10)))
    graph = helper.make_graph(nodes, "g", *ends, arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    return model


def session(model):
    """ONNX Runtime without its optimisations: with them it refuses such a file (docs/found.md)."""
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), settings)


@pytest.fixture(scope="module", params=[TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2])
def judge(request, tmp_path_factory):
    """The verdict of a model on the references of the right file, the worst of four seeds."""
    folder = tmp_path_factory.mktemp("eight")
    artifact, references = artifact_of(quantised(request.param), folder), []
    for seed in range(4):
        path = folder / f"reference{seed}.npz"
        oracle.write(artifact, path, "forward", [candidate.sample(artifact, 8, seed)])
        references.append(verdict.read(path))

    def judged(model):
        run = session(model)
        answers = [{"output/y": run.run(None, {"x": each["input/0"]})[0]} for each in references]
        verdicts = [verdict.judge(answer, each) for answer, each in zip(answers, references, strict=True)]
        return max(verdicts, key=lambda each: each.ratio)

    return request.param, judged


def test_a_network_of_8_bits_passes_and_with_a_wrong_scale_fails(judge):
    kind, judged = judge
    assert judged(quantised(kind)).status == "PASS"
    scales = [0.01, 0.005, 0.02, 0.004]
    for place in range(4):
        for factor in (0.95, 1.1, 1.25):
            changed = [scale * factor if at == place else scale for at, scale in enumerate(scales)]
            assert judged(quantised(kind, changed)).status == "FAIL", (place, factor)


def test_a_network_of_8_bits_in_another_type_of_8_bits_fails(judge):
    kind, judged = judge
    other = {TensorProto.FLOAT8E4M3FN: TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2: TensorProto.FLOAT8E4M3FN}
    assert judged(quantised(other[kind])).status == "FAIL"


def test_a_bisection_cuts_no_tensor_of_8_bits(shell):
    """ONNX Runtime's default refuses such a product: the smallest part begins and ends in float32."""
    onnx.save(quantised(TensorProto.FLOAT8E4M3FN), shell.folder / "eight.onnx")
    answer = shell.run("bisect", "eight.onnx", "onnxruntime", "onnxruntime:level=basic", "--json")
    report = json.loads(answer.stdout)
    assert (answer.returncode, report["wrong"], report["node"]["op_type"]) == (1, "a", "MatMul")
    assert "MatMulIntegerToFloat" in report["failures"]["a"] and report["failures"].get("b") is None
    assert next(each["op_type"] for each in report["subgraph"]) == "QuantizeLinear"


ROUNDS = """<ir_version: 10, opset_import: ["": 20]> g (float[n,64] x) => (float[n,64] y) {
  a = Exp(x) b = Cast<to=10>(a) c = Cast<to=1>(b) y = Sqrt(c) }"""


def test_a_cast_to_16_bits_and_back_rounds_or_is_left_out(tmp_path):
    """A compiler may keep more bits than the file. A runtime on the other side of a tie, of which the oracle's own runs
    may meet none, is right, too; rounding to bfloat16 is not."""
    artifact = artifact_of(ROUNDS, tmp_path / "right")
    for seed in range(30):
        (x,), labels = candidate.sample(artifact, 2, seed)
        oracle.write(artifact, tmp_path / "reference.npz", "forward", [([x], labels)])
        reference, exp = verdict.read(tmp_path / "reference.npz"), np.exp(x)
        for steps in (-1, 0, 1):  # units in the last place of the exponential
            near = np.nextafter(exp, np.float32(steps * 9)) if steps else exp
            rounded = np.sqrt(near.astype(np.float16).astype(np.float32))
            assert verdict.judge({"output/y": rounded}, reference).status == "PASS", (seed, steps)
        assert verdict.judge({"output/y": np.sqrt(exp)}, reference).status == "PASS"
        coarse = np.sqrt(exp.astype(ml_dtypes.bfloat16).astype(np.float32))
        assert verdict.judge({"output/y": coarse}, reference).status == "FAIL"


BOTH = """<ir_version: 10, opset_import: ["": 20]>
g (bfloat16[n,4] x, float[n,4] v) => (float[n,4] y, bfloat16[n,4] z, float16[n,4] h) {
  a = Cast<to=1>(x) b = Exp(a) y = Add(b, v) z = Cast<to=16>(y) h = Cast<to=10>(y) }"""


@pytest.mark.parametrize("runtime", ["torch", "onnxruntime", "tensorflow", "jax"])
def test_inputs_and_outputs_of_16_bits_of_a_file_of_float32(runtime, shell):
    onnx.save(parser.parse_model(BOTH), shell.folder / "both.onnx")
    answer = shell.run("check", "both.onnx", "--runtime", runtime, "--mode", "forward", "--json")
    (row,) = json.loads(answer.stdout)
    assert (row["status"], row["class"], row["message"]) == ("PASS", "fp32", None)
    assert [each["drawn"] for each in row["inputs"]] == ["-1.73205 to 1.73205"] * 2


def test_inputs_of_bfloat16_are_the_same_bits_everywhere(tmp_path):
    artifact = artifact_of(BOTH, tmp_path)
    inputs, labels = candidate.sample(artifact, 3, 0)
    assert inputs[0].dtype == ml_dtypes.bfloat16
    verdict.join(tmp_path / "inputs.npz", {f"input/{index}": array for index, array in enumerate(inputs)})
    stored = candidate.inputs_of(verdict.read(tmp_path / "inputs.npz"))
    assert [each.dtype.name for each in stored] == ["bfloat16", "float32"]
    assert all(np.array_equal(one, other) for one, other in zip(stored, inputs, strict=True))
    for runtime in ("torch", "onnxruntime", "openvino"):
        y, z, h = answered(artifact, runtime, inputs, labels)
        assert np.allclose(y, np.exp(inputs[0].astype(np.float32)) + inputs[1], rtol=1e-6), runtime
        assert [each.dtype.name for each in (y, z, h)] == ["float32", "bfloat16", "float16"], runtime


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("string[n]", "input x is of type string"),
        ("float8e4m3fn[n]", "input x is of type float8e4m3fn"),
        ("seq(float[n])", "input x is a sequence or optional"),
        ("optional(float[n])", "input x is a sequence or optional"),
    ],
)
def test_inputs_that_are_no_tensors_of_numbers_are_refused_in_one_line(kind, what, shell):
    text = f"g ({kind} x, float[n] v) => ({kind} z, float[n] y) {{ z = Identity(x) y = Exp(v) }}"
    onnx.save(parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}'), shell.folder / "odd.onnx")
    answer = shell.run("check", "odd.onnx", "--runtime", "torch")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.strip() == f"xbench: odd.onnx: {what}; xbench feeds tensors of numbers"


def test_a_file_that_draws_says_so(shell):
    text = "g (float[n,4] x) => (float[n,4] y) { r = RandomNormalLike(x) y = Add(x, r) }"
    onnx.save(parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> {text}'), shell.folder / "draws.onnx")
    (row,) = json.loads(shell.run("check", "draws.onnx", "--runtime", "torch", "--mode", "forward", "--json").stdout)
    assert row["status"] == "UNVERIFIED"
    assert row["message"].endswith("RandomNormalLike draws other numbers at every call and on every runtime")


def test_a_file_of_an_opset_before_7_is_not_called_invalid(shell):
    text = "g (float[n,4] x, float[n,4] b) => (float[n,4] y) { y = Add(x, b) }"
    onnx.save(parser.parse_model(f'<ir_version: 3, opset_import: ["": 6]> {text}'), shell.folder / "old.onnx")
    answer = shell.run("check", "old.onnx", "--runtime", "torch")
    assert (answer.returncode, len(answer.stderr.splitlines())) == (2, 1)
    assert "old.onnx is valid, but has no oracle: its opset is 6" in answer.stderr
