"""Words for models: what they mean, and the error if they mean nothing."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from fault_kit import refused
from onnx import TensorProto, helper, numpy_helper
from places import SUPPORT

from xbench.converters import build
from xbench.converters.source import parse, with_options
from xbench.errors import XBenchError
from xbench.experiments.choose import choose_runtimes
from xbench.models import Optimizer, UnknownModel

NETWORK = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.last = torch.nn.Linear(8 * 8 * 6, 5)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.conv(x))).flatten(1))

class Determined(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.turn, self.last = torch.nn.Parameter(torch.randn(3, 3)), torch.nn.Linear(1, 5)

    def forward(self, x):
        return self.last(torch.linalg.det(self.turn @ x)[:, None])

class Bare(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1) * 2

def raises():
    raise ValueError("no weights here")

def number():
    return 3
"""


@pytest.fixture
def dynamic(shell):
    """A file with two dynamic axes."""
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((4, 5)).astype("f4"), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "time", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "time", 5])],
        [weight],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), shell.folder / "d.onnx"
    )
    return "d.onnx"


@pytest.fixture
def network(shell):
    (shell.folder / "mynet.py").write_text(NETWORK)
    return "mynet:Net"


def test_a_word_says_all_there_is_to_know(tmp_path):
    file = tmp_path / "m@1.onnx"
    file.write_bytes(b"")
    assert parse("lenet").kind == "zoo"
    assert parse(str(file)).place == str(file)
    source = parse(f"{file}@time=7;x=batch,7,4")
    assert (source.kind, source.place, source.shapes) == ("onnx", str(file), {"time": (7,), "x": ("batch", 7, 4)})
    made = parse("package.net:make@x:float32:batch,3,8;ids:int64:batch,5")
    assert (made.kind, made.place) == ("module", "package.net:make")
    assert [(i.name, i.shape, i.dtype) for i in made.inputs] == [
        ("x", ("batch", 3, 8), "float32"),
        ("ids", ("batch", 5), "int64"),
    ]


def test_the_axes_of_a_module_have_names():
    made = parse("net:make@x:float32:batch,time,3;edges:int64:2,E;time=7;E=5")
    assert [each.shape for each in made.inputs] == [("batch", 7, 3), (2, 5)]
    assert [each.shape for each in parse("net:make@x:float32:batch,time,3;x=batch,4,3").inputs] == [("batch", 4, 3)]


LONG = f"{'a' * 400}, widths=({', '.join(['16'] * 100)})"


def test_a_word_may_be_longer_than_the_name_of_a_file():
    made = parse(f"net:make(kind='{LONG}')@x:float32:batch,3")
    assert made.kind == "module" and len(made.stem) < 100
    assert parse(f"timm:{LONG}").kind == "module"
    for place in (f"{LONG}.onnx", f"{LONG}.keras", f"hf:{LONG}", f"folder/{LONG}"):
        with pytest.raises(XBenchError, match="no such"):
            parse(place)


def test_a_network_with_long_arguments_is_checked(shell, network):
    (shell.folder / "long.py").write_text("from mynet import Net\n\ndef make(kind, *, widths=()):\n    return Net()\n")
    word = f"long.py:make('{'a' * 200}', widths=({', '.join(['16'] * 100)}))"
    assert shell.run("convert", word, "--input", "x:float32:batch,3,8,6").returncode == 0
    rows = checked(shell, word, "--input", "x:float32:batch,3,8,6", "--runtime", "torch", "--mode", "forward")
    assert [row["status"] for row in rows] == ["PASS"]


def test_options_go_behind_the_word(tmp_path):
    assert with_options("lenet", ["a=1"], []) == "lenet"
    assert with_options("m.onnx", ["a=1", "b=2"], []) == "m.onnx@a=1;b=2"
    assert with_options("m.onnx@a=1", ["b=2"], []) == "m.onnx@a=1;b=2"
    assert with_options("lenet", ["a=1"], [], "adam,lr=0.1") == "lenet@optimizer=adam,lr=0.1"
    assert with_options("m.onnx", ["a=1"], [], "adam") == "m.onnx@a=1;optimizer=adam"
    assert with_options("net:make", [], ["x:float32:batch,3"]) == "net:make@x:float32:batch,3"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("mynet:Determined", "onnxruntime trains by a graph of the gradient: no gradient of Det (1)"),
        ("mynet:Bare", "mynet:Bare@x:float32:batch,3,3 has no parameter to train"),
    ],
)
def test_what_cannot_be_trained_is_named(shell, network, word, reason):
    rows = checked(
        shell, word, "--input", "x:float32:batch,3,3", "--runtime", "onnxruntime", "--mode", "forward", "--mode", "step"
    )
    assert [row["status"] for row in rows] == ["PASS", "UNSUPPORTED"]
    assert rows[1]["message"] == reason


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("net:make", "name its inputs, such as --input"),
        ("net:make@x:flot32:batch,3", "did you mean float32?"),
        ("net:make@x:float32:3,batch", "the word batch stands for the first size and for no other"),
        ("net:make@x:float32:3", "no input has a batch: write batch for its first size"),
        ("net:make@x:float32", "no input has a batch"),
        ("net:make@x", "write name:type:sizes"),
        ("net:make@x:float32:batch,3;a=1", "--shape is for files"),
        ("lenet@a=1", "--shape is for files"),
        ("net:make@x:float32:batch,time,32", "how large is time? Write --shape time=16"),
        ("net:make@x:float32:batch,a;y:int64:2,k", "how large are a, k? Write --shape a=16 --shape k=16"),
        ("net:make@x:float32:batch,time,3;tim=4", "unknown axis 'tim': did you mean time?"),
        ("net:make@x:float32:batch,time,3;time=4,5", "an axis has one size, such as time=16"),
        ("net:make@x:float32:batch,time,3;time=batch", "an axis has one size, such as time=16"),
        ("net:make@x:float32:batch,3-4", "'3-4' is neither a positive number nor the word batch or another name"),
        ("hf:nowhere", "hf:nowhere: no such folder; nothing is downloaded"),
        ("nothing.onnx", "no such file: nothing.onnx"),
        ("nothing.keras", "no such file: nothing.keras"),
    ],
)
def test_a_word_that_cannot_be_read_is_one_line(word, line):
    with pytest.raises(XBenchError, match=line.replace("?", "[?]")):
        parse(word)


def test_an_unknown_word_gets_the_nearest_network():
    with pytest.raises(UnknownModel, match="did you mean lenet"):
        parse("lenett")


def checked(shell, *words):
    answer = shell.run("check", *words, "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_dynamic_axes_are_asked_for_and_given(shell, dynamic):
    line = refused(shell, "check", dynamic, "--runtime", "onnxruntime")
    assert line == "xbench: d.onnx: axis 1 of input x is dynamic; give its size: --shape time=SIZE"
    for option in ("time=7", "x=batch,7,4", "x=3,7,4"):
        rows = checked(shell, dynamic, "--runtime", "onnxruntime", "--runtime", "jax", "--shape", option)
        assert [row["status"] for row in rows] == ["PASS", "PASS"]
        assert [row["model"] for row in rows] == [f"d.onnx@{option}"] * 2


@pytest.mark.parametrize("option", ["other=3", "x=batch,7,9", "time=0", "time=-1", "x=1"])
def test_a_size_that_does_not_fit_is_one_line(shell, dynamic, option):
    refused(shell, "check", dynamic, "--runtime", "onnxruntime", "--shape", option)


def test_a_factory_is_checked_and_trained(shell, network):
    runtimes = [word for name in ("torch", "jax", "onnxruntime", "openvino") for word in ("--runtime", name)]
    rows = checked(shell, network, "--input", "x:float32:batch,3,8,6", *runtimes)
    assert [(row["mode"], row["status"]) for row in rows] == [
        *[("forward", "PASS")] * 4,
        *[("gradient", "PASS")] * 4,
    ]
    assert all(row["certificate"]["equal"] and row["certificate"]["dead_nodes"] == 0 for row in rows)
    names = [p["name"] for p in rows[0]["certificate"]["parameters"]]
    assert names == ["conv.weight", "conv.bias", "norm.weight", "norm.bias", "last.weight", "last.bias"]


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("mynet:raises", "mynet:raises raises ValueError: no weights here"),
        ("mynet:nothing", "mynet:nothing raises AttributeError"),
        ("mynet:number", "makes a int, not a torch.nn.Module"),
        ("nomodule:make", "raises ModuleNotFoundError"),
        ("nets/mynet.py:make", "no such file: nets/mynet.py"),
    ],
)
def test_a_factory_that_makes_no_network_is_one_line(shell, network, word, line):
    assert line in refused(shell, "check", word, "--input", "x:float32:batch,3,8,6", "--runtime", "torch")


def test_a_module_that_does_not_take_its_inputs_is_one_line(shell, network):
    line = refused(shell, "check", network, "--input", "x:float32:batch,4,8,6", "--runtime", "torch")
    assert "mynet:Net raises RuntimeError: Given groups=1, weight of size [8, 3, 3, 3]" in line


@pytest.fixture
def keras(shell):
    """A small Keras model with nonzero biases, as a .keras file and as a SavedModel."""
    tf = pytest.importorskip("tensorflow")
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            tf.keras.Input((12, 10, 3)),
            layers.Conv2D(8, 3, padding="same", activation="relu", bias_initializer="random_normal"),
            layers.MaxPool2D(),
            layers.Flatten(),
            layers.Dense(4, bias_initializer="random_normal"),
        ]
    )
    model.save(shell.folder / "m.keras")
    model.export(shell.folder / "saved", verbose=False)
    return shell


@pytest.mark.parametrize("word", ["m.keras", "saved"])
def test_a_tensorflow_model_comes_in_through_tf2onnx(keras, word):
    rows = checked(keras, word, "--runtime", "onnxruntime", "--runtime", "tensorflow")
    assert [row["status"] for row in rows] == ["PASS", "PASS"]
    assert len(rows[0]["certificate"]["parameters"]) == 4


def test_a_broken_keras_file_is_one_line(shell):
    (shell.folder / "m.keras").write_bytes(b"not a zip archive")
    assert "m.keras cannot be read as a TensorFlow model" in refused(shell, "check", "m.keras", "--runtime", "jax")


# ***** update rules *****


def test_a_word_may_name_another_update_rule():
    rule = parse("lenet@optimizer=sgd,lr=0.1,momentum=0.9,nesterov=1,clip=5,schedule=1/0.5/0.1").optimizer
    assert rule == Optimizer("sgd", 0.1, 0.9, clip=5, nesterov=True, schedule=(1, 0.5, 0.1))
    assert parse("lenet@optimizer=adamw,weight_decay=0.1").optimizer == Optimizer("adamw", weight_decay=0.1)
    assert parse("lenet@optimizer=sgd,momentum=0.9,nesterov=true").optimizer.nesterov
    assert not parse("lenet@optimizer=sgd,momentum=0.9,nesterov=False").optimizer.nesterov
    assert parse("lenet").optimizer is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("adamx", "unknown update rule 'adamx': did you mean adam?"),
        ("sgd,momentun=0.9", "unknown setting 'momentun': did you mean momentum?"),
        ("sgd,lr", "lr is not a number: ''"),
        ("sgd,lr=-1", "lr must be a number of at least 0, not -1"),
        ("sgd,lr=nan", "lr must be a number of at least 0, not nan"),
        ("sgd,lr=true", "lr is not a number: 'true'"),
        ("sgd,lr=1/2", "lr must be a number of at least 0, not 1/2"),
        ("sgd,nesterov=1", "nesterov needs sgd with a momentum"),
        ("adam,beta2=1", "beta1 and beta2 must be below 1"),
    ],
)
def test_an_update_rule_that_cannot_be_read_is_one_line(text, said):
    with pytest.raises(XBenchError, match="--optimizer") as raised:
        parse(f"lenet@optimizer={text}")
    assert str(raised.value).endswith(said)


WORDS = "--input words:int64:batch,6"


OTHERS = (
    f"frozen {WORDS}",
    f"padded {WORDS}",
    "strided --input x:float32:batch,6",
    "in_place --input x:float32:batch,3,8,8",
    "attentive --input x:float32:batch,3,10,9",
    "quantized --input x:float32:batch,6 --optimizer adamw,weight_decay=0.1",
)


@pytest.mark.parametrize("model", OTHERS)
def test_what_other_peoples_modules_do_is_the_same_everywhere(shell, model):
    """As in Hugging Face's: frozen parameters, stochastic depth, an untrained row of a table, rows of what was
    flattened with its batch, dropout in place and of channels; detached values, statistics that are not
    kept, adaptive pooling."""
    (shell.folder / "small_nets.py").write_text((SUPPORT / "small_nets.py").read_text())
    runtimes = [word for name in ("torch", "onnxruntime", "jax", "tensorflow") for word in ("--runtime", name)]
    modes = [word for name in ("forward", "gradient", "step") for word in ("--mode", name)]
    answer = shell.run("check", *f"small_nets:{model}".split(), *runtimes, *modes, "--json")
    assert [row["status"] for row in json.loads(answer.stdout)] == ["PASS"] * 12


@pytest.mark.parametrize("name, modes", [("disguised", {"forward", "gradient"}), ("disguised_gradient", {"gradient"})])
def test_a_graph_that_is_not_the_module_is_no_fault_of_runtimes(shell, name, modes):
    """The export is checked, and no runtime is blamed for what the exporter changed."""
    (shell.folder / "small_nets.py").write_text((SUPPORT / "small_nets.py").read_text())
    options = ["--input", "x:float32:batch,6", "--runtime", "torch,jax"]
    answer = shell.run("check", f"small_nets:{name}", *options, "--json")
    for row in json.loads(answer.stdout):
        named = "was not exported as it is: its graph computes something else" in (row["message"] or "")
        expected = ("UNVERIFIED", True) if row["mode"] in modes else ("PASS", False)
        assert (row["status"], named) == expected
    assert answer.returncode == 1


BARE = '<ir_version: 9, opset_import: ["": 20]> bare (float[n, 4] x) => (float[n, 4] y) { y = Softmax (x) }'


def test_a_file_without_weights_runs_everywhere(shell):
    onnx.save(onnx.parser.parse_model(BARE), shell.folder / "bare.onnx")
    rows = json.loads(shell.run("check", "bare.onnx", "--json").stdout)
    assert {row["runtime"]: row["status"] for row in rows} == dict.fromkeys(choose_runtimes(None), "PASS")


NORMS = """
import torch
from planted_net import make
net = make().train(MODE)
torch.onnx.export(net, (torch.randn(2, 3, 12, 16),), FILE, dynamo=False, training=torch.onnx.TrainingMode.PRESERVE,
    do_constant_folding=False, input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "n"}, "y": {0: "n"}})
"""


@pytest.mark.parametrize("training", [False, True])
def test_an_onnx_file_trains_alike_where_that_is_asked_for(shell, training):
    """With training_mode=1 in the file there are no running statistics to train; without it there are."""
    file = str(shell.folder / "net.onnx")
    text = NORMS.replace("MODE", str(training)).replace("FILE", repr(file))
    subprocess.run([sys.executable, "-W", "ignore", "-c", text], cwd=SUPPORT, check=True)
    options = ["--runtime", "torch", "--runtime", "jax", "--runtime", "onnxruntime"]
    rule = ["--optimizer", "adamw,weight_decay=0.1,clip=0.5"]
    rows = json.loads(shell.run("check", file, "--mode", "step", *options, *rule, "--json").stdout)
    assert [(row["mode"], row["status"]) for row in rows] == [("step", "PASS")] * 3
    assert [row["mode"] for row in json.loads(shell.run("check", file, "--runtime", "jax", "--json").stdout)] == [
        "forward"
    ]


def test_a_file_whose_weights_lie_beside_it_runs_everywhere(shell):
    """As PyTorch writes them: all but a few bytes is in `net.onnx.data`."""
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((128, 64)).astype("f4"), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 128])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    place = shell.folder / "net.onnx"
    onnx.save(model, place, save_as_external_data=True, location="net.onnx.data", size_threshold=0)
    assert (shell.folder / "net.onnx.data").stat().st_size == 4 * 128 * 64
    options = ("--runtime", "onnxruntime", "--runtime", "torch", "--mode", "forward", "--json")
    answer = shell.run("check", "net.onnx", *options)
    assert [row["status"] for row in json.loads(answer.stdout)] == ["PASS", "PASS"], answer.stdout


def saved_with_axes(folder, *shapes):
    """A file that adds nothing to its inputs, of these shapes."""
    names = [f"x{number}" for number in range(len(shapes))]
    nodes = [helper.make_node("Identity", [name], [f"y{name}"]) for name in names]
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)]
    out = [helper.make_tensor_value_info(f"y{n}", TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)]
    graph = helper.make_graph(nodes, "g", given, out)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "axes.onnx")
    return str(folder / "axes.onnx")


def test_all_missing_sizes_are_asked_for_at_once(tmp_path):
    file = saved_with_axes(tmp_path, ["batch", 3, "height", "width"], ["batch", "seq_len"], ["batch", None, 4])
    source = parse(file)
    (tmp_path / "made").mkdir()
    with pytest.raises(XBenchError) as raised:
        build.export_file(source, Path(file), tmp_path / "made")
    asked = "--shape height=224 --shape width=224 --shape seq_len=16 --shape x2=batch,?,4, or all by --shape auto"
    assert str(raised.value) == f"{file}: 4 sizes are dynamic; give them: {asked}"


@pytest.mark.parametrize(
    ("shapes", "sizes"),
    [
        ([["batch", 3, "height", "width"]], [["batch", 3, 224, 224]]),
        ([["N", "C", "H", "W"]], [["batch", 3, 224, 224]]),
        ([["a", None, None, None]], [["batch", 16, 224, 224]]),
        ([["batch", "sequence"], ["batch", "past_sequence_length", 8]], [["batch", 16], ["batch", 16, 8]]),
        ([["b", "total_sequence_length"]], [["batch", 32]]),
        ([["b", "whatever", 4]], [["batch", 16, 4]]),
        ([[2, 3]], [[2, 3]]),
    ],
)
def test_usual_sizes_are_taken_where_they_are_asked_for(shapes, sizes, tmp_path):
    file = saved_with_axes(tmp_path, *shapes)
    (tmp_path / "made").mkdir()
    build.export_file(parse(f"{file}@auto"), Path(file), tmp_path / "made")
    inputs = json.loads((tmp_path / "made" / "model.json").read_text())["inputs"]
    assert [each["shape"] for each in inputs] == sizes


def test_a_given_size_comes_before_the_usual_one(tmp_path):
    file = saved_with_axes(tmp_path, ["batch", 3, "height", "width"])
    (tmp_path / "made").mkdir()
    build.export_file(parse(f"{file}@width=32;auto"), Path(file), tmp_path / "made")
    inputs = json.loads((tmp_path / "made" / "model.json").read_text())["inputs"]
    assert [each["shape"] for each in inputs] == [["batch", 3, 224, 32]]
    made = parse("net:make@x:float32:batch,time,tokens;tokens=3;auto")
    assert [each.shape for each in made.inputs] == [("batch", 16, 3)]
