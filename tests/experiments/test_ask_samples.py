"""`xbench ask --inputs`: the inputs of a question are samples of the user's."""

import json

import numpy as np
import onnx
import pytest
from fault_kit import Shell, only_line
from onnx import TensorProto, helper, numpy_helper

from xbench.store.results import salvage

ROWS = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
WEIGHT = np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32)
WICKED = "a`|<b>\n[red]$(x)\udcff.npz"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ask")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy"]
    weight = numpy_helper.from_array(WEIGHT, "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net", [ends[0]], [ends[1]], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), folder / "net.onnx")
    for name in ("rows.npz", WICKED):
        np.savez(folder / name, x=ROWS)
    np.savez(folder / "wide.npz", x=ROWS[:, :3])
    return folder


def answered(place, question):
    """The record of right answers."""
    for number, rows in enumerate((ROWS[:2], ROWS[3:6])):
        folder = place / f"{question}-answers" / f"test_data_set_{number}"
        folder.mkdir(parents=True)
        np.savez(folder / "outputs.npz", y=rows @ WEIGHT)
    answer = Shell(place).run("judge", question, f"{question}-answers", "--out", f"{question}-out", "--json")
    return json.loads(answer.stdout)["status"], salvage(place / f"{question}-out" / "judge.jsonl")[0][0]


@pytest.mark.parametrize("name", ["rows.npz", WICKED])
def test_the_inputs_are_the_samples_and_the_answers_are_judged_on_them(name, place):
    question = f"about{len(name)}"
    answer = Shell(place).run("ask", "net.onnx", "--inputs", name, "--output", question, "--tensors", "--json")
    assert json.loads(answer.stdout)["data"].startswith(f"inputs:{name}#")
    for number, rows in enumerate((ROWS[:2], ROWS[3:6])):
        assert np.array_equal(np.load(place / question / f"test_data_set_{number}" / "inputs.npz")["x"], rows)
    lines = (place / question / "README.md").read_text().splitlines()
    assert lines[2].startswith("The inputs are samples of `") and lines[3] == ""
    status, record = answered(place, question)
    assert (status, record["case"]["data"].partition("#")[0]) == ("PASS", f"inputs:{name}")


def test_a_question_of_an_older_xbench_is_judged(place):
    Shell(place).run("ask", "net.onnx", "--inputs", "rows.npz", "--output", "older")
    facts = json.loads((place / "older" / "question.json").read_text())
    (place / "older" / "question.json").write_text(json.dumps({n: v for n, v in facts.items() if n != "data"}))
    status, record = answered(place, "older")
    assert (status, record["case"]["data"]) == ("PASS", "synthetic")


@pytest.mark.parametrize(
    ("samples", "line"),
    [
        ("nothing.npz", "no file or folder nothing.npz"),
        ("", "--inputs is empty: name a file, a folder, module:function or a data set"),
        ("wide.npz", "wide.npz: x is (8, 3), and the network takes (batch, 4)"),
    ],
)
def test_a_users_mistake_is_one_line(samples, line, place):
    answer = Shell(place).run("ask", "net.onnx", "--inputs", samples, "--output", "nothing")
    assert (answer.returncode, only_line(answer.stderr)) == (2, f"xbench: {line}")
    assert not (place / "nothing").exists()
