"""Less than float32 by each runtime's own means: judged by its own tolerance, refused if without effect."""

import json

import numpy as np
import pytest
from fault_kit import only_line, records

from xbench.case import Case
from xbench.parity import verdict
from xbench.proof.record import no_precision
from xbench.runtimes import RUNTIMES, parse

rng = np.random.default_rng(0)
EXACT = rng.standard_normal((8, 1000))
REFERENCE = {"output/y": EXACT, "floor/output/y": np.array([3e-8, 1e-7]) * np.linalg.norm(EXACT)}


def off(share: float) -> dict[str, np.ndarray]:
    return {"output/y": EXACT * (1 + share * rng.uniform(-1, 1, EXACT.shape))}


@pytest.mark.parametrize(
    ("asked", "share", "status"),
    [
        ("fp32", 2.0**-24, "PASS"),
        ("fp32", 2.0**-11, "FAIL"),
        ("tf32", 2.0**-13, "PASS"),
        ("tf32", 2.0**-8, "FAIL"),
        ("bf16", 2.0**-8, "PASS"),
        ("fp16", 2.0**-11, "PASS"),
        ("bf16", 0.2, "FAIL"),
        ("int8", 0.05, "PASS"),
        ("int8", 0.3, "FAIL"),
        ("int4", 0.6, "PASS"),
        ("int4", 1.5, "FAIL"),
        *((asked, 2.0**-24, "UNSUPPORTED") for asked in ("tf32", "bf16", "fp16", "int8", "int4")),
    ],
)
def test_every_precision_has_its_tolerance_and_none_may_be_float32_in_disguise(asked, share, status):
    result = verdict.judge(off(share), REFERENCE, asked)
    assert result.status == status
    if status == "UNSUPPORTED":
        assert result.message == f"was told {asked}, and computes in float32"


@pytest.mark.parametrize("asked", ["tf32", "bf16", "fp16", "int8", "int4"])
def test_what_is_not_finite_is_wrong_in_any_precision(asked):
    given = off(0.001)
    given["output/y"][0, 0] = np.nan
    assert verdict.judge(given, REFERENCE, asked).status == "FAIL"


@pytest.mark.parametrize("asked", ["int8", "int4"])
def test_integers_are_named_as_the_class_of_what_it_computes(asked):
    assert verdict.judge(off(0.05), REFERENCE, asked).precision == asked


def test_who_has_no_switch_says_what_it_has():
    assert no_precision(Case("lenet", "onnxruntime", precision="bf16")) == (
        "onnxruntime has no switch for bf16 on cpu in mode forward: beside fp32 it has fp16, int8, int4"
    )
    assert "mode step" in str(no_precision(Case("lenet", "torch", "step", precision="fp16")))
    assert no_precision(Case("lenet", "torch:python=python3", "step", precision="bf16")) is None
    assert no_precision(Case("lenet", "tvm")) is None


def test_every_runtime_computes_in_what_it_has_and_the_others_say_so(shell, lenet):
    """On a CPU: each switch of each row changes the result within its tolerance, or is reported without effect."""
    for precision in ("bf16", "fp16", "int8", "int4", "tf32"):
        rows = json.loads(shell.run("check", "lenet", "--mode", "forward", "--precision", precision, "--json").stdout)
        for row in rows:
            lower = RUNTIMES[parse(row["runtime"])[0]].lower.get(precision)
            if lower is None or "cpu" not in lower.devices:
                assert (row["status"], row["class"]) == ("UNSUPPORTED", None), row
                assert f"no switch for {precision}" in row["message"]
            elif row["status"] == "PASS":
                assert (
                    row["class"] == precision if precision in ("int8", "int4") else row["class"] in ("tf32", "half")
                ), row
            else:
                others = ("float32", "bf16") if row["runtime"] == "openvino" else ("float32",)
                assert row["message"] in [f"was told {precision}, and computes in {each}" for each in others], row
        sure = {"bf16": {"torch", "torch_compile"}, "fp16": {"torch", "onnxruntime"}, "int8": {"onnxruntime"}}
        sure["int4"] = {"onnxruntime", "openvino"}
        assert {row["runtime"] for row in rows if row["status"] == "PASS"} >= sure.get(precision, set())


def test_gradients_lose_what_their_precision_loses_and_no_more(shell, lenet):
    """After LeNet's pooling bfloat16 costs some gradients more than floors of float32 explain. TensorFlow computes in
    float32 on a CPU without instructions for bfloat16."""
    words = ("--mode", "gradient", "--precision", "bf16", "--json")
    rows = json.loads(shell.run("check", "lenet", "--runtime", "torch", "--runtime", "tensorflow", *words).stdout)
    torch, tensorflow = sorted(rows, key=lambda row: row["runtime"] != "torch")
    assert torch["status"] == "PASS", torch
    assert torch["class"] in ("bf16", "half")
    if tensorflow["status"] == "PASS":
        assert tensorflow["class"] in ("bf16", "half")
    else:
        assert tensorflow["message"] == "was told bf16, and computes in float32", tensorflow


def test_no_sum_of_two_products_in_int8_overflows_16_bits(lenet, tmp_path):
    """A CPU without VNNI saturates there (`vpmaddubsw`), which put ONNX Runtime off by 0.64 of LeNet's output."""
    import onnx

    from xbench.runtimes.support.onnxruntime_narrow import narrowed

    images = rng.random((2, 1, 28, 28)).astype(np.float32)
    (name,) = (value.name for value in onnx.load(lenet.folder / "model.onnx").graph.input)
    graph = onnx.load(narrowed(str(lenet.folder / "model.onnx"), "int8", {name: images}, str(tmp_path))).graph
    arrays = {value.name: onnx.numpy_helper.to_array(value) for value in graph.initializer}
    weights = [a for a in arrays.values() if a.dtype == np.int8 and a.ndim > 1]
    assert len(weights) == 4
    assert max(np.abs(a.astype(int)).max() for a in weights) <= 64
    ranges = {arrays[node.input[2]].dtype for node in graph.node if node.op_type == "QuantizeLinear"}
    assert ranges == {np.dtype(np.uint8)}


@pytest.mark.parametrize(("share", "status"), [(0.01, "PASS"), (0.02, "FAIL")])
def test_what_rounding_explains_is_eight_times_its_floor(share, status):
    lower = {"lower/output/y": np.array([np.linalg.norm(EXACT), np.abs(EXACT).max()]) * 0.001}
    given = {"output/y": EXACT * (1 + 0.75 * share)}
    assert verdict.judge(given, {**REFERENCE, **lower}, "tf32").status == status
    assert verdict.judge(given, REFERENCE, "tf32").status == "FAIL"


def test_no_floor_excuses_a_quarter_of_a_tensor():
    lower = {"lower/output/y": np.array([np.linalg.norm(EXACT), np.abs(EXACT).max()])}
    assert verdict.judge({"output/y": EXACT * 1.2}, {**REFERENCE, **lower}, "bf16").status == "PASS"
    assert verdict.judge({"output/y": EXACT * 1.3}, {**REFERENCE, **lower}, "bf16").status == "FAIL"


def test_a_training_step_in_bfloat16_is_proved_and_timed_as_such(shell, lenet):
    quick = ("--budget", "0.1", "--mode", "step", "--precision", "bf16")
    assert shell.run("time", "lenet", "--runtime", "torch", *quick).returncode == 0
    (record,) = records(shell.folder / "xbench-results")
    assert (record["case"]["precision"], record["status"]) == ("bf16", "PASS")
    assert record["parity"]["class"] == "half"
    assert "--precision bf16" in record["command"]
    assert "bf16" in shell.run("show").stdout


def test_one_that_takes_no_notice_gets_no_time(shell, lenet):
    words = ("time", "lenet", "--runtime", "cheat_honest", "--mode", "forward", "--precision", "bf16")
    assert shell.run(*words).returncode == 0
    (record,) = records(shell.folder / "xbench-results")
    assert (record["status"], record["times"]) == ("UNSUPPORTED", None)
    assert record["message"] == "was told bf16, and computes in float32"


def test_a_wrong_word_is_one_line(shell):
    for words in (("check", "lenet", "--precision", "fp8"), ("check", "lenet", "--precision", "bf16", "--explain")):
        answer = shell.inside(*words)
        assert answer.returncode == 2
        assert only_line(answer.stderr).startswith("xbench: ")


@pytest.mark.parametrize("taken", ["x_scale", "x_zero_point"])
def test_weights_with_names_of_the_tool_are_not_taken_for_its_own(taken, tmp_path):
    """ONNX Runtime's tool names the scale of a tensor `x` `x_scale`, though there is one."""
    import onnx
    import onnxruntime

    from xbench.runtimes.support.onnxruntime_narrow import narrowed

    header = '<ir_version: 9, opset_import: ["": 20]> g (float[batch, 8] x) => (float[batch, 8] y)'
    model = onnx.parser.parse_model(f"{header} {{ h = MatMul(x, {taken}) r = Relu(h) y = MatMul(r, {taken}) }}")
    weight = rng.standard_normal((8, 8)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, taken))
    onnx.save(model, tmp_path / "net.onnx")
    x = rng.standard_normal((16, 8)).astype(np.float32)
    made = narrowed(str(tmp_path / "net.onnx"), "int8", {"x": x}, str(tmp_path))
    exact = np.maximum(x @ weight, 0) @ weight
    (given,) = onnxruntime.InferenceSession(made).run(None, {"x": x})
    assert 1e-4 < np.linalg.norm(given - exact) / np.linalg.norm(exact) < 0.1


def test_a_bias_of_two_axes_is_taken_in_int8(tmp_path):
    """ONNX Runtime's own preparation makes a Gemm of a product and such a sum, which its quantiser cannot read."""
    import onnx
    import onnxruntime

    from xbench.runtimes.support.onnxruntime_narrow import narrowed

    header = '<ir_version: 9, opset_import: ["": 20]> g (float[batch, 8] x) => (float[batch, 8] y)'
    model = onnx.parser.parse_model(
        f"{header} {{ p = MatMul(x, w) s = Add(p, b) q = MatMul(s, w) t = Add(q, b) y = Add(t, b) }}"
    )
    weight, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((8, 8), (1, 8)))
    for name, array in {"w": weight, "b": bias, "b_flat": bias}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "net.onnx")
    x = rng.standard_normal((16, 8)).astype(np.float32)
    exact = (x @ weight + bias) @ weight + 2 * bias
    made = narrowed(str(tmp_path / "net.onnx"), "int8", {"x": x}, str(tmp_path))
    (given,) = onnxruntime.InferenceSession(made).run(None, {"x": x})
    assert 1e-4 < np.linalg.norm(given - exact) / np.linalg.norm(exact) < 0.1


def test_weights_that_two_nodes_in_float32_read_are_taken_in_float16(tmp_path):
    """The tool casts them once for each, to one name, if the graph lists their type. Max stays in float32."""
    import onnx
    import onnxruntime

    from xbench.runtimes.support.onnxruntime_narrow import narrowed

    header = '<ir_version: 9, opset_import: ["": 20]> g (float[batch, 8] x) => (float[batch, 8] y)'
    model = onnx.parser.parse_model(f"{header} {{ m = Max(x, w) p = MatMul(m, v) y = Max(p, w) }}")
    arrays = {"w": rng.standard_normal(8).astype(np.float32), "v": rng.standard_normal((8, 8)).astype(np.float32)}
    for name, array in arrays.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        model.graph.value_info.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape))
    onnx.save(model, tmp_path / "net.onnx")
    x = rng.standard_normal((16, 8)).astype(np.float32)
    exact = np.maximum(np.maximum(x, arrays["w"]) @ arrays["v"], arrays["w"])
    made = narrowed(str(tmp_path / "net.onnx"), "fp16", {"x": x}, str(tmp_path))
    (given,) = onnxruntime.InferenceSession(made).run(None, {"x": x})
    assert 1e-6 < np.linalg.norm(given - exact) / np.linalg.norm(exact) < 0.01


def test_a_tensor_with_a_name_of_the_tool_is_refused_in_one_line(tmp_path):
    import onnx

    from xbench.runtimes import Unavailable
    from xbench.runtimes.support.onnxruntime_narrow import narrowed

    header = '<ir_version: 9, opset_import: ["": 20]> g (float[batch, 8] x) => (float[batch, 8] y)'
    text = f"{header} <float[8, 8] w = {{{', '.join(['0.5'] * 64)}}}> {{ x_scale = MatMul(x, w) y = Relu(x_scale) }}"
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    with pytest.raises(Unavailable, match="its tool needs the name x_scale for a tensor of its own"):
        narrowed(str(tmp_path / "net.onnx"), "int8", {"x": np.ones((1, 8), np.float32)}, str(tmp_path))
