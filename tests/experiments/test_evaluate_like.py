"""`xbench evaluate --like`: a quantised file is compared with the network that it was made of, sample by sample; what
does not fit together is one line."""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from fault_kit import Shell, only_line
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from places import ROOT
from wicked import TENSORS


class Images(CalibrationDataReader):
    def __init__(self, name, images):
        self.left = [{name: images[first : first + 32]} for first in range(0, 256, 32)]

    def get_next(self):
        return self.left.pop() if self.left else None


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder of digits.onnx, of digits.npz, and of the file quantised."""
    folder = tmp_path_factory.mktemp("like")
    subprocess.run([sys.executable, ROOT / "examples" / "digits.py", folder], check=True, capture_output=True)
    images = np.load(folder / "digits.npz")["image"].astype(np.float32)
    form = {"quant_format": QuantFormat.QOperator}
    quantize_static(folder / "digits.onnx", folder / "quantised.onnx", Images("image", images), **form)
    return folder


@pytest.fixture(scope="module")
def shell(place):
    return Shell(place)


def answers(place, file):
    data = np.load(place / "digits.npz")
    session = onnxruntime.InferenceSession(place / file)
    return session.run(None, {session.get_inputs()[0].name: data["image"]})[0].argmax(1), data["label"]


def evaluated(shell, *words, code=0, file="quantised.onnx", like="digits.onnx"):
    words = ("evaluate", file, "--like", like, "--inputs", "digits.npz", "--runtime", "onnxruntime", *words)
    answer = shell.run(*words, "--json")
    assert answer.returncode == code, answer.stderr
    (record,) = json.loads(answer.stdout)
    return record


def refused(shell, *words):
    answer = shell.run("evaluate", *words, "--inputs", "digits.npz", "--runtime", "onnxruntime")
    assert (answer.returncode, answer.stdout) == (2, "")
    return only_line(answer.stderr)


def changed(place, name, change):
    """A file made of digits.onnx by a function of its model."""
    model = onnx.load(place / "digits.onnx")
    change(model)
    onnx.save(model, place / name)


def renamed(model, names):
    """Gives tensors of a model other names."""
    for node in model.graph.node:
        node.input[:] = [names.get(each, each) for each in node.input]
        node.output[:] = [names.get(each, each) for each in node.output]
    for value in (*model.graph.input, *model.graph.output):
        value.name = names.get(value.name, value.name)


def test_the_reference_is_the_original_and_the_runtime_is_judged_on_the_file(shell, place):
    record = evaluated(shell)
    found, (own, labels) = record["evaluation"], answers(place, "quantised.onnx")
    original, _ = answers(place, "digits.onnx")
    assert (record["status"], record["parity"]["class"], found["like"]) == ("PASS", "fp32", "digits.onnx")
    assert (found["value"], found["reference"]) == (np.mean(own == labels), np.mean(original == labels))
    assert found["changed"] == np.sum(own != original) > 0
    assert found["gained"] == np.sum((own == labels) & (original != labels))
    assert found["lost"] == np.sum((own != labels) & (original == labels))
    assert found["difference"] == found["value"] - found["reference"]
    assert found["verdict"] == "no worse" and "--like digits.onnx" in record["command"]
    alone = shell.run("evaluate", "quantised.onnx", "--inputs", "digits.npz", "--runtime", "onnxruntime", "--json")
    (record,) = json.loads(alone.stdout)
    assert record["evaluation"]["like"] is None and record["evaluation"]["verdict"] == "same"


def test_the_table_says_what_it_is_compared_with(shell):
    words = ("--like", "digits.onnx", "--inputs", "digits.npz", "--runtime", "onnxruntime")
    answer = shell.run("evaluate", "quantised.onnx", *words)
    assert "quantised.onnx compared with digits.onnx, top1 on 899 samples of digits.npz" in answer.stdout
    assert "digits.onnx (float64)" in answer.stdout and "reference (float64)" not in answer.stdout


def test_equal_answers_of_few_samples_show_nothing_about_the_original(shell):
    """Without --like no answer changed and the tensors are the same: PASS with any number of samples."""
    record = evaluated(shell, "--limit", 20, code=1)
    assert (record["status"], record["evaluation"]["verdict"]) == ("UNVERIFIED", "unclear")


def test_inputs_and_outputs_of_other_names_are_matched_by_position(shell, place):
    changed(place, "named.onnx", lambda model: renamed(model, {"image": "picture", "score": "logits"}))
    one, other = evaluated(shell, like="named.onnx"), evaluated(shell)
    assert one["evaluation"]["reference"] == other["evaluation"]["reference"]
    assert one["evaluation"]["changed"] == other["evaluation"]["changed"]


def test_inputs_in_another_order_are_matched_by_name(tmp_path):
    """`a - b` with its inputs declared in the other order is the same network."""

    def save(name, order, factor=1.0):
        values = [helper.make_tensor_value_info(each, TensorProto.FLOAT, ["batch", 4]) for each in (*order, "y")]
        nodes = [helper.make_node("Mul", ["a", "k"], ["ka"]), helper.make_node("Sub", ["ka", "b"], ["y"])]
        stored = [numpy_helper.from_array(np.float32(factor), "k")]
        graph = helper.make_graph(nodes, "g", values[:2], values[2:], stored)
        opsets = [helper.make_opsetid("", 20)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / f"{name}.onnx")

    save("one", "ab", 1.001)
    save("two", "ba")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 300, 4)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", a=a, b=b, label=(a - b).argmax(1))
    words = ("evaluate", "one.onnx", "--like", "two.onnx", "--inputs", "rows.npz", "--runtime", "onnxruntime", "--json")
    (record,) = json.loads(Shell(tmp_path).run(*words).stdout)
    assert record["evaluation"]["reference"] == 1.0


def test_a_worse_file_fails(shell, place):
    def weaken(model):
        (weight,) = [each for each in model.graph.initializer if each.name.endswith("8.weight")]
        array = numpy_helper.to_array(weight).copy()
        array[3] = 0
        weight.CopyFrom(numpy_helper.from_array(array, weight.name))

    changed(place, "weak.onnx", weaken)
    record = evaluated(shell, file="weak.onnx", code=1)
    assert (record["status"], record["evaluation"]["verdict"]) == ("FAIL", "worse")
    assert record["parity"]["class"] == "fp32"  # the runtime computes the file that it was given
    assert record["message"].startswith("top1 is worse by")


def shaped(model, name, place, size):
    values = {each.name: each for each in (*model.graph.input, *model.graph.output)}
    values[name].type.tensor_type.shape.dim[place].dim_value = size


def test_what_does_not_fit_together_is_one_line(shell, place):
    (place / "broken.onnx").write_bytes((place / "digits.onnx").read_bytes()[:500])
    changed(place, "same.onnx", lambda model: None)
    changed(place, "four.onnx", lambda model: shaped(model, "image", 0, 4))
    lines = {
        "broken.onnx": "broken.onnx ",
        "missing.onnx": "no such file: missing.onnx",
        "lenet": "input image is float32 (batch, 1, 8, 8) in quantised.onnx, and float32 (batch, 1, 28, 28) in lenet",
        "quantised.onnx": "--like quantised.onnx is the same network as quantised.onnx: nothing differs",
        "four.onnx": "--like four.onnx takes 4 samples at once, and quantised.onnx 32: --batch 4",
    }
    for like, expected in lines.items():
        assert refused(shell, "quantised.onnx", "--like", like).startswith(f"xbench: {expected}"), like
    words = ("digits.onnx", "--like", "same.onnx")
    assert refused(shell, *words) == "xbench: --like same.onnx is the same network as digits.onnx: nothing differs"


@pytest.mark.parametrize("word", ["markup", "escape", "backslash and quotes", "direction", "script"])
def test_hostile_names_stay_text(word, tmp_path):
    name = TENSORS.get(word, "\x1b[2J")
    rng = np.random.default_rng(0)
    for file, kind, shape in (("own", name, 4), ("original", f"{name}2", 5)):
        values = [helper.make_tensor_value_info(each, TensorProto.FLOAT, ["batch", shape]) for each in (kind, "y")]
        graph = helper.make_graph([helper.make_node("Relu", [kind], ["y"])], "g", values[:1], values[1:])
        opsets = [helper.make_opsetid("", 20)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / f"{file}.onnx")
    np.savez(tmp_path / "rows.npz", rng.normal(size=(50, 4)).astype(np.float32), label=rng.integers(0, 4, 50))
    words = ("evaluate", "own.onnx", "--like", "original.onnx", "--inputs", "rows.npz", "--runtime", "onnxruntime")
    answer = Shell(tmp_path).run(*words)
    assert answer.returncode == 2 and only_line(answer.stderr).isprintable(), answer.stderr
