"""Answers that other programs computed get the verdict of `check`, and what cannot be read one line."""

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from fault_kit import only_line
from onnx import TensorProto, helper, numpy_helper
from places import ROOT

from xbench.case import Case
from xbench.errors import XBenchError
from xbench.experiments.judge import judge, row_of
from xbench.proof import question as questions
from xbench.proof.ask import ask
from xbench.proof.prove import verify

EXAMPLES = ROOT / "examples" / "elsewhere"
WEB = "onnxruntime-web@1.30.0"
SETS = ("test_data_set_0", "test_data_set_1")
INSIDE = """
import torch
from torch import nn

def inside():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
"""


@pytest.fixture(scope="module")
def asked(exporter, tmp_path_factory):
    """Asks about a model, in a folder of its own."""

    def asked(artifact, batches=(2, 3), precision="fp32", tensors=False):
        folder = tmp_path_factory.mktemp("asked") / "question"
        ask(artifact, exporter, folder, batches, precision, tensors)
        return folder

    return asked


@pytest.fixture(scope="module")
def images(exporter, asked, tmp_path_factory):
    """A convolution whose output has three axes of different sizes, and a second output."""
    path = tmp_path_factory.mktemp("images") / "images.onnx"
    weights = np.random.default_rng(0).normal(size=(5, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["features"], pads=[1, 1, 1, 1]),
            helper.make_node("Tanh", ["features"], ["squashed/of it"]),
            helper.make_node("ReduceMean", ["features"], ["mean"], keepdims=0),
        ],
        "images",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 4, 6])],
        [
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 5, 4, 6]),
            helper.make_tensor_value_info("squashed/of it", TensorProto.FLOAT, ["batch", 5, 4, 6]),
            helper.make_tensor_value_info("mean", TensorProto.FLOAT, []),
        ],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return asked(exporter.artifact(str(path)))


def computed(question):
    """What ONNX Runtime makes of the file, by set and name."""
    session = onnxruntime.InferenceSession(question / "model.onnx", providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    found = {}
    for place in SETS:
        with np.load(question / place / "inputs.npz") as file:
            found[place] = dict(zip(names, session.run(names, dict(file)), strict=True))
    return found


@pytest.fixture(scope="module")
def right(images):
    return computed(images)


def write(folder, answers):
    """Answers as `numpy.savez` writes them, by place."""
    for place, values in answers.items():
        (folder / place).mkdir(parents=True, exist_ok=True)
        np.savez(folder / place / "outputs.npz", *values.values())
    return folder


def verdict(question, folder):
    return row_of(judge(questions.read_question(question), folder))


def changed(right, change):
    """The answers with those of the first set changed."""
    return {SETS[0]: change(dict(right[SETS[0]])), SETS[1]: dict(right[SETS[1]])}


# ***** the same verdict as `check` *****


@pytest.mark.parametrize(
    "model",
    [
        "lenet",
        "imdb_lstm",
        "sae_small",
        "mobilenet_v2",
        "vit_s16",
    ],
)
def test_a_script_that_knows_no_xbench_gets_the_verdict_of_check(model, exporter, asked, tmp_path):
    artifact = exporter.artifact(model)
    question, answers = asked(artifact), tmp_path / "answers"
    script = EXAMPLES / "answer.py"
    assert len(script.read_text().splitlines()) <= 24
    threads = {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-I", script, question, answers], check=True, env={**os.environ, **threads})
    row = verdict(question, answers)
    record = verify(Case(model, "onnxruntime", "forward", 2), artifact, exporter, 120, tmp_path)
    assert (row["status"], record["status"]) == ("PASS", "PASS")
    assert {key: row[key] for key in ("class", "worst_tensor", "tensors")} == {
        key: record["parity"][key] for key in ("class", "worst_tensor", "tensors")
    }
    assert [each["ratio"] for each in row["sets"]] == pytest.approx(record["parity"]["seeds"], rel=0.05)


@pytest.mark.parametrize("runtime", ["fault_wrong_first", "fault_wrong_second", "fault_infinite"])
def test_a_fault_is_called_as_in_check(runtime, two_outputs, exporter, asked, faults, tmp_path):
    """The fake runtimes of the fault kit, and their answers in a file."""
    record = verify(Case(two_outputs.name, runtime, "forward", 2), two_outputs, exporter, 120, tmp_path)
    question = asked(two_outputs)
    answers = computed(question)
    name = "right" if runtime == "fault_wrong_second" else "left"
    for place in SETS:
        values = answers[place][name]
        answers[place][name] = np.full_like(values, np.inf) if runtime == "fault_infinite" else values * 1.01
    row = verdict(question, write(tmp_path / "answers", answers))
    assert record["status"] == row["status"] == "FAIL"
    assert record["parity"]["worst_tensor"] == row["worst_tensor"]
    assert row["message"].split(": ")[1].split(" is ")[0] == record["message"].split(" is ")[0] == f"output/{name}"


# ***** forms *****


def by_name(folder, values):
    np.savez(folder / "outputs.npz", **{name.replace("squashed/of it", "output_1"): a for name, a in values.items()})


def by_place(folder, values):
    np.savez_compressed(folder / "outputs.npz", *values.values())


def as_npy(folder, values):
    for place, array in enumerate(values.values()):
        np.save(folder / f"output_{place}.npy", np.asarray(array, order="F"))


def as_pb(folder, values):
    for place, (name, array) in enumerate(values.items()):
        (folder / f"output_{place}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def as_bytes(folder, values):
    for place, array in enumerate(values.values()):
        (folder / f"output_{place}.bin").write_bytes(array.tobytes())


def big_endian(folder, values):
    for place, array in enumerate(values.values()):
        np.save(folder / f"output_{place}.npy", array.astype(">f4"))


@pytest.mark.parametrize("form", [by_name, by_place, as_npy, as_pb, as_bytes, big_endian])
def test_answers_are_read_in_any_form(form, images, right, tmp_path):
    for place in SETS:
        (tmp_path / place).mkdir()
        form(tmp_path / place, right[place])
    row = verdict(images, tmp_path)
    assert (row["status"], row["class"], row["tensors"], row["message"]) == ("PASS", "fp32", 3, None)
    assert [each["set"] for each in row["sets"]] == list(SETS)


def test_every_form_of_an_input_is_the_same(images):
    for place in SETS:
        with np.load(images / place / "inputs.npz") as file:
            array = file["x"]
        raw = np.frombuffer((images / place / "input_0.bin").read_bytes(), np.float32).reshape(array.shape)
        proto = onnx.load_tensor(images / place / "input_0.pb")
        assert proto.name == "x"
        assert np.array_equal(array, raw) and np.array_equal(array, numpy_helper.to_array(proto))
    assert len((images / "README.md").read_text().split("\n\n")[1].splitlines()) <= 10


def test_other_types_travel_as_they_are(exporter, asked, tmp_path):
    nodes = [
        helper.make_node("Cast", ["flags"], ["counted"], to=TensorProto.INT64),
        helper.make_node("Add", ["counted", "ids"], ["sum"]),
        helper.make_node("Cast", ["small"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Exp", ["wide"], ["grown"]),
        helper.make_node("Cast", ["grown"], ["out"], to=TensorProto.BFLOAT16),
        helper.make_node("Greater", ["ids", "counted"], ["more"]),
    ]
    graph = helper.make_graph(
        nodes,
        "types",
        [
            helper.make_tensor_value_info("flags", TensorProto.BOOL, [2, 3]),
            helper.make_tensor_value_info("ids", TensorProto.INT64, [2, 3]),
            helper.make_tensor_value_info("small", TensorProto.BFLOAT16, [4]),
        ],
        [
            helper.make_tensor_value_info("sum", TensorProto.INT64, [2, 3]),
            helper.make_tensor_value_info("out", TensorProto.BFLOAT16, [4]),
            helper.make_tensor_value_info("more", TensorProto.BOOL, [2, 3]),
        ],
    )
    path = tmp_path / "types.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    question = asked(exporter.artifact(str(path)))
    facts = json.loads((question / "question.json").read_text())
    assert [each["dtype"] for each in facts["inputs"]] == ["bool", "int64", "bfloat16"]
    assert [each["dtype"] for each in facts["outputs"]] == ["int64", "bfloat16", "bool"]
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    for place in SETS:
        given = {}
        for index, dtype in enumerate((np.dtype(bool), np.dtype(np.int64), bfloat16)):
            given[index] = np.frombuffer((question / place / f"input_{index}.bin").read_bytes(), dtype)
        flags, ids = given[0].reshape(2, 3), given[1].reshape(2, 3)
        out = np.exp(given[2].astype(np.float32)).astype(bfloat16)
        (tmp_path / "answers" / place).mkdir(parents=True)
        for index, array in enumerate((ids + flags, out, ids > flags.astype(np.int64))):
            if index == 1:
                np.save(tmp_path / "answers" / place / f"output_{index}.npy", array)  # a void of two bytes
            else:
                (tmp_path / "answers" / place / f"output_{index}.bin").write_bytes(array.tobytes())
    row = verdict(question, tmp_path / "answers")
    assert row["status"] == "PASS", row


# ***** what is wrong is named *****


def of_first(name, change):
    return lambda values: {**values, name: change(values[name])}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            of_first("features", lambda a: a.transpose(0, 2, 3, 1)),
            r"the axes of features are in another order: transposed by \(0, 3, 1, 2\) it is right",
        ),
        (
            of_first("features", lambda a: np.ascontiguousarray(a.transpose(0, 2, 3, 1)).reshape(a.shape)),
            r"the axes of features are in another order: transposed by \(0, 3, 1, 2\) it is right",
        ),
        (of_first("features", np.ravel), r"features is right in the shape 2 x 5 x 4 x 6"),
        (of_first("features", lambda a: a.byteswap()), r"the bytes of features are in the other order \(big-endian\)"),
        (
            lambda v: {"features": v["squashed/of it"], "squashed/of it": v["features"], "mean": v["mean"]},
            r"features holds what is squashed/of it: the outputs are in another order",
        ),
        (of_first("features", lambda a: a * np.nan), "240 values of features are not finite"),
        (of_first("features", lambda a: a * 0), "features is zero"),
        (
            of_first("features", lambda a: a.astype(np.float64)),
            "output/features is float64 where the graph says float32",
        ),
        (
            of_first("features", lambda a: a.astype(np.float16)),
            "output/features is float16 where the graph says float32",
        ),
        (of_first("features", lambda a: a.astype(np.complex64)), "output/features is complex64 where the graph says"),
        (of_first("features", lambda a: a[:1]), "features is 1 x 5 x 4 x 6, where the graph gives 2 x 5 x 4 x 6$"),
        (
            of_first("features", lambda a: np.concatenate([a, a[:1]])),
            "where the graph gives 2 x 5 x 4 x 6, as that of test_data_set_1 is: is the model of one batch size?",
        ),
        (of_first("features", lambda a: a * 1.01), r"output/features is \d+ times the float32 noise off"),
        (of_first("mean", lambda a: a + 1), r"output/mean is \d+ times the float32 noise off"),
    ],
)
def test_what_is_wrong_is_said(change, says, images, right, tmp_path):
    row = verdict(images, write(tmp_path, changed(right, change)))
    assert row["status"] == "FAIL"
    assert re.search(says, row["message"]), row["message"]
    assert [each["status"] for each in row["sets"]] == ["FAIL", "PASS"]


def test_answers_to_other_inputs_are_called_so(exporter, two_outputs, asked, tmp_path):
    question = asked(two_outputs, batches=(2, 2))
    answers = computed(question)
    row = verdict(question, write(tmp_path, {SETS[0]: answers[SETS[1]], SETS[1]: answers[SETS[0]]}))
    assert row["status"] == "FAIL"
    for each, other in zip(row["sets"], reversed(SETS), strict=True):
        assert each["message"].endswith(f"left is right for the inputs of {other}")


def test_an_output_that_is_missing_is_called_so(images, right, tmp_path):
    for place in SETS:
        (tmp_path / place).mkdir()
        as_npy(tmp_path / place, right[place])
    (tmp_path / SETS[1] / "output_1.npy").unlink()
    row = verdict(images, tmp_path)
    assert (row["status"], row["message"]) == ("FAIL", f"{SETS[1]}: gives 2 of 3 outputs: squashed/of it is missing")


def test_sixteen_bits_are_a_class_of_their_own(exporter, two_outputs, asked, tmp_path):
    question = asked(two_outputs)
    answers = computed(question)
    halves = {place: {n: a.astype(np.float16).astype(np.float32) for n, a in v.items()} for place, v in answers.items()}
    row = verdict(question, write(tmp_path / "one", halves))
    assert (row["status"], row["class"]) == ("FAIL", "half")
    assert row["message"].endswith("rounding to fewer bits explains it: `xbench ask --precision fp16` allows that")
    allowed = asked(two_outputs, precision="fp16")
    narrow = {place: {n: a.astype(np.float16) for n, a in v.items()} for place, v in answers.items()}
    assert verdict(allowed, write(tmp_path / "two", narrow))["status"] == "PASS"
    row = verdict(allowed, write(tmp_path / "three", answers))
    assert (row["status"], row["class"], row["message"]) == ("PASS", "fp32", None), "more bits are as good"
    turned = {place: {**v, "right": v["right"].T.astype(np.float16)} for place, v in answers.items()}
    assert "the axes of right are in another order" in verdict(allowed, write(tmp_path / "four", turned))["message"]


def test_the_first_wrong_tensor_is_named(exporter, asked, tmp_path):
    (tmp_path / "nets.py").write_text(INSIDE)
    artifact = exporter.artifact(f"{tmp_path / 'nets.py'}:inside@x:float32:batch,8")
    question = asked(artifact, tensors=True)
    session = onnxruntime.InferenceSession(question / "every_tensor.onnx", providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    answers = tmp_path / "answers"
    write(answers, computed(question))
    with np.load(question / SETS[0] / "inputs.npz") as file:
        every = dict(zip(names, session.run(names, dict(file)), strict=True))
    inner = next(name for name in names if "tanh" in name.lower())
    np.savez(answers / SETS[0] / "tensors.npz", **every)
    row = verdict(question, answers)
    assert (row["first_wrong"], row["message"]) == (None, f"the {len(names)} tensors given of {len(names)} are right")
    late = names[names.index(inner) :]
    np.savez(answers / SETS[0] / "tensors.npz", **{n: a * 1.5 if n in late else a for n, a in every.items()})
    with np.load(answers / SETS[0] / "outputs.npz") as file:
        np.savez(answers / SETS[0] / "outputs.npz", **{n: file[n] * 1.5 for n in file.files})
    row = verdict(question, answers)
    assert row["first_wrong"] == inner
    assert row["message"].endswith(f"first wrong tensor: {inner}")
    np.savez(answers / SETS[0] / "tensors.npz", **{names[-1]: every[names[-1]].T * 1.5})
    row = verdict(question, answers)
    assert f"({len(names) - 1} before it were not given, such as {names[-2]})" in row["message"]
    assert row["message"].endswith(f"{names[-1]} is 4 x 2, where the graph gives 2 x 4")
    np.savez(answers / SETS[0] / "tensors.npz", nothing=np.zeros(2))
    assert json.loads((question / "question.json").read_text())["tensors"] == names
    with pytest.raises(XBenchError, match=r"has nothing, which is no tensor of every_tensor\.onnx"):
        verdict(question, answers)


def graph(exporter, folder, text):
    path = folder / "graph.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]>\n{text}'), path)
    return exporter.artifact(str(path))


def test_where_float32_overflows_nothing_passes(exporter, asked, tmp_path):
    """Even next to a tensor so large that this one would count as zero."""
    text = """g (float[batch, 4] x) => (float[batch, 4] a, float[batch, 4] b) <float k = {200}, float c = {1e10}>
      { s = Mul(x, k) e = Exp(s) f = Sub(s, x) h = Exp(f) a = Div(e, h) b = Mul(x, c) }"""
    question = asked(graph(exporter, tmp_path, text))
    for factor in (1.0, 7.0, np.nan):
        answers = {}
        for number, place in enumerate(SETS):
            with np.load(question / "reference" / f"{number}.npz") as file:
                answers[place] = {name: file[f"output/{name}"].astype(np.float32) for name in "ab"}
            answers[place]["a"] *= np.float32(factor)
        assert verdict(question, write(tmp_path / str(factor), answers))["status"] == "UNVERIFIED"
    answers[SETS[0]]["a"] = answers[SETS[0]]["a"][:1]
    assert verdict(question, write(tmp_path / "short", answers))["status"] == "FAIL"


def test_integers_are_exact(exporter, asked, tmp_path):
    question = asked(
        graph(
            exporter,
            tmp_path,
            "g (int64[batch, 8] x) => (int64[batch, 8] y) <int64[1] k = {1000000}> { y = Add(x, k) }",
        )
    )
    answers = computed(question)
    assert verdict(question, write(tmp_path / "right", answers))["status"] == "PASS"
    answers[SETS[0]]["y"][0, 3] += 1
    assert verdict(question, write(tmp_path / "wrong", answers))["status"] == "FAIL"


def test_a_name_means_the_output_that_has_it(exporter, asked, tmp_path):
    """Though it is what another place is called where it has no usable name."""
    text = "g (float[batch, 4] input_1, float[batch, 4] y) => (float[batch, 4] output_1, float[batch, 4] output_0) "
    artifact = graph(exporter, tmp_path, text + "{ output_1 = Tanh(input_1) output_0 = Sigmoid(y) }")
    model = onnx.load(artifact.given)
    model.graph.input[1].name = model.graph.node[1].input[0] = "weird name!"
    onnx.save(model, tmp_path / "weird.onnx")
    question = asked(exporter.artifact(str(tmp_path / "weird.onnx")))
    facts = json.loads((question / "question.json").read_text())
    assert [each["key"] for each in facts["inputs"]] == ["input_1", "input_1_"]
    assert [each["key"] for each in facts["outputs"]] == ["output_1", "output_0"]
    answers = tmp_path / "answers"
    subprocess.run([sys.executable, "-I", EXAMPLES / "answer.py", question, answers], check=True)
    assert verdict(question, answers)["status"] == "PASS"
    for place in SETS:
        values = [np.load(answers / place / f"output_{number}.npy") for number in range(2)]
        (tmp_path / "named" / place).mkdir(parents=True)
        np.savez(tmp_path / "named" / place / "outputs.npz", output_1=values[0], output_0=values[1])
    assert verdict(question, tmp_path / "named")["status"] == "PASS"


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("question.json", "where the question has a file of its own"),
        ("test_data_set_0/w", "a file of its own"),
        ("data/w", None),
    ],
)
def test_weights_of_a_file_and_nothing_else_go_along(location, says, exporter, asked, tmp_path):
    weights = np.random.default_rng(0).normal(size=(4, 300)).astype(np.float32)
    tensor = numpy_helper.from_array(weights, "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", k]) for n, k in (("x", 4), ("y", 300)))
    model = helper.make_model(
        helper.make_graph([node], "g", [x], [y], [tensor]), ir_version=9, opset_imports=[helper.make_opsetid("", 20)]
    )
    model.metadata_props.add(key="location", value="secret.txt")
    (tmp_path / location).parent.mkdir(exist_ok=True)
    (tmp_path / "secret.txt").write_text("mine")
    onnx.external_data_helper.convert_model_to_external_data(model, location=location, size_threshold=0)
    onnx.save(model, tmp_path / "model.onnx")
    artifact = exporter.artifact(str(tmp_path / "model.onnx"))
    if says:
        with pytest.raises(XBenchError, match=says):
            asked(artifact)
    else:
        question = asked(artifact)
        assert not [*question.rglob("secret.txt")]
        assert verdict(question, write(tmp_path / "answers", computed(question)))["status"] == "PASS"


# ***** times *****


@pytest.mark.parametrize(
    "content", ["[0.25, 0.5, 1]", '{"seconds": [0.25, 0.5, 1], "runtime": "a\\u001b[2J", "machine": "phone"}']
)
def test_times_are_shown_and_called_what_they_are(content, images, right, shell):
    answers = write(shell.folder / "answers", right)
    (answers / "times.json").write_text(content)
    shown = shell.inside("judge", images, "answers")
    assert shown.returncode == 0 and "\x1b" not in shown.stdout
    assert "500 ms, the median of 3" in shown.stdout and "not timed by xbench" in shown.stdout
    row = json.loads(shell.inside("judge", images, "answers", "--json", "--runtime", "mine").stdout)
    assert row["times"]["median_s"] == 0.5 and row["runtime"] == "mine"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "3",
        '{"seconds": "1"}',
        "[true]",
        "[0]",
        "[-1]",
        "[1e999]",
        '{"seconds": [1], "runtime": 3}',
        "[" * 99999,
        "[1" + "0" * 400 + "]",
        "[1e300, 1e300]",
    ],
)
def test_times_that_are_none_are_refused(content, images, right, shell):
    (write(shell.folder / "answers", right) / "times.json").write_text(content)
    answer = shell.inside("judge", images, "answers")
    assert answer.returncode == 2 and "times.json" in only_line(answer.stderr)


# ***** the store *****


def test_a_verdict_is_stored_shown_reported_and_never_ranked(images, right, shell):
    answers = write(shell.folder / "answers", right)
    (answers / "times.json").write_text("[1e-9]")
    for runtime in ("<script>", "<script>", "another"):
        assert shell.inside("judge", images, "answers", "--runtime", runtime).returncode == 0
    records = [json.loads(line) for line in (shell.folder / "xbench-results/judge.jsonl").read_text().splitlines()]
    assert [record["case"]["runtime"] for record in records] == ["<script>", "<script>", "another"]
    assert all(record["times"] is None and record["judged"]["times"]["median_s"] == 1e-9 for record in records)
    shown = shell.inside("show").stdout
    assert shown.count("the answers of <script>") == shown.count("the answers of another") == 1
    assert shown.count("not timed by xbench") == 2
    assert json.loads(shell.inside("show", "--json").stdout) == []
    assert "3 answers" not in shell.inside("show", "--json").stderr
    assert "2 answers of other programs are not among these" in shell.inside("show", "--json").stderr
    one = shell.inside("show", "--runtime", "another").stdout
    assert "the answers of another" in one and "<script>" not in one
    assert shell.inside("report", "--output", "report.html").returncode == 0
    report = (shell.folder / "report.html").read_text()
    assert "the answers of &lt;script&gt;" in report and "not timed by xbench" in report
    assert shell.inside("recommend", "images.onnx").returncode == 2


@pytest.mark.parametrize(
    "change", [{"judged": None}, {"judged": {"sets": 3}}, {"parity": None}, {"judged": {"sets": [{}]}}]
)
def test_a_damaged_record_costs_itself_alone(change, images, right, shell):
    write(shell.folder / "answers", right)
    for runtime in ("one", "two"):
        shell.inside("judge", images, "answers", "--runtime", runtime)
    path = shell.folder / "xbench-results/judge.jsonl"
    first, second = path.read_text().splitlines()
    path.write_text(json.dumps(json.loads(first) | change) + "\n" + second + "\n")
    shown = shell.inside("show")
    assert shown.returncode == 0 and "the answers of two" in shown.stdout and "the answers of one" not in shown.stdout
    assert only_line(shown.stderr).startswith("xbench: skipped ")


# ***** bad input *****


def zipped(folder, name, data):
    with zipfile.ZipFile(folder / SETS[0] / "outputs.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)


def spoilt(folder, file, data):
    (folder / SETS[0] / "outputs.npz").unlink()
    (folder / SETS[0] / file).write_bytes(data)


def header(shape, descr="<f4"):
    """An `.npy` without values."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def external(folder):
    tensor = numpy_helper.from_array(np.zeros(240, np.float32), "features")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    spoilt(folder, "output_0.pb", tensor.SerializeToString())


def damaged(folder):
    path = folder / SETS[0] / "outputs.npz"
    np.savez_compressed(path, features=np.random.default_rng(0).normal(size=(2, 5, 4, 6)).astype(np.float32))
    data = bytearray(path.read_bytes())
    data[100:130] = bytes(30)
    path.write_bytes(data)


def piped(folder):
    (folder / SETS[0] / "outputs.npz").unlink()
    os.mkfifo(folder / SETS[0] / "output_0.bin")


SPOILT = {
    "no folder": (lambda f: shutil.rmtree(f), "there is no folder of answers at answers"),
    "no set": (lambda f: shutil.rmtree(f / SETS[0]), "no answers in answers/test_data_set_0"),
    "both forms": (
        lambda f: (f / SETS[0] / "output_0.bin").write_bytes(b""),
        "has outputs.npz and output_0.bin: which are the answers?",
    ),
    "one too many": (lambda f: spoilt(f, "output_3.bin", b""), "has output_3.bin, but there are 3 outputs"),
    "tensors": (
        lambda f: np.savez(f / SETS[0] / "tensors.npz", features=np.zeros(2)),
        "the question has no tensors, ask with --tensors",
    ),
    "half of it": (lambda f: spoilt(f, "output_0.bin", bytes(480)), "is 960; is it of 16 bits?"),
    "twice of it": (lambda f: spoilt(f, "output_0.bin", bytes(1920)), "is 960; is it float64?"),
    "one set": (lambda f: shutil.rmtree(f / SETS[1]), "no answers in answers/test_data_set_1"),
    "no archive": (lambda f: (f / SETS[0] / "outputs.npz").write_bytes(b"PK"), "outputs.npz cannot be read"),
    "other names": (
        lambda f: np.savez(f / SETS[0] / "outputs.npz", a=np.zeros(2), b=np.zeros(2)),
        "has a, b, which is no output",
    ),
    "twice": (
        lambda f: np.savez(f / SETS[0] / "outputs.npz", arr_0=np.zeros(2), features=np.zeros(2)),
        "has an output twice",
    ),
    "objects": (
        lambda f: np.savez(f / SETS[0] / "outputs.npz", features=np.array([{}, None])),
        "it has Python objects",
    ),
    "a bomb": (lambda f: zipped(f, "features.npy", header((2**28,)) + bytes(2**22)), "is longer than 4 times"),
    "a claim": (lambda f: zipped(f, "features.npy", header((2**40,))), "it is cut short"),
    "a claim below zero": (lambda f: zipped(f, "features.npy", header((-4, -4))), "cannot be read"),
    "a path": (lambda f: zipped(f, "../../features.npy", header((0,))), "which is no output"),
    "two forms": (
        lambda f: (spoilt(f, "output_0.bin", b""), (f / SETS[0] / "output_0.npy").write_bytes(b"")),
        "has output_0 twice",
    ),
    "bytes": (
        lambda f: spoilt(f, "output_0.bin", bytes(8)),
        "it has 8 bytes, where float32 of shape 2 x 5 x 4 x 6 is 960",
    ),
    "many bytes": (lambda f: spoilt(f, "output_0.bin", bytes(2**20)), "it is longer than 4 times"),
    "no proto": (lambda f: spoilt(f, "output_0.pb", b"\xff" * 40), "it is no TensorProto of ONNX"),
    "no header": (
        lambda f: spoilt(f, "output_0.npy", b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': (".ljust(118)),
        "cannot be read",
    ),
    "no version": (lambda f: spoilt(f, "output_0.npy", b"\x93NUMPY\x09" + header((0,))[7:]), "it is of no version"),
    "a short size": (lambda f: spoilt(f, "output_0.npy", header((-1, 5, 4, 6)) + bytes(960)), "a size is negative"),
    "trailing": (lambda f: spoilt(f, "output_0.npy", header((2, 5, 4, 6)) + bytes(961)), "longer than its header says"),
    "no such type": (lambda f: spoilt(f, "output_0.pb", b"\x08\x02\x10\x63"), "output_0.pb cannot be read"),
    "an empty stream": (lambda f: zipped(f, "features.npy", b""), "cannot be read"),
    "a damaged stream": (damaged, "cannot be read"),
    "no npy": (lambda f: spoilt(f, "output_0.npy", b"{}"), "output_0.npy cannot be read"),
    "outside": (external, "its values are in another file"),
    "a pipe": (piped, "it is no regular file"),
    "an image": (lambda f: spoilt(f, "output_0.png", b""), "no answers in"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_answers_that_cannot_be_read_are_one_line(kind, images, right, shell):
    spoil, says = SPOILT[kind]
    answers = write(shell.folder / "answers", right)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spoil(answers)
    answer = shell.inside("judge", images, "answers")
    assert answer.returncode == 2, answer.stdout
    assert says in only_line(answer.stderr)


def edited(question, change):
    facts = json.loads((question / "question.json").read_text())
    change(facts)
    (question / "question.json").write_text(json.dumps(facts))


DAMAGE = {
    "no question": (lambda q: shutil.rmtree(q), "is no question"),
    "no facts": (lambda q: (q / "question.json").write_text("{}"), "is damaged: facts are missing"),
    "no JSON": (lambda q: (q / "question.json").write_text("{"), "question.json is damaged"),
    "a list": (lambda q: (q / "question.json").write_text("[]"), "question.json is damaged: it is not an object"),
    "deep": (lambda q: (q / "question.json").write_text("[" * 99999), "question.json is damaged"),
    "newer": (lambda q: edited(q, lambda f: f.update(format=2)), "has format 2, this xbench reads 1"),
    "no outputs": (lambda q: edited(q, lambda f: f.update(outputs=[])), "is damaged: facts are missing"),
    "no shapes": (lambda q: edited(q, lambda f: f["outputs"][1].update(shapes=[[1]])), "is damaged: facts are missing"),
    "no type": (lambda q: edited(q, lambda f: f["outputs"][0].update(dtype="finfo")), "there is no type finfo"),
    "other fields": (lambda q: (q / "question.json").write_text('{"zz": 1}'), "is damaged: facts are missing"),
    "three sets": (lambda q: edited(q, lambda f: f.update(batches=[2, 3, 2])), "is damaged: facts are missing"),
    "no whole batch": (lambda q: edited(q, lambda f: f.update(batches=[2.0, 3])), "is damaged: facts are missing"),
    "a huge shape": (lambda q: edited(q, lambda f: f["outputs"][0].update(shapes=[[2**61], [1]])), "a shape is none"),
    "another shape": (
        lambda q: edited(q, lambda f: f["outputs"][0].update(shapes=[[2], [1]])),
        "0.npz is not what question.json says",
    ),
    "another name": (
        lambda q: edited(q, lambda f: f["outputs"][0].update(name="other")),
        "0.npz is not what question.json says",
    ),
    "no precision": (lambda q: edited(q, lambda f: f.update(precision="zz")), "there is no precision zz"),
    "text": (lambda q: edited(q, lambda f: f.update(model=3)), "question.json is damaged: model is not text"),
    "a reference": (
        lambda q: (q / "reference" / "0.npz").write_bytes(b""),
        "0.npz was changed since `xbench ask` wrote it",
    ),
    "no reference": (lambda q: (q / "reference" / "1.npz").unlink(), "1.npz cannot be read"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_question_is_one_line(kind, images, right, shell):
    damage, says = DAMAGE[kind]
    question = shell.folder / "question"
    shutil.copytree(images, question)
    for place in SETS:
        (shell.folder / "answers" / place).mkdir(parents=True)
        as_bytes(shell.folder / "answers" / place, right[place])
    damage(question)
    answer = shell.inside("judge", "question", "answers")
    assert answer.returncode == 2, answer.stdout
    assert says in only_line(answer.stderr)


def test_a_question_is_never_half_written(shell, two_outputs, tmp_path_factory):
    used = shell.folder / "used"
    used.mkdir()
    (used / "file").write_text("mine")
    answer = shell.inside("ask", "lenet", "--output", "used")
    assert answer.returncode == 2 and "it is no empty folder" in only_line(answer.stderr)
    answer = shell.inside("ask", "no_such_network", "--output", "new")
    assert answer.returncode == 2 and not (shell.folder / "new").exists()
    assert [each.name for each in used.iterdir()] == ["file"]


def test_names_of_a_file_stay_in_the_folder(exporter, asked, tmp_path):
    """They are written into the table of the README, and into archives that people unpack."""
    wicked = ["../../x", "<script>|`a`", "file", "/abs", "a b"]
    nodes = [
        helper.make_node("Neg", ["../y" if place == 0 else f"in{place}"], [name]) for place, name in enumerate(wicked)
    ]
    graph = helper.make_graph(
        nodes,
        "wicked",
        [helper.make_tensor_value_info(node.input[0], TensorProto.FLOAT, ["batch", 2]) for node in nodes],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in wicked],
    )
    path = tmp_path / "wicked.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    question = asked(exporter.artifact(str(path)))
    with zipfile.ZipFile(question / SETS[0] / "inputs.npz") as archive:
        assert archive.namelist() == ["input_0.npy", *(f"in{place}.npy" for place in range(1, 5))]
    readme = (question / "README.md").read_text()
    assert "<script>" not in readme
    for place in SETS:
        (tmp_path / "answers" / place).mkdir(parents=True)
        given = [np.frombuffer((question / place / f"input_{i}.bin").read_bytes(), np.float32) for i in range(5)]
        as_npy(tmp_path / "answers" / place, {str(i): -a.reshape(-1, 2) for i, a in enumerate(given)})
    assert verdict(question, tmp_path / "answers")["status"] == "PASS"


# ***** programs in other languages *****


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    """The examples in a folder with ONNX Runtime Web."""
    if not shutil.which("npm"):
        pytest.skip("npm is missing")
    folder = tmp_path_factory.mktemp("web")
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", WEB]
    if subprocess.run(words, cwd=folder, capture_output=True, timeout=300).returncode:
        pytest.skip("npm cannot install ONNX Runtime Web")
    return folder


@pytest.fixture(scope="module")
def about_lenet(lenet, asked):
    return asked(lenet)


def test_node_is_judged(web, about_lenet, tmp_path):
    answers = tmp_path / "answers"
    subprocess.run(["node", "answer.mjs", about_lenet, answers], cwd=web, check=True, timeout=120)
    row = verdict(about_lenet, answers)
    assert (row["status"], row["class"]) == ("PASS", "fp32")
    assert row["runtime"].startswith("ONNX Runtime Web") and row["times"]["machine"].startswith("Node")


def test_a_browser_is_judged(web, about_lenet, tmp_path):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install playwright")
    if not chromium:
        pytest.skip("Chromium is missing: apt-get install chromium")
    answers = tmp_path / "answers"
    command = [sys.executable, web / "serve.py", about_lenet, answers, "localhost", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            address = server.stdout.readline().split()[-1]
            with sync_api.sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page()
                page.goto(address)
                page.wait_for_function("document.getElementById('state').textContent != 'running ...'", timeout=120_000)
                state = page.inner_text("#state")
                refused = page.evaluate("fetch('answers/../serve.py', {method: 'PUT', body: 'x'}).then(r => r.status)")
                browser.close()
        finally:
            server.kill()
    assert state.startswith("done"), state
    assert refused == 403
    assert verdict(about_lenet, answers)["status"] == "PASS"


def test_a_program_in_cpp_is_judged(about_lenet, tmp_path):
    openvino = pytest.importorskip("openvino")
    if not shutil.which("g++"):
        pytest.skip("g++ is missing")
    place = Path(openvino.__path__[0])
    (library,) = (place / "libs").glob("libopenvino.so*")
    command = ["g++", "-std=c++17", EXAMPLES / "answer.cpp", f"-I{place / 'include'}", f"-L{library.parent}"]
    command += [f"-l:{library.name}", f"-Wl,-rpath,{library.parent}", "-o", tmp_path / "answer"]
    subprocess.run(command, check=True, timeout=300)
    answers = tmp_path / "answers"
    subprocess.run([tmp_path / "answer", about_lenet, answers], check=True, timeout=120)
    assert verdict(about_lenet, answers)["status"] == "PASS"
