"""Modules as users have them: what cannot be exported is one line, all else is verified on runtimes."""

import functools
import inspect
import json
import re
import shutil
import sys
from pathlib import Path

import fault_kit
import module_nets
import pytest
import torch
from places import SUPPORT

from xbench.converters.build import export_module
from xbench.converters.frontends.torch_call import BadCall, bind, flat, flattened
from xbench.converters.source import parse
from xbench.errors import XBenchError
from xbench.models import BadFactory, make

X = "x:float32:batch,8"
IDS = "input_ids:int64:batch,6"
IMAGE = "x:float32:batch,3,8,8"
FORWARD, STEP = ("forward",), ("forward", "gradient", "step")
# The module, its inputs, the modes in which it passes.
PASSES = [
    ("Dictionary", X, STEP),
    ("Nested", X, FORWARD),
    ("Dataclass", X, FORWARD),
    ("NamedTuple", X, FORWARD),
    ("Cached", X, FORWARD),
    ("Distribution", X, FORWARD),
    ("Repeated", X, STEP),
    ("Colliding", X, FORWARD),
    ("Optional", IDS, FORWARD),
    ("Optional", f"{IDS};token_type_ids:int64:batch,6", STEP),
    ("Optional", f"{IDS};attention_mask:float32:batch,6", FORWARD),
    ("KeywordOnly", X, STEP),
    ("Star", f"{X};y:float32:batch,8", FORWARD),
    ("StarAndKeyword", f"{X};a:float32:batch,8;b:float32:batch,8;factor:float32:", FORWARD),
    ("Keywords", f"{X};scale:float32:batch,4", FORWARD),
    ("Keywords", f"{X};shift:float32:batch,4;scale:float32:batch,4", FORWARD),
    ("PositionalOnly", f"{X};y:float32:batch,4", FORWARD),
    ("PositionalOnly", f"{X};z:float32:batch,4", FORWARD),
    ("Settings", "pixel_values:float32:batch,8", FORWARD),
    ("NoBatch", f"{X};edges:int64:2,20", FORWARD),
    ("Scalar", f"{X};t:float32:", FORWARD),
    ("Unused", X, STEP),
    ("Scale", X, STEP),
    ("Tied", X, STEP),
    ("TwoHeads", X, STEP),
    ("evaluated", X, FORWARD),
    ("Auxiliary", X, FORWARD),
    ("Noisy", X, FORWARD),
    ("Skipping", X, FORWARD),
    ("Labelled", X, FORWARD),
    ("kept", X, STEP),
    ("OwnNorm", X, FORWARD),
    ("Frozen", IMAGE, STEP),
    ("NoGradient", X, FORWARD),
    ("Counting", X, FORWARD),
    ("hooked", X, FORWARD),
    ("compiled", X, FORWARD),
    ("parallel", X, FORWARD),
    ("traced_by_fx", X, FORWARD),
    ("normed", X, STEP),
    ("Pixels", IMAGE, STEP),
    ("OwnLoss", f"{X};labels:int64:batch", STEP),
    ("OneNumber", X, STEP),
    ("Taken", "dropout:float32:batch,8;labels:float32:batch", STEP),
    ("OwnGradient", X, STEP),
    ("OtherGradient", X, FORWARD),
    ("MaskedRows", "x:float32:batch,6,8", STEP),
    ("Selected", X, STEP),
    ("Ignoring", f"{IDS};attention_mask:int64:batch,6", STEP),
    ("Subtracted", f"{IDS};attention_mask:int64:batch,6", STEP),
    ("Spectrum", "x:float32:batch,6,8", STEP),
    ("Siamese", f"{X};y:float32:batch,8", STEP),
]
QUICK = ("Dictionary", "Cached", "Optional", "Star", "NoBatch", "Scalar", "Unused", "evaluated")
FEW = tuple(case for case in PASSES if case[0] in QUICK)
OTHERS = tuple(case for case in PASSES if case[0] not in QUICK)
TRAINED = tuple((name, inputs) for name, inputs, modes in PASSES if modes == STEP)
TRANSFORMERS = (
    ("bert", IDS),
    ("gpt2", IDS),
    ("llama", IDS),
    ("t5", f"{IDS};decoder_input_ids:int64:batch,5"),
    ("vit", "pixel_values:float32:batch,3,16,16"),
)
# Why it is not trained.
UNTRAINED = {
    "evaluated": "its training form computes something else|Could not guard",
    "Auxiliary": "its training form has 2 outputs, its evaluation 1",
    "Noisy": "computes something else, as Noisy does at random: call eval.. on it in the factory",
    "OwnNorm": "computes something else, as OwnNorm does: call eval.. on it in the factory",
    "Skipping": "as Skipping does at random: set layerdrop=0, or call eval.. on it in the factory",
    "Labelled": r"as Labels \(labels\) does at random: set dropout_prob=0, or call eval.. on it in the factory",
    "NoGradient": "its first output hands no gradient to its parameters",
}
# Remarks on standard error about modules that pass.
REMARKS = {
    "Unused": "72 of its 108 parameters are left out, because no output depends on them: encoder.weight, encoder.bias",
    "Scale": "1 of its 37 parameters are left out, because no output depends on them: scale",
    "Tied": "12 of its 92 parameters are left out, because no output depends on them: spare.weight, spare.bias",
    **{name: f"forward alone is checked: it cannot be trained, .*({why})" for name, why in UNTRAINED.items()},
}
REFUSED = (
    ("NoTensor", X, "returns no tensor"),
    ("Function", X, "returns a builtin_function_or_method at 1, which holds no tensor"),
    ("Optional", f"{IDS};mask:int64:batch,6", "has no argument 'mask'; it has input_ids, attention_mask"),
    ("Optional", "attention_mask:int64:batch,6", "forward of Optional also needs input_ids"),
    ("StarAndKeyword", f"{X};a:float32:batch,8", "forward of StarAndKeyword also needs factor"),
    ("Decided", X, "cannot be exported: Could not guard on data-dependent expression"),
    ("AuxiliaryDecided", X, "cannot be exported: Could not guard on data-dependent expression"),
    ("Remembering", X, "gives another result when it is called again: it changes its buffer steps"),
    ("InPlace", X, "changes its input x in place: let it change a copy, as of x.clone()"),
    ("half", X, "raises RuntimeError: mat1 and mat2 must have the same dtype"),
    ("Dictionary", "x:float32:batch,7", "raises RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
    ("lazy", X, "makes lazy layers: call the network once in the factory"),
    ("scripted", X, "makes a TorchScript module: give the module that it was made from"),
    ("needs", X, "needs width: write module_nets:needs(width=...)"),
)


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """`xbench check` of many at once, on one runtime of PyTorch and one of ONNX: its rows by module, inputs and mode,
    and its standard error."""

    def check(cases, modes, file="module_nets"):
        shell = fault_kit.Shell(tmp_path_factory.mktemp("modules"))
        shutil.copy((SUPPORT / f"{file}.py"), shell.folder)
        words = dict.fromkeys(f"{file}:{name}@{inputs}" for name, inputs, *_ in cases)
        options = [option for mode in modes for option in ("--mode", mode)]
        answer = shell.run("check", *words, *options, "--runtime", "torch", "--runtime", "onnxruntime", "--json")
        assert "Traceback" not in answer.stderr, answer.stderr
        rows = {}
        for row in json.loads(answer.stdout):
            rows.setdefault((row["model"], row["mode"]), []).append(row)
        return rows, answer.stderr

    return functools.cache(check)


def word(name, inputs):
    return f"module_nets:{name}@{inputs}"


def statuses(rows):
    return [(row["status"], row["message"]) for row in rows]


def test_modules_are_checked_as_they_are(checked):
    rows, _ = checked(FEW, FORWARD)
    assert {key: statuses(group) for key, group in rows.items()} == {
        (word(name, inputs), "forward"): [("PASS", None)] * 2 for name, inputs, _ in FEW
    }
    unused = {model: group[0]["certificate"]["unused"] for (model, _), group in rows.items()}
    assert unused.pop(word("Unused", X)) == ["encoder.weight", "encoder.bias"]
    assert set(map(tuple, unused.values())) == {()}


@pytest.mark.parametrize(("name", "inputs", "modes"), OTHERS)
def test_more_modules_are_checked_as_they_are(checked, name, inputs, modes):
    rows, _ = checked(OTHERS, FORWARD)
    assert statuses(rows[word(name, inputs), "forward"]) == [("PASS", None)] * 2


@pytest.mark.parametrize(("name", "inputs"), TRAINED)
def test_modules_are_trained_as_they_are(checked, name, inputs):
    rows, _ = checked(TRAINED, ("gradient", "step"))
    for mode in ("gradient", "step"):
        for status, message in statuses(rows[word(name, inputs), mode]):
            assert status == "PASS"
            if (name, mode) == ("Frozen", "gradient"):  # a scale before a norm: nearly zero on the first seed
                assert message.startswith("1 of 3 draws of the inputs cannot be judged: ")
            else:
                assert message is None


def test_a_gradient_that_no_graph_has_is_not_verified(checked):
    """A function that rounds and hands the gradient through: that of its operators is zero."""
    rows, _ = checked((("OtherGradient", X),), ("gradient",))
    for status, message in statuses(rows[word("OtherGradient", X), "gradient"]):
        assert status == "UNVERIFIED" and "its graph computes something else in PyTorch, too" in message


def test_a_selection_that_is_empty_is_not_taken_for_a_full_one(checked):
    rows, _ = checked((("Empty", X),), FORWARD)
    for status, message in statuses(rows[word("Empty", X), "forward"]):
        assert status == "UNVERIFIED" and "its graph computes something else in PyTorch, too" in message


def test_networks_of_transformers_pass_as_they_come(checked):
    """Their results are objects with a cache of keys and values; the loss does not reach a pooler."""
    pytest.importorskip("transformers")
    rows, _ = checked(TRANSFORMERS, ("forward", "gradient"), "transformer_nets")
    assert {key[1] for key in rows} == {"forward", "gradient"} and len(rows) == 2 * len(TRANSFORMERS)
    assert {key: statuses(group) for key, group in rows.items()} == dict.fromkeys(rows, [("PASS", None)] * 2)


@pytest.mark.parametrize("name", UNTRAINED)
def test_what_training_does_otherwise_is_not_trained(checked, name):
    rows, _ = checked(tuple((each, X) for each in UNTRAINED), ("step",))
    for status, message in statuses(rows[word(name, X), "step"]):
        assert status == "UNSUPPORTED" and re.match(f"it cannot be trained: .*({UNTRAINED[name]})", message)


@pytest.mark.parametrize("name", REMARKS)
def test_what_is_left_out_is_said_once(checked, name):
    cases = FEW if any(name == each for each, *_ in FEW) else OTHERS
    _, stderr = checked(cases, FORWARD)
    lines = [line for line in stderr.splitlines() if line.startswith(f"xbench: module_nets:{name}: ")]
    assert len([line for line in lines if re.search(REMARKS[name], line)]) == 1, stderr


@pytest.mark.parametrize(("name", "inputs", "line"), REFUSED)
def test_what_cannot_be_exported_is_one_line(tmp_path, name, inputs, line):
    with pytest.raises((XBenchError, BadFactory)) as raised:
        export_module(parse(word(name, inputs)), tmp_path)
    message = str(raised.value)
    assert message.startswith(f"module_nets:{name}") and line in message and "\n" not in message


# ***** in process *****


def test_outputs_have_the_paths_of_the_result():
    y = torch.ones(2)
    outputs = flattened(module_nets.Cached().forward(torch.ones(1, 8)))
    assert [path for path, _ in outputs] == ["logits", "past.keys", "past.values.0", "past.values.1.keys"]
    assert [path for path, _ in flattened((y, None, (y, [y]), 3))] == ["0", "2.0", "2.1.0"]
    assert flattened(y) == [("", y)]


@pytest.mark.parametrize("result", [None, {}, [], {"a": [None, 3, "b"]}])
def test_a_result_without_a_tensor_is_refused(result):
    with pytest.raises(BadCall, match="returns no tensor"):
        flattened(result)


def test_a_flat_network_computes_what_it_did():
    x, network = torch.randn(2, 8), module_nets.hooked()
    wanted = network(x)
    outputs = flat(network, ["x"])(x)
    assert isinstance(outputs, tuple) and torch.equal(outputs[0], wanted)
    assert type(network).__name__ == "Dataclass" and [name for name, _ in network.named_parameters()] == [
        "layer.weight",
        "layer.bias",
    ]


def test_a_forward_that_a_module_was_given_is_called():
    network = module_nets.Layer()
    network.forward = lambda other: network.layer(other) + 1
    wanted = network(torch.ones(1, 8))
    assert torch.equal(flat(network, ["other"])(torch.ones(1, 8))[0], wanted)


@pytest.mark.parametrize(
    ("module", "names", "positional", "keywords"),
    [
        ("Optional", ["input_ids", "token_type_ids"], (0,), {"token_type_ids": 1}),
        ("Optional", ["token_type_ids", "input_ids"], (1,), {"token_type_ids": 0}),
        ("KeywordOnly", ["x"], (), {"x": 0}),
        ("KeywordOnly", ["anything"], (), {"x": 0}),
        ("Star", ["a", "b"], (0, 1), {}),
        ("StarAndKeyword", ["factor", "x", "a"], (1, 2), {"factor": 0}),
        ("Keywords", ["scale", "x"], (1,), {"scale": 0}),
        ("Layer", ["x_given"], (0,), {}),
    ],
)
def test_inputs_are_bound_by_name(module, names, positional, keywords):
    arguments = bind(module, inspect.signature(getattr(module_nets, module)().forward), names)
    assert (arguments.positional, arguments.keywords) == (positional, keywords)


def test_a_frozen_norm_is_frozen_in_every_layout(tmp_path):
    export_module(parse(word("Frozen", IMAGE)), tmp_path)
    for text in ("program.py", "program.nhwc.py"):
        assert (tmp_path / text).read_text().count("training_mode=training") == 1


def test_one_refusal_does_not_keep_others_from_being_checked(checked):
    rows, stderr = checked((REFUSED[0], FEW[0]), FORWARD)
    assert [statuses(group) for group in rows.values()] == [[("PASS", None)] * 2]
    assert stderr.splitlines()[0] == "xbench: module_nets:NoTensor returns no tensor"


CONFIGURED = """
import dataclasses
import torch

def make(width, kind="relu", sizes=(4, 3), bias=True):
    layers = [torch.nn.Linear(8, width, bias=bias), getattr(torch.nn, kind)(), torch.nn.Linear(width, sizes[-1])]
    return torch.nn.Sequential(*layers)

class Nets:
    @staticmethod
    def small():
        return torch.nn.Linear(8, 2)
"""


@pytest.fixture
def configured(tmp_path, monkeypatch):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "json.py").write_text(CONFIGURED)  # named as a module that is already known
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])


def test_a_factory_of_a_file_is_called_with_arguments(configured):
    network = make("nets/json.py:make(16, 'Tanh', sizes=[4, 5], bias=False)")
    assert isinstance(network[1], torch.nn.Tanh) and network[0].bias is None
    assert [tuple(p.shape) for p in network.parameters()] == [(16, 8), (5, 16), (5,)]
    assert make("nets/json.py:Nets.small").out_features == 2
    assert json.dumps({}) == "{}"
    assert make("torch:nn.Linear(8, out_features=2)").out_features == 2


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("nets/json.py:make", "nets/json.py:make needs width: write nets/json.py:make(width=...)"),
        ("nets/json.py:make(widht=3)", "got an unexpected keyword argument 'widht'; its arguments are width, kind"),
        ("nets/json.py:make(1, 2, 3, 4, 5)", "too many positional arguments"),
        ("nets/json.py:make(width=8", "arguments are numbers, texts, True, False, None, as in nets/json.py:make("),
        ("nets/json.py:make(width=open('x'))", "arguments are numbers, texts"),
        ("nets/json.py:make(__import__('os').system('touch ran'))", "arguments are numbers, texts"),
        ("nets/json.py:make(8).bias", "arguments are numbers, texts"),
        ("nets/json.py:make(**{'width': 3})", "arguments are numbers, texts"),
        ("nets/json.py:make(" + "(" * 9999, "arguments are numbers, texts"),
        ("nets/other.py:make", "no such file: nets/other.py"),
        ("nets/json.py:nothing", "raises AttributeError"),
    ],
)
def test_arguments_that_cannot_be_given_are_one_line(configured, word, line):
    with pytest.raises(BadFactory) as raised:
        make(word)
    assert line in str(raised.value)
    assert not Path("ran").exists()


def test_the_factories_of_this_file_are_all_used():
    used = {name for name, *_ in (*PASSES, *REFUSED)}
    bases = {"Empty", "Labels", "Layer", "Cache", "Result", "Pair", "Skipped", "Cube", "Rounded"}
    defined = {n for n, v in vars(module_nets).items() if getattr(v, "__module__", "") == module_nets.__name__}
    assert defined - bases == used
    assert Path(module_nets.__file__).name == "module_nets.py"
