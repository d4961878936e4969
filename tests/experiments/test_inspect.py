"""`xbench inspect`: its facts of a model agree with known ones; it has an answer for any file."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from fault_kit import only_line
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from test_real_models import word_of

from xbench import models
from xbench.converters.frontends import validity
from xbench.converters.passes import remarks
from xbench.errors import XBenchError
from xbench.experiments import inspect
from xbench.reports import inspection as report
from xbench.workers.jobs import inspect as inspect_jobs

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
LONG = 5000  # pairs of nodes


def value(name, shape=("batch", 4), kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name, *shape):
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def model(nodes, inputs=(), outputs=(), weights=(), functions=(), opset=20, **domains):
    graph = helper.make_graph(nodes, "g", inputs or [value("x")], outputs or [value("y", ("rows", "columns"))], weights)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, n) for name, n in domains.items())]
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=10)


@pytest.fixture
def inspected(tmp_path):
    """The facts of a model, given as a proto or a word."""

    def facts(given, batch=None, runtimes=("torch", "jax"), ask=False, options=""):
        if isinstance(given, onnx.ModelProto):
            onnx.save(given, tmp_path / "m.onnx")
            given = str(tmp_path / "m.onnx")
        return inspect.inspect(given + options, runtimes, batch, "cpu", ask, lambda words: None)

    return facts


@pytest.fixture
def looked_at(tmp_path):
    """The answer of the file-reading worker about a file, in this process."""

    def facts(proto, batch=None, options=""):
        onnx.save(proto, tmp_path / "m.onnx")
        return inspect_jobs.inspect_file(str(tmp_path / "m.onnx") + options, str(tmp_path / "m.onnx"), batch)

    return facts


def small():
    """A convolution, a view, a product with a tied weight twice."""
    nodes = [
        node("Conv", "x c", "h", name="first", pads=[1, 1, 1, 1]),
        node("Relu", "h", "r"),
        node("Flatten", "r", "f"),
        node("MatMul", "f w", "a"),
        node("MatMul", "a v", "b"),
        node("MatMul", "b v", "y", name="last"),
    ]
    weights = [weight("c", 3, 2, 3, 3), weight("w", 48, 5), weight("v", 5, 5)]
    return model(nodes, [value("x", ("batch", 2, 4, 4))], [value("y", ("batch", 5))], weights)


def test_the_numbers_of_a_small_network_are_those_counted_by_hand(looked_at):
    facts = looked_at(small())
    parameters = 3 * 2 * 9 + 48 * 5 + 25  # the last is read twice and is one
    assert facts["parameters"]["count"] == facts["stored"]["count"] == parameters
    assert facts["parameters"]["bytes"] == 4 * parameters and facts["parameters"]["types"] == {"float32": parameters}
    macs = [48 * 18, 0, 0, 48 * 5, 25, 25]
    assert [layer["macs"] for layer in facts["layers"]] == macs
    assert (facts["macs"], facts["flop"]) == (sum(macs), 2 * sum(macs))
    assert [layer["parameters"] for layer in facts["layers"]] == [54, 0, 0, 240, 25, 0]
    assert [layer["bytes"] for layer in facts["layers"]] == [192, 192, 192, 20, 20, 20]
    assert facts["layers"][0] | {"macs": 0} == {
        **{"name": "first", "operator": "Conv", "shape": [1, 3, 4, 4]},
        **{"parameters": 54, "macs": 0, "bytes": 192},
    }
    assert facts["operators"] == {"MatMul": 3, "Conv": 1, "Flatten": 1, "Relu": 1}
    assert facts["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 2, 4, 4]}]
    assert facts["opsets"] == {"ai.onnx": 20} and facts["ir_version"] == 10 and facts["remarks"] == []


@pytest.mark.parametrize("batch", [1, 3])
def test_memory_is_the_most_that_is_alive_at_once(looked_at, batch):
    """x (128 bytes per sample) is freed after the Conv, its output after the Relu, whose output stays as the view."""
    facts = looked_at(small(), batch)
    memory = facts["memory"]
    assert (memory["live_bytes"], memory["at"]) == (batch * (192 + 192), "r")
    assert memory["weight_bytes"] == facts["stored"]["bytes"]
    assert memory["bytes"] == memory["weight_bytes"] + memory["live_bytes"]
    assert facts["batch"] == batch and facts["macs"] == 48 * 18 + 240 + 50  # of one sample, for any batch
    assert facts["layers"][0]["shape"][0] == batch


def test_a_branch_that_is_read_late_stays_alive(looked_at):
    """a: 40 bytes, alive to the end; the wide one: 4000, freed before the last."""
    nodes = [
        node("Relu", "x", "a"),
        node("MatMul", "x w", "wide"),
        node("MatMul", "wide v", "n"),
        node("Add", "a n", "y"),
    ]
    weights = [weight("w", 10, 1000), weight("v", 1000, 10)]
    facts = looked_at(model(nodes, [value("x", ("n", 10))], [value("y", ("n", 10))], weights))
    assert facts["memory"]["live_bytes"] == 40 + 4000 + 40


def test_a_view_takes_no_memory(looked_at):
    """x is read again at the end, so its view f lives as long: with b and y three of 64 bytes, not four."""
    nodes = [node("Flatten", "x", "f"), node("Relu", "f", "b"), node("Add", "f b", "y"), node("Relu", "x", "z")]
    shapes = [value("x", ("n", 2, 8))], [value("y", ("n", 16)), value("z", ("n", 2, 8))]
    assert looked_at(model(nodes, *shapes))["memory"]["live_bytes"] == 3 * 64


@pytest.mark.parametrize("name", ["lenet", "fcn5_mnist"])
def test_networks_of_the_zoo_have_the_published_counts(inspected, name):
    spec, facts = models.find(name), inspected(name)
    assert (facts["parameters"]["count"], facts["macs"]) == (spec.parameters, spec.macs)
    assert facts["kind"] == "zoo" and facts["made_by"] == "PyTorch's exporter"
    assert all(row["takes"] and row["modes"] == ["forward", "gradient", "step"] for row in facts["runtimes"])


def test_what_it_says_of_runtimes_is_what_convert_says(inspected, exporter, lenet, tmp_path):
    from xbench.experiments.convert import convert

    path = tmp_path / "det.onnx"
    onnx.save(model([node("Det", "x", "y")], [value("x", ("n", 3, 3))], [value("y", ("n",))]), path)
    words = ["torch", "jax", "onnxruntime", "openvino"]
    for word, artifact in ((str(path), exporter.artifact(str(path))), ("lenet", lenet)):
        rows = inspected(word, runtimes=words, ask=True)["runtimes"]
        assert [row["how"] for row in rows] == ["looked up", "looked up", "asked", "asked"]
        for row in rows:
            record = convert(artifact, row["runtime"], "cpu", tmp_path)
            assert (row["takes"], row["lacks"]) == (record["status"] == "CONVERTED", record["operators"])
    assert rows[3]["takes"] and inspected(str(path), runtimes=["openvino"], ask=True)["runtimes"][0]["lacks"] == {
        "Det": 1
    }


STRANGE = {
    "of another domain": (model([node("Frob", "x", "y", domain="mine")], mine=1), "mine.Frob"),
    "of ONNX's": (model([node("Frob", "x", "y")]), "Frob"),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_an_operator_that_nobody_knows_is_shown_and_stops_everybody(inspected, kind):
    proto, name = STRANGE[kind]
    facts = inspected(proto, runtimes=["torch", "jax", "onnxruntime", "openvino", "tvm"], ask=True)
    assert facts["unknown"] == facts["operators"] == {name: 1}
    assert [layer["operator"] for layer in facts["layers"]] == [name]
    assert [(row["takes"], row["lacks"]) for row in facts["runtimes"]] == [(False, {name: 1})] * 5
    assert any("will refuse it" in remark for remark in facts["remarks"])


def test_a_runtime_that_knows_the_operator_takes_it(inspected):
    proto = model([node("Inverse", "x", "y", domain="com.microsoft")], **{"com.microsoft": 1})
    rows = inspected(proto, runtimes=["torch", "onnxruntime", "openvino"], ask=True)["runtimes"]
    assert [row["takes"] for row in rows[:2]] == [False, True]
    assert rows[1]["modes"] == ["forward"]


def test_operators_in_branches_bodies_and_functions_are_counted(looked_at):
    branch = helper.make_graph([node("MatMul", "x w", "b")], "b", [], [value("b")])
    trip, keep = numpy_helper.from_array(np.array(3), "trip"), numpy_helper.from_array(np.array(True), "keep")
    body = helper.make_graph(
        [node("Identity", "go", "on"), node("Tanh", "h", "out")],
        "body",
        [value("i", (), INT64), value("go", (), BOOL), value("h")],
        [value("on", (), BOOL), value("out")],
    )
    imports = [helper.make_opsetid("", 20)]
    twice = helper.make_function(
        "own", "twice", ["x"], ["y"], [node("Relu", "x", "h"), node("Relu", "h", "y")], imports
    )
    nodes = [
        node("If", "keep", "c", then_branch=branch, else_branch=branch),
        node("Loop", "trip keep c", "l", body=body),
        node("twice", "l", "t", domain="own"),
        node("twice", "t", "y", domain="own"),
    ]
    facts = looked_at(model(nodes, weights=[weight("w", 4, 4), trip, keep], functions=[twice], own=1))
    assert facts["operators"] == {"Relu": 4, "MatMul": 2, "Identity": 1, "If": 1, "Loop": 1, "Tanh": 1}
    assert facts["functions"] == 1 and facts["unknown"] == {}
    assert facts["macs"] is None and [layer["macs"] for layer in facts["layers"]] == [None, 0, 0, 0, 0, 0]
    assert facts["layers"][0]["parameters"] == 16
    text = "\n".join(facts["remarks"])
    assert "control flow: If (1), Loop (1)" in text and "2 inside that have multiply-accumulates" in text
    assert "own.twice (2)" in text


REMARKS = {
    "dropout": (model([node("Dropout", "x", "y")]), "exported for training: Dropout (1)"),
    "noise": (model([node("RandomNormalLike", "x", "r"), node("Add", "x r", "y")]), "not deterministic"),
    "einsum": (
        model([node("Einsum", "x x", "y", equation="ij,ij->i")]),
        "not among the multiply-accumulates: Einsum (1)",
    ),
    "axes": (model([node("Relu", "x", "y")], [value("x", ("n", "length"))]), "beside the batch: 1 (length)"),
    "statistics": (
        model([node("BatchNormalization", "x s s s s", "y m v", training_mode=1)], weights=[weight("s", 4)]),
        "in training form: BatchNormalization (1)",
    ),
    "quantised": (
        model(
            [node("DynamicQuantizeLinear", "x", "q s z"), node("DequantizeLinear", "q s z", "y")],
        ),
        "quantised: DequantizeLinear (1), DynamicQuantizeLinear (1)",
    ),
    "strings": (
        model([node("StringNormalizer", "x", "y")], [value("x", ("n",), TensorProto.STRING)], [value("y", None, 8)]),
        "no tensors of numbers: 'x', 'y'",
    ),
    "defaults": (
        model([node("MatMul", "x w", "y")], [value("x"), value("w", (4, 4))], weights=[weight("w", 4, 4)]),
        "1 init",
    ),
}


@pytest.mark.parametrize("name", REMARKS)
def test_what_is_worth_a_remark_has_one(name):
    proto, words = REMARKS[name]
    assert [line for line in remarks.remarks(proto) if words in line] == remarks.remarks(proto) != []


def test_a_shape_that_is_missing_is_not_guessed(inspected):
    shapes = [value("x", ("n", "length", 4))], [value("y", ("n", "length", 6))]
    proto = model([node("MatMul", "x w", "y")], *shapes, [weight("w", 4, 6)])
    facts = inspected(proto)
    assert (
        facts["macs"] is None and facts["memory"]["bytes"] is None and facts["layers"][0]["shape"] == [1, "length", 6]
    )
    assert any("give its size: --shape length=SIZE" in remark for remark in facts["remarks"])
    facts = inspected(proto, options="@length=7")
    assert facts["macs"] == 7 * 4 * 6 and facts["memory"]["live_bytes"] == 4 * 7 * (4 + 6) and facts["remarks"] == []


def test_what_cannot_be_trained_says_which_operator_stops_the_graph(inspected):
    proto = model(
        [node("MatMul", "x w", "a"), node("Mish", "a", "b"), node("Cumu", "b", "y")], weights=[weight("w", 4, 4)]
    )
    assert inspected(proto)["training"] == {"trains": False, "without_gradient": {}}  # a file that no runtime converts
    nodes = [node("MatMul", "x w", "a"), node("Det", "a", "d"), node("Mul", "a d", "y")]
    shapes = [value("x", ("n", 4, 4))], [value("y", ("n", 4, 4))]
    facts = inspected(model(nodes, *shapes, [weight("w", 4, 4)]), runtimes=["torch", "onnxruntime"], ask=True)
    assert facts["training"] == {"trains": True, "without_gradient": {"Det": 1}}
    assert [row["modes"] for row in facts["runtimes"]] == [["forward", "gradient", "step"], ["forward"]]


@pytest.mark.parametrize(
    ("name", "parameters"), [("magika", 784_214), ("direction", None), ("detection", 1_171_488), ("recognition", None)]
)
def test_files_that_others_made_agree_with_their_conversion(inspected, exporter, name, parameters):
    word = word_of(name).replace("=batch,", "=1,")  # every axis is a number, so no count leaves one out
    facts, artifact = inspected(word), exporter.artifact(word)
    assert facts["macs"] == inspected(word_of(name))["macs"]
    assert facts["macs"] == artifact.info["macs"] > 0
    assert facts["parameters"]["count"] == artifact.info["parameter_count"]
    assert parameters in (None, facts["parameters"]["count"])
    assert facts["memory"]["bytes"] > facts["memory"]["weight_bytes"] > 4 * facts["parameters"]["count"]
    assert all(row["takes"] for row in facts["runtimes"])


def test_a_file_on_which_onnx_ends_with_the_process_is_shown_all_the_same(inspected):
    """Shape inference aborts on a Slice of negative size (onnx/onnx#8481)."""
    nodes = [node("Conv", "x w", "c"), node("Slice", "c starts ends axes", "y")]
    weights = [weight("w", 1, 1, 7), *(numpy_helper.from_array(np.array([n]), name) for name, n in ENDS.items())]
    facts = inspected(model(nodes, [value("x", (1, 1, 4))], [value("y", "nab")], weights))
    assert facts["operators"] == {"Conv": 1, "Slice": 1} and facts["parameters"]["count"] == 7
    assert any("ONNX's shape inference fails on it" in remark for remark in facts["remarks"])


ENDS = {"starts": 0, "ends": 1, "axes": 2}


def broken(folder):
    """Files that cannot be read, and words of the one-line error of each."""
    content = small().SerializeToString()
    outside = small()
    onnx.save(outside, folder / "outside.onnx", save_as_external_data=True, location="gone.bin", size_threshold=0)
    (folder / "gone.bin").unlink()
    (folder / "truncated.onnx").write_bytes(content[:-40])
    (folder / "letters.onnx").write_bytes(
        model([node("Relu", "x", "y")]).SerializeToString().replace(b"rows", b"r\xefws")
    )
    (folder / "text.onnx").write_text("no model at all")
    (folder / "empty.onnx").write_bytes(b"")
    return {
        "outside.onnx": "the external data of 'c' is missing: 'gone.bin'",
        "truncated.onnx": "truncated.onnx is not a valid ONNX file: it is truncated",
        "text.onnx": "text.onnx is not a valid ONNX file",
        "letters.onnx": "letters.onnx is not a valid ONNX file",
        "empty.onnx": "it has 0 bytes",
        "nowhere.onnx": "no such file: nowhere.onnx",
        "lenett": "did you mean lenet?",
        "all": "inspect takes one model",
    }


def test_a_file_that_cannot_be_read_is_one_line(shell):
    for word, line in broken(shell.folder).items():
        answer = shell.inside("inspect", word, "--quick")
        assert answer.returncode == 2 and answer.stdout == "", answer.stdout + answer.stderr
        assert line in only_line(answer.stderr)


def test_weights_outside_are_seen_and_not_read(inspected, tmp_path):
    proto = model([node("MatMul", "x w", "y")], [value("x", ("n", 64))], weights=[weight("w", 64, 64)])
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    facts = inspected(str(tmp_path / "m.onnx"), runtimes=["onnxruntime"], ask=True)
    assert facts["stored"]["bytes"] == 4 * 64 * 64 and facts["remarks"] == ["weights outside the file, in w.bin"]
    assert facts["runtimes"][0]["takes"] and facts["macs"] == 64 * 64


def test_a_batch_that_is_fixed_is_told(looked_at):
    proto = model([node("MatMul", "x w", "y")], [value("x", (5, 4))], weights=[weight("w", 4, 4)])
    facts = looked_at(proto)
    assert facts["batch"] is None and facts["macs"] == 5 * 16
    with pytest.raises(XBenchError, match="--batch 2: the first axis of no input"):
        looked_at(proto, batch=2)


def test_ten_thousand_nodes(inspected):
    nodes, weights, before = [], [], "x"
    for at in range(LONG):
        nodes += [node("MatMul", f"{before} w{at}", f"m{at}"), node("Relu", f"m{at}", f"r{at}")]
        weights.append(weight(f"w{at}", 4, 4))
        before = f"r{at}"
    facts = inspected(model(nodes, outputs=[value(before)], weights=weights))
    assert facts["nodes"] == len(facts["layers"]) == 2 * LONG and facts["macs"] == 16 * LONG
    assert facts["memory"]["live_bytes"] == 32


def printed(facts, count=20):
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    report.show(facts, console, count)
    return console.export_text()


def test_the_page_says_it_all(inspected):
    facts = inspected(small(), runtimes=["torch", "onnxruntime"])
    assert "the 3 heaviest of 6 layers" in printed(facts, 3)
    page = printed(facts)
    assert "input      x float32 [batch, 2, 4, 4]" in page and "6 nodes of 4 operators" in page
    assert "319 in 3 tensors, 1.25 KiB (float32)" in page and "1.15k multiply-accumulates of one sample" in page
    lines = {line.split()[0]: line for line in page.splitlines() if line}
    assert "yes" in lines["torch"] and "not known" in lines["onnxruntime"] and "[1, 3, 4, 4]" in lines["first"]


def test_the_heaviest_layers_stand_in_the_order_of_the_file(looked_at):
    facts = looked_at(small())
    rows, left = report.heaviest(facts["layers"][::-1], 2)
    assert [row["macs"] for row in rows] == [240, 864] and left == 4
    assert report.heaviest(facts["layers"], None) == (facts["layers"], 0)


def test_the_command_prints_json_and_installs_nothing(shell, tmp_path):
    onnx.save(small(), shell.folder / "m.onnx")
    answer = shell.run("inspect", "m.onnx", "--json", "--quick", "--batch", 2)
    assert answer.returncode == 0, answer.stderr
    facts = json.loads(answer.stdout)
    assert facts["batch"] == 2 and len(facts["layers"]) == 6
    assert {row["how"] for row in facts["runtimes"]} == {"looked up", "not asked"}
    assert not list(Path(shell.folder).glob("xbench-*"))


def test_unknown_operators_are_still_refused_elsewhere():
    for proto, name in STRANGE.values():
        with pytest.raises(ValueError, match=f"(unknown operators|operators that ONNX does not define): {name}"):
            validity.check(proto)
        validity.check(proto, foreign=True)
