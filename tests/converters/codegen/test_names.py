"""Names of a file: the program computes what the file says, for any names of tensors."""

import builtins
import itertools
import keyword
import os

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.codegen.printer import OWN_WORDS, Printer
from xbench.converters.source import parse
from xbench.runtimes import Options, load
from xbench.runtimes.torch import module_of

EXAMPLES = int(os.environ.get("XBENCH_EXAMPLES", "60"))
WIDTH, BATCH = 4, 3
SUFFIXES = ("", "_", "_mean", "_var", "__", ".", ":0", "/b")
WORDS = (
    *OWN_WORDS,
    *keyword.kwlist,
    *keyword.softkwlist,
    *(name for name in dir(builtins) if name.isidentifier()),
    *("Add", "Relu", "Constant", "TABLE", "network", "self", "np", "torch", "jnp", "tf", "xp", "value", "v_value"),
    *("if_then_branch", "if_else_branch", "λ", "é", "ß", "名前", "𝕩", "a b", "1x", "x", "y", "x_", "é_", "onnx::Add_1"),
    *("'", '"', '"""', "\\", "{}", "{x}", "%s", "#", "a;b", "a\u202eb", "\ufeff", "None", "__import__"),
)
words = st.one_of(
    st.builds("".join, st.tuples(st.sampled_from(WORDS), st.sampled_from(SUFFIXES))),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=6),
)
OPERATORS = ("Relu", "Add", "Mul", "Scale", "BatchNormalization", "TopK", "Clip", "If", "MatMul", "Dropout")


class Graph:
    """A chain of operators whose tensors have names from a list, each once in its scope."""

    def __init__(self, names, draw):
        self.names, self.draw = iter(names), draw
        self.nodes, self.arrays = [], {}
        self.shown = [next(self.names)]
        self.given = self.shown[0]

    def array(self, *shape, names=None):
        name = next(names or self.names)
        made = numpy_helper.from_array(self.draw.normal(size=shape).astype(np.float32), name)
        return made if names else self.keep(made)

    def keep(self, made):
        self.arrays[made.name] = made
        return made.name

    def node(self, kind, inputs, count=1, **attributes):
        outputs = [next(self.names) for _ in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, **attributes))
        self.shown.append(outputs[0])

    def any(self):
        return self.shown[self.draw.integers(len(self.shown))]

    def add(self, kind):
        last = self.shown[-1]
        if kind == "Relu" or kind == "Dropout":
            self.node(kind, [last])
        elif kind in ("Add", "Mul"):
            self.node(kind, [last, self.any()])
        elif kind == "Scale":
            self.node("Mul", [last, self.array(1, WIDTH)])
        elif kind == "MatMul":
            self.node(kind, [last, self.array(WIDTH, WIDTH)])
        elif kind == "BatchNormalization":
            own = [self.array(WIDTH) for _ in range(3)]
            variance = numpy_helper.from_array(self.draw.uniform(0.5, 2, WIDTH).astype(np.float32), next(self.names))
            self.node(kind, [last, *own, self.keep(variance)])
        elif kind == "TopK":
            count = self.keep(numpy_helper.from_array(np.array([WIDTH]), next(self.names)))
            self.node(kind, [last, count], count=2, axis=1)
        elif kind == "Clip":
            bounds = [numpy_helper.from_array(np.float32(b), next(self.names)) for b in (-np.inf, np.inf)]
            self.node(kind, [last, *map(self.keep, bounds)])
        elif kind == "If":
            self.branch(last)

    def branch(self, last):
        """Both branches use the same names: each is its own scope."""
        total, zero = next(self.names), self.keep(numpy_helper.from_array(np.float32(0), next(self.names)))
        self.nodes.append(helper.make_node("ReduceSum", [last], [total], keepdims=0))
        chosen = next(self.names)
        self.nodes.append(helper.make_node("Greater", [total, zero], [chosen]))
        inner = [next(self.names), next(self.names)]
        bodies = {}
        for name, kind in (("then_branch", "Add"), ("else_branch", "Mul")):
            initializer = self.array(1, WIDTH, names=iter(inner[:1]))
            node = helper.make_node(kind, [last, initializer.name], inner[1:])
            bodies[name] = helper.make_graph([node], name, [], [value(inner[1])], [initializer])
        self.node("If", [chosen], **bodies)

    def model(self):
        graph = helper.make_graph(
            self.nodes, "names", [value(self.given)], [value(self.shown[-1])], [*self.arrays.values()]
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def value(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH])


def computed(model, folder, x):
    """The output of the float64 oracle's program for a file."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    build.export_file(parse(str(path)), path, folder)
    module = module_of(Artifact.read(folder)).double().eval()
    module.dropout = False
    with torch.no_grad():
        return module(torch.from_numpy(x).double())[0].numpy()


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
@given(
    names=st.lists(words, min_size=60, max_size=60, unique=True),
    kinds=st.lists(st.sampled_from(OPERATORS), min_size=1, max_size=6),
    seed=st.integers(0, 2**31),
)
def test_no_name_changes_what_is_computed(names, kinds, seed, tmp_path_factory):
    graph = Graph(names, np.random.default_rng(seed))
    for kind in kinds:
        graph.add(kind)
    graph.add("MatMul")
    model, x = graph.model(), np.random.default_rng(1).normal(size=(BATCH, WIDTH)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {graph.given: x})
    output = computed(model, tmp_path_factory.mktemp("name"), x)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("word", OWN_WORDS)
def test_no_tensor_is_called_as_the_text_calls_its_own(word):
    import onnx_ir as ir

    printer = Printer(set(), unbiased=False)
    named = [printer.name(ir.Value(name=name)) for name in (word, f"{word}_", word.replace("_", "é"))]
    assert len({*named}) == 3 and not {*named} & {*OWN_WORDS}


def test_every_word_is_an_identifier_of_its_own():
    import onnx_ir as ir

    printer = Printer(set(), unbiased=False)
    named = [printer.name(ir.Value(name="".join(pair))) for pair in itertools.product(WORDS, SUFFIXES)]
    assert len({*named}) == len(named)
    assert all(name.isidentifier() and name.isascii() and not keyword.iskeyword(name) for name in named)


@pytest.mark.parametrize("names", [("onnx::MatMul_749", "model.a.weight"), ("a/b:0", "1x"), ("é", "parameter_0")])
def test_tvm_holds_parameters_by_the_names_of_the_file(names, tmp_path):
    """PyTorch's older exporter writes `::`, which TVM's importer changes."""
    graph = Graph(["x", names[0], "h", names[1], "y"], np.random.default_rng(0))
    graph.add("MatMul")
    graph.add("MatMul")
    onnx.save(graph.model(), tmp_path / "model.onnx")
    build.export_file(parse(str(tmp_path / "model.onnx")), tmp_path / "model.onnx", tmp_path)
    runtime = load("tvm", Artifact.read(tmp_path), Options("forward", "cpu", 1))
    runtime.prepare([np.ones((BATCH, WIDTH), np.float32)], np.zeros(BATCH, np.int64), dropout=False)
    parameters = runtime.held()
    for name in names:
        np.testing.assert_array_equal(parameters[name], numpy_helper.to_array(graph.arrays[name]))


@pytest.mark.parametrize("word", ["__debug__", "None", "1x", "Add", "λ"])
def test_every_word_can_be_assigned_to(word):
    import onnx_ir as ir

    compile(f"{Printer(set(), unbiased=False).name(ir.Value(name=word))} = 1", "a program", "exec")
