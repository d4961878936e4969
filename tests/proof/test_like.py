"""`xbench bisect --like`: a wrong range, a channel that takes all levels and wrong weights are named at their node; in
a right file nobody is; what does not fit together is one line."""

import json
import logging
import random
import signal

import like_nets
import like_plants
import numpy as np
import onnx
import onnx.version_converter
import pytest
from fault_kit import Shell, only_line, refused
from like_plants import KINDS, tried
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers.float16 import convert_float_to_float16
from wicked import TENSORS


@pytest.fixture(autouse=True)
def quiet():
    """The quantisers advise."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """The folder of a small network, of its quantised file, and of one with a wrong range."""
    folder = tmp_path_factory.mktemp("like")
    like_nets.exported("random 4", folder / "original.onnx")
    like_nets.quantised("random 4", "channels", folder / "original.onnx", folder / "right.onnx")
    model = onnx.load(folder / "right.onnx")
    (name,) = (each.name for each in model.graph.initializer if each.name == "/3/Relu_output_0_scale")
    like_nets.store(model, name, like_nets.arrays(model)[name] * np.float32(0.1))
    onnx.save(model, folder / "narrow.onnx")
    return Shell(folder)


def bisected(shell, file, like="original.onnx", *words):
    answer = shell.run("bisect", file, "--like", like, "--json", *words)
    assert answer.stdout, answer.stderr
    return answer.returncode, json.loads(answer.stdout)


# ***** what is planted *****


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("network", like_nets.NETWORKS)
def test_a_fault_is_named_at_its_node_and_a_right_file_names_nobody(network, kind, exporter, tmp_path):
    trial = tried(network, kind, exporter, tmp_path)
    assert trial.found, (trial.form, trial.fault, trial.report["says"])
    if kind in ("range", "weights"):
        assert trial.report["cured"] < 0.9 * trial.report["error"]


def test_every_kind_of_fault_is_planted_in_20_networks():
    assert len(like_nets.NETWORKS) >= 20
    forms = {kind: {like_plants.form_of(network, kind) for network in like_nets.NETWORKS} for kind in KINDS}
    assert forms["range"] == {*like_nets.STATIC}
    assert all(forms[kind] == {*like_nets.FORMS} for kind in ("right", "channel", "weights"))


def test_the_report_says_what_is_wrong(shell):
    code, report = bisected(shell, "narrow.onnx")
    assert (code, report["named"], report["fault"]) == (1, True, "range")
    assert report["node"]["op_type"] == "QuantizeLinear"
    assert report["node"]["outputs"] == ["/3/Relu_output_0_QuantizeLinear_Output"]
    assert (report["tensor"], report["also"]) == ("/3/Relu_output_0", [])
    assert report["says"].startswith(
        f"QuantizeLinear {report['node']['name']} is to blame: its range is too narrow: 0 to"
    )
    first = report["sources"][0]
    assert first["range"]["clipped"] > 0.2 and first["share"] > 0.9
    assert report["cured"] < report["error"] / 5
    tensors = {each["original"]: each for each in report["tensors"]}
    assert tensors["y"]["error"] > 10 * tensors["y"]["local"]  # what is lost before is not its own
    assert report["matched"][0] == report["matched"][1] > 8
    answer = shell.run("bisect", "narrow.onnx", "--like", "original.onnx")
    assert (answer.returncode, answer.stdout.splitlines()[0]) == (1, report["says"])
    assert "narrow.onnx compared with original.onnx in float64, on 16 random samples (seed 0)" in answer.stdout


def test_the_loss_of_a_right_file_is_spread_and_its_worst_five_are_listed(shell):
    code, report = bisected(shell, "right.onnx")
    assert (code, report["named"], report["node"], report["fault"]) == (0, False, None, None)
    assert report["says"].startswith("no single node is to blame: the outputs are ")
    answer = shell.run("bisect", "right.onnx", "--like", "original.onnx")
    lines = answer.stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("node "))
    shown = [each["node"]["name"] for each in report["sources"][:5]]
    assert [name in line for name, line in zip(shown, lines[start + 1 :], strict=False)] == [True] * 5


def test_the_report_is_written_where_it_is_asked_for(shell):
    _, report = bisected(shell, "narrow.onnx", "original.onnx", "--out", "found")
    assert json.loads((shell.folder / "found" / "report.json").read_text()) == report


def test_samples_of_the_user_are_taken_by_the_number_of_their_batch(shell):
    """The range of the input is that of the samples, and the inputs of a file may have another order."""
    rows = np.random.default_rng(0).standard_normal((9, 24)).astype(np.float32)
    rows[4:8] *= 1000
    np.savez(shell.folder / "own.npz", x=rows)
    words = ("original.onnx", "--inputs", "own.npz", "--batch", "4")
    _, first = bisected(shell, "right.onnx", *words)
    _, second = bisected(shell, "right.onnx", *words, "--seed", "1")
    largest = [report["inputs"][0]["largest"] for report in (first, second)]
    assert largest == [float(rows[:4].max()), float(rows[4:8].max())]
    assert [report["samples"] for report in (first, second)] == ["own.npz", "own.npz"]
    answer = shell.run("bisect", "right.onnx", "--like", *words)
    assert "in float64, on 4 samples of own.npz; " in answer.stdout
    assert "--range" not in answer.stdout  # which is for inputs that are drawn
    expected = "xbench: --seed 3 is the batch of that number, from 0, and own.npz has 9 samples, 3 batches of 4"
    assert refused(shell, "bisect", "right.onnx", "--like", *words, "--seed", "3") == expected


# ***** other files *****


def test_files_whose_names_are_all_others_are_matched_by_structure(shell):
    model, names = onnx.load(shell.folder / "narrow.onnx"), {"x": "x", "y": "y", "": ""}
    for node in model.graph.node:
        for each in (node.input, node.output):
            each[:] = [names.setdefault(name, f"tensor {len(names)}") for name in each]
    for tensor in model.graph.initializer:
        tensor.name = names[tensor.name]
    del model.graph.value_info[:]
    onnx.save(model, shell.folder / "renamed.onnx")
    code, report = bisected(shell, "renamed.onnx")
    assert (code, report["tensor"]) == (1, "/3/Relu_output_0")
    assert report["matched"][0] == report["matched"][1]


@pytest.mark.parametrize("form", ["channels", "operators", "dynamic"])
def test_a_file_of_a_network_whose_norms_were_folded_names_nobody(form, shell, tmp_path):
    """ONNX Runtime's own preparation folds BatchNormalization into convolutions: their weights are others."""
    like_nets.exported("densenet", tmp_path / "plain.onnx")
    quant_pre_process(tmp_path / "plain.onnx", tmp_path / "prepared.onnx", skip_symbolic_shape=True)
    like_nets.quantised("densenet", form, tmp_path / "prepared.onnx", tmp_path / "quantised.onnx")
    code, report = bisected(Shell(tmp_path), "quantised.onnx", "plain.onnx")
    assert (code, report["named"]) == (0, False), report["says"]
    assert report["error"] < 0.1


def test_a_layer_that_overflows_float16_is_named(tmp_path):
    like_nets.exported("random 1", tmp_path / "plain.onnx")
    model = onnx.load(tmp_path / "plain.onnx")
    for name, factor in {"2.weight": 3e4, "2.bias": 3e4, "4.weight": 1 / 3e4}.items():
        like_nets.store(model, name, like_nets.arrays(model)[name] * np.float32(factor))
    onnx.save(model, tmp_path / "large.onnx")
    for file in ("plain", "large"):
        half = convert_float_to_float16(onnx.load(tmp_path / f"{file}.onnx"), keep_io_types=file == "large")
        onnx.save(half, tmp_path / f"{file}-half.onnx")
    code, report = bisected(Shell(tmp_path), "large-half.onnx", "large.onnx")
    assert (code, report["fault"], report["node"]["name"]) == (1, "half", "/2/Gemm")
    assert "of its values are beyond 65504" in report["says"] and report["error"] is None
    code, report = bisected(Shell(tmp_path), "plain-half.onnx", "plain.onnx")
    assert (code, report["named"]) == (0, False)
    assert report["error"] < 0.01


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_a_scale_of_weights_of_four_bits_is_named(form, tmp_path):
    like_nets.exported("random 2", tmp_path / "plain.onnx")
    plain = onnx.version_converter.convert_version(onnx.load(tmp_path / "plain.onnx"), 21)
    quantiser = MatMulNBitsQuantizer(plain, block_size=16, is_symmetric=True, quant_format=form)
    quantiser.process()
    model = quantiser.model.model
    onnx.save(model, tmp_path / "right.onnx")
    code, report = bisected(Shell(tmp_path), "right.onnx", "plain.onnx")
    assert (code, report["named"]) == (0, False), report["says"]
    nodes = [node for node in model.graph.node if node.op_type in ("MatMulNBits", "DequantizeLinear")]
    chosen = nodes[len(nodes) // 2]
    scale = chosen.input[2 if chosen.op_type == "MatMulNBits" else 1]
    like_nets.store(model, scale, like_nets.arrays(model)[scale] * np.float32(2))
    onnx.save(model, tmp_path / "wrong.onnx")
    code, report = bisected(Shell(tmp_path), "wrong.onnx", "plain.onnx")
    assert (code, report["fault"], report["node"]["name"]) == (1, "weights", chosen.name)
    assert "are 2 times those of the original" in report["says"]


@pytest.mark.parametrize(
    ("scale", "factor"),
    [
        *(("2.weight_scale", factor) for factor in (0.0, np.nan, np.inf)),
        *(("/3/Relu_output_0_scale", factor) for factor in (0.0, np.nan, np.inf, -1.0)),
    ],
)
def test_a_scale_that_is_none_is_named(scale, factor, shell, tmp_path):
    model = onnx.load(shell.folder / "right.onnx")
    like_nets.store(model, scale, like_nets.arrays(model)[scale] * np.float32(factor))
    onnx.save(model, tmp_path / "wrong.onnx")
    code, report = bisected(Shell(tmp_path), "wrong.onnx", shell.folder / "original.onnx")
    assert code == 1 and scale in report["node"]["inputs"]
    assert "its scale is " in report["says"] and report["says"].endswith(", and a scale is a positive number")


def test_an_original_that_gives_no_number_is_one_line(shell):
    model = onnx.load(shell.folder / "original.onnx")
    like_nets.store(model, "2.weight", like_nets.arrays(model)["2.weight"] * np.float32(np.nan))
    onnx.save(model, shell.folder / "nan.onnx")
    expected = "xbench: float64 itself gives no number for nan.onnx"
    assert refused(shell, "bisect", "right.onnx", "--like", "nan.onnx") == expected


def test_an_output_of_integers_is_one_line(shell):
    model = onnx.load(shell.folder / "right.onnx")
    last = model.graph.node.pop()
    assert (last.op_type, [*last.output]) == ("DequantizeLinear", ["y"])
    for node in model.graph.node:
        node.output[:] = ["y" if name == last.input[0] else name for name in node.output]
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT8
    onnx.save(model, shell.folder / "integers.onnx")
    expected = "xbench: output y is of integers in integers.onnx and of numbers in original.onnx: it cannot be compared"
    assert refused(shell, "bisect", "integers.onnx", "--like", "original.onnx") == expected


def test_a_wrong_bias_is_named(shell):
    model = onnx.load(shell.folder / "right.onnx")
    (tensor,) = (each for each in model.graph.initializer if each.name == "6.bias_quantized")
    values = numpy_helper.to_array(tensor).copy()
    values[:4] = 10**6
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    onnx.save(model, shell.folder / "bias.onnx")
    code, report = bisected(shell, "bias.onnx")
    assert (code, report["node"]["outputs"]) == (1, ["6.bias"]), report["says"]


# ***** what does not fit together *****


def shaped(shell, name, size):
    model = onnx.load(shell.folder / "original.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = size
    for tensor in model.graph.initializer:
        if tensor.name == "0.weight":
            array = numpy_helper.to_array(tensor)
            tensor.CopyFrom(numpy_helper.from_array(array[:, :size].copy(), tensor.name))
    onnx.save(model, shell.folder / name)


def test_what_does_not_fit_together_is_one_line(shell):
    original = onnx.load(shell.folder / "original.onnx")
    onnx.save(original, shell.folder / "same.onnx")
    generator = np.random.default_rng(0)
    for tensor in original.graph.initializer:
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array(generator.permutation(array.ravel()).reshape(array.shape), tensor.name))
    onnx.save(original, shell.folder / "other.onnx")
    shaped(shell, "shaped.onnx", 20)
    (shell.folder / "broken.onnx").write_bytes((shell.folder / "original.onnx").read_bytes()[:300])
    lines = {
        ("right.onnx", "right.onnx"): "right.onnx and right.onnx are the same network: nothing differs",
        ("original.onnx", "other.onnx"): "original.onnx is not quantised: nothing in it is rounded",
        ("original.onnx", "same.onnx"): "original.onnx and same.onnx are the same network: nothing differs",
        ("right.onnx", "other.onnx"): "right.onnx was not made of other.onnx: with right inputs ",
        (
            "right.onnx",
            "shaped.onnx",
        ): "input x is float32 (batch, 24) in right.onnx, and float32 (batch, 20) in shaped",
        ("right.onnx", "broken.onnx"): "broken.onnx is not a valid ONNX file: ",
        ("right.onnx", "missing.onnx"): "no such file: missing.onnx",
        ("broken.onnx", "original.onnx"): "broken.onnx is not a valid ONNX file: ",
    }
    for (file, like), expected in lines.items():
        assert refused(shell, "bisect", file, "--like", like).startswith(f"xbench: {expected}"), (file, like)


def test_other_options_of_bisect_are_refused(shell):
    expected = "xbench: --like compares two files in float64: no runtime, mode, precision, device or layout"
    words = ("bisect", "right.onnx", "--like", "original.onnx")
    for more in (("onnxruntime",), ("--mode", "gradient"), ("--precision", "int8"), ("--layout", "nhwc")):
        assert refused(shell, *words, *more) == expected
    assert refused(shell, "bisect", "right.onnx").startswith("xbench: which runtime? xbench bisect MODEL A [B]")


@pytest.mark.parametrize("word", ["markup", "line separator", "backslash and quotes", "long", "script", "shell"])
def test_hostile_names_stay_text(word, shell, tmp_path):
    model, name = onnx.load(shell.folder / "narrow.onnx"), TENSORS[word]
    for node in model.graph.node:
        node.name = f"{name}{node.name}"
        for each in (node.input, node.output):
            each[:] = [f"{name}{tensor}" if tensor not in ("x", "y", "") else tensor for tensor in each]
    for tensor in model.graph.initializer:
        tensor.name = f"{name}{tensor.name}"
    del model.graph.value_info[:]
    onnx.save(model, tmp_path / "hostile.onnx")
    answer = Shell(tmp_path).run("bisect", "hostile.onnx", "--like", shell.folder / "original.onnx")
    assert answer.returncode == 1, answer.stderr
    assert all(line.isprintable() for line in answer.stdout.splitlines())
    assert "is to blame: its range is too narrow" in answer.stdout.splitlines()[0]
    code, report = bisected(Shell(tmp_path), "hostile.onnx", shell.folder / "original.onnx")
    assert (code, report["node"]["name"].startswith(name)) == (1, True)
    assert not any((tmp_path / each).exists() for each in ("pwned", "xbench-bisect"))


def test_ctrl_c_ends_it_with_one_line_and_leaves_nothing(shell, tmp_path):
    place = Shell(tmp_path)
    for file in ("narrow.onnx", "original.onnx"):
        (tmp_path / file).write_bytes((shell.folder / file).read_bytes())
    process = place.start("bisect", "narrow.onnx", "--like", "original.onnx")
    assert place.until(lambda: place.survivors(0))
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert only_line((tmp_path / "stderr.log").read_text()).startswith("xbench: interrupted")
    assert not place.survivors()


# ***** its parts *****


def test_a_fault_that_is_drawn_again_is_the_same(tmp_path):
    """What the slow tests plant does not depend on the order in which they run."""
    for name in ("one", "two"):
        like_nets.exported("random 4", tmp_path / f"{name}.onnx")
    one, two = (onnx.load(tmp_path / f"{name}.onnx") for name in ("one", "two"))
    assert like_plants.large_channel(one, random.Random(3)) == like_plants.large_channel(two, random.Random(3))
    assert all(np.array_equal(like_nets.arrays(one)[name], array) for name, array in like_nets.arrays(two).items())
