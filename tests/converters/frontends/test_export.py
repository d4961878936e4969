"""The exporter keeps what training needs: names, ties, BatchNormalization, Dropout, recurrent weights, the batch."""

import importlib
import os

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from places import ROOT
from torch import nn

from xbench import converters, models
from xbench.converters import build as jobs
from xbench.converters.artifact import Artifact
from xbench.converters.codegen.program import convert
from xbench.converters.frontends import pytorch as exporter
from xbench.converters.frontends.onnx_file import OPSET, canonical
from xbench.converters.ops import torch as table
from xbench.converters.passes import macs
from xbench.converters.passes.fusion import fuse

GOLDEN = ROOT / "tests/golden"
REWRITE = "XBENCH_REWRITE_GOLDEN"  # set to 1 to rewrite the golden files
DEBRIS = {"Shape", "Expand", "Identity", "Constant", "ConstantOfShape", "Range", "CastLike", "Size"}
# The class token is one row per sample, so it is repeated by the batch size: the only use of that length.
NEEDS_THE_BATCH = {"vit_s16": {"Shape": 1, "Expand": 1}}


def array(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def export(module, *shapes, **inputs):
    """The exported model, and the program printed from it."""
    given = inputs or {f"x{i}": array(*shape, seed=i) for i, shape in enumerate(shapes)}
    model = exporter.export(module, given)
    return model, convert(model, [name for name, p in module.named_parameters() if p.requires_grad])


def seeded(module, seed=0):
    torch.manual_seed(seed)
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 1.5) if tensor.ndim < 2 else tensor.data.normal_(0, 0.3)
    return module


def run(program, *inputs, training=False):
    """Outputs, new state and gradients of the parameters, in PyTorch's table."""
    params = {name: torch.from_numpy(a.copy()).requires_grad_() for name, a in program.params.items()}
    state = {name: torch.from_numpy(a.copy()) for name, a in program.state.items()}
    apply = program.bind(table.TABLE)
    outputs, changed = apply(params, state, *map(torch.from_numpy, inputs), training=training)
    return outputs, changed, params


def operators(model):
    return [node.op_type for node in model.graph]


def assert_same_training(module, program, *inputs):
    """Outputs and the gradient of every parameter, by PyTorch's name."""
    outputs, _, params = run(program, *inputs, training=True)
    expected = module.train()(*map(torch.from_numpy, inputs))
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(outputs) == len(expected)
    for y, truth in zip(outputs, expected, strict=True):
        torch.testing.assert_close(y, truth, rtol=1e-5, atol=1e-6)
    for total in (sum((y * y.detach().cos()).sum() for y in each) for each in (outputs, expected)):
        total.backward()
    truths = {name: p.grad for name, p in module.named_parameters() if p.requires_grad}
    assert params.keys() == truths.keys()
    for name, truth in truths.items():
        torch.testing.assert_close(params[name].grad, truth, rtol=2e-5, atol=2e-6, msg=lambda m, n=name: f"{n}: {m}")


# ***** 1: every parameter under its own name *****


class EqualNorms(nn.Module):
    """Two LayerNorms that start equal, two linear layers whose zero biases are equal too."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm1, self.norm2 = nn.LayerNorm(4), nn.LayerNorm(4)
        nn.init.zeros_(self.a.bias)
        nn.init.zeros_(self.b.bias)

    def forward(self, x):
        return self.norm2(self.b(torch.relu(self.norm1(self.a(x)))))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.embedding(x).mean(1))


class TiedBackwards(nn.Module):
    """The alias is used before the name that `named_parameters()` gives."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.first(self.second(x).tanh())


class Normed(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4, eps=1e-3, momentum=0.3)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(torch.relu(self.norm(self.conv(x))))


class SmallCnn(nn.Module):
    """One of every layer kind, for the golden text."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(4, momentum=0.3)
        self.depthwise = nn.Conv2d(4, 4, 3, groups=4)
        self.dropout, self.fc = nn.Dropout(0.25), nn.Linear(24, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2, ceil_mode=True)
        x = nn.functional.gelu(self.depthwise(x), approximate="tanh") * 2.5
        return nn.functional.softmax(self.fc(self.dropout(x.flatten(1))), dim=-1)


@pytest.mark.parametrize(("module", "shape"), [(EqualNorms(), (3, 4)), (Normed(), (2, 3, 6, 5))])
def test_trainable_initializers_are_the_named_parameters(module, shape):
    model, program = export(module, shape)
    expected = {name: p.detach().numpy() for name, p in module.named_parameters()}
    assert program.params.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(program.params[name], value)
    assert expected.keys() <= set(model.graph.initializers)


def test_parameters_that_start_equal_stay_apart():
    module = EqualNorms()
    model, program = export(module, (3, 4))
    used = {value.name for node in model.graph for value in node.inputs if value is not None}
    assert {name for name, _ in module.named_parameters()} <= used
    assert_same_training(module, program, array(3, 4))


@pytest.mark.parametrize(
    ("module", "inputs"),
    [(Tied(), np.arange(10).reshape(2, 5) % 7), (TiedBackwards(), array(3, 4))],
    ids=["embedding", "backwards"],
)
def test_a_tied_weight_is_one_initializer_with_the_name_pytorch_gives(module, inputs):
    model, program = export(module, x=inputs)
    assert list(program.params) == [name for name, _ in module.named_parameters()]
    assert sum(value.const_value.size > 9 for value in model.graph.initializers.values()) == 1
    assert_same_training(module, program, inputs)


def test_frozen_parameters_are_state_and_not_trained():
    module = EqualNorms()
    module.a.weight.requires_grad_(False)
    _, program = export(module, (3, 4))
    assert "a.weight" in program.state
    assert "a.weight" not in program.params
    assert_same_training(module, program, array(3, 4))


def test_a_convolution_without_bias_gets_none():
    model, program = export(Normed(), (2, 3, 6, 5))
    (conv,) = [node for node in model.graph if node.op_type == "Conv"]
    assert len([value for value in conv.inputs if value is not None]) == 2
    assert set(program.params) | set(program.state) == {
        *("conv.weight", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var")
    }


def test_a_trained_bias_that_happens_to_be_zero_stays():
    module = nn.Conv2d(3, 4, 3)
    nn.init.zeros_(module.bias)
    _, program = export(module, (2, 3, 6, 5))
    assert set(program.params) == {"weight", "bias"}
    assert_same_training(module, program, array(2, 3, 6, 5))


# ***** 2 and 8: BatchNormalization and Dropout *****


def test_batch_normalization_is_not_folded_into_the_convolution():
    model, _ = export(Normed(), (2, 3, 6, 5))
    assert operators(model)[:2] == ["Conv", "BatchNormalization"]


def test_batch_normalization_trains_as_in_pytorch():
    module, x = seeded(Normed()), array(2, 3, 6, 5, seed=5)
    _, program = export(module, (2, 3, 6, 5))
    outputs, changed, _ = run(program, x, training=True)
    torch.testing.assert_close(outputs[0], module.train()(torch.from_numpy(x)), rtol=1e-5, atol=1e-6)
    assert set(changed) == {"norm.running_mean", "norm.running_var"}
    for name, value in changed.items():  # momentum 0.3 is ONNX's 0.7, and the variance is the unbiased one
        torch.testing.assert_close(value, dict(module.named_buffers())[name], rtol=1e-6, atol=1e-7)
    assert_same_training(module, program, x)


def test_in_evaluation_the_running_statistics_count_and_nothing_changes():
    module, x = seeded(Normed(0.5)), array(2, 3, 6, 5, seed=5)
    _, program = export(module, (2, 3, 6, 5))
    outputs, changed, _ = run(program, x)
    torch.testing.assert_close(outputs[0], module.eval()(torch.from_numpy(x)), rtol=1e-5, atol=1e-6)
    assert all(torch.equal(value, torch.from_numpy(program.state[name])) for name, value in changed.items())


def test_dropout_stays_with_its_rate_and_drops_only_with_a_key_in_training():
    _, program = export(Normed(0.25), (2, 3, 6, 5))
    assert "Dropout(relu, 0.25, training, seed=1, rng=rng)" in program.source
    apply = program.bind(table.TABLE)
    arrays = [{n: torch.from_numpy(a) for n, a in kept.items()} for kept in (program.params, program.state)]
    x = torch.from_numpy(array(2, 3, 6, 5))
    kept = [apply(*arrays, x, training=t, rng=r)[0][0] for t, r in ((True, None), (True, 1), (False, 1))]
    zeros = [(y == 0).float().mean().item() for y in kept]
    assert zeros[0] < zeros[1]
    assert not torch.equal(kept[0], kept[2])  # batch statistics against running ones


# ***** 3: recurrent weights *****


class Recurrent(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        y, last = self.cell(x)
        return (y, *last) if isinstance(last, tuple) else (y, last)


CELLS = {
    "lstm_2_layers": nn.LSTM(3, 4, 2),
    "lstm_bidirectional": nn.LSTM(3, 4, bidirectional=True, batch_first=True),
    "lstm_2_layers_bidirectional": nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True),
    "lstm_without_bias": nn.LSTM(3, 4, bias=False, batch_first=True),
    "gru": nn.GRU(3, 4, batch_first=True),
    "gru_2_layers_bidirectional": nn.GRU(3, 4, 2, bidirectional=True, batch_first=True),
    "gru_without_bias": nn.GRU(3, 4, bias=False, batch_first=True),
}


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_weights_keep_their_names_and_gates(name):
    module = seeded(Recurrent(CELLS[name]))
    model, program = export(module, (3, 6, 3))
    assert_same_training(module, program, array(3, 6, 3, seed=3))
    assert operators(model).count(name[:4].upper().strip("_")) == CELLS[name].num_layers


# ***** the batch *****


@pytest.mark.parametrize("name", ["lenet", "cifar_vgg", "resnet56_cifar", "imdb_gru", "lstm_ptb", "vit_s16"])
def test_one_file_serves_every_batch(zoo, name):
    """Batches 1, 2 and 5 on ONNX Runtime, which does not depend on our exporter, against the module."""
    spec, artifact = models.find(name), zoo[name]
    module = models.build(spec).eval()
    session = onnxruntime.InferenceSession(str(artifact.onnx), providers=["CPUExecutionProvider"])
    assert [given.shape[0] for given in session.get_inputs()] == ["batch"] * len(spec.inputs)
    for batch in (1, 2, 5):
        inputs, _ = models.sample(spec, batch, seed=batch)
        with torch.no_grad():
            expected = module(*map(torch.from_numpy, inputs.values())).numpy()
        output = session.run(None, inputs)[0]
        assert output.shape == expected.shape
        np.testing.assert_allclose(output, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


# ***** the zoo *****


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """All networks, each exported on first use, once per session."""

    class Zoo(dict):
        def __missing__(self, name):
            folder = tmp_path_factory.mktemp(name)
            jobs.export_zoo(name, 0, folder)
            self[name] = Artifact.read(folder)
            return self[name]

    return Zoo()


# The others take minutes and gigabytes; `make parity` checks all of them.
LIGHT = [
    name for name, spec in models.MODELS.items() if spec.parameters < 40_000_000 or name in ("gpt2", "alexnet_bvlc")
]


@pytest.mark.parametrize("name", LIGHT)
def test_an_exported_network_has_its_parameters_and_work_and_no_debris(zoo, name):
    spec, artifact = models.find(name), zoo[name]
    trainable = {n: tuple(p.shape) for n, p in models.build(spec).named_parameters() if p.requires_grad}
    program = artifact.program()
    assert {n: a.shape for n, a in program.params.items()} == trainable
    assert artifact.info["parameter_count"] == spec.parameters
    assert artifact.info["macs"] == spec.macs
    needed = NEEDS_THE_BATCH.get(name, {})
    assert {op: n for op, n in program.operators.items() if op in DEBRIS} == needed
    largest = max((a.size for a in program.state.values()), default=0)
    assert largest < 40_000, "a weight has become a constant"


def test_macs_are_unknown_rather_than_wrong_where_a_shape_is():
    value = ir.Value(name="x")
    node = ir.node("MatMul", [value, ir.Value(name="w")])
    graph = ir.Graph([value, node.inputs[1]], node.outputs, nodes=[node], opset_imports={"": 20})
    assert macs.count(ir.Model(graph, ir_version=10)) is None


# ***** the text *****


def test_the_printed_text_of_a_small_network_is_the_golden_one():
    _, program = export(SmallCnn(), x=array(2, 3, 16, 20))
    path = GOLDEN / "small_cnn.py"
    if os.environ.get(REWRITE) == "1":
        path.write_text(program.source)
    assert program.source == path.read_text(), f"if the change is meant: {REWRITE}=1 python -m pytest {__file__}"


def test_the_golden_text_runs_and_trains():
    module = seeded(SmallCnn())
    module.dropout.p = 0.0
    _, program = export(module, x=array(2, 3, 16, 20))
    assert_same_training(module, program, array(4, 3, 16, 20, seed=9))


def test_the_text_is_the_same_every_time():
    texts = {export(SmallCnn(), x=array(2, 3, 16, 20))[1].source for _ in range(2)}
    assert len(texts) == 1


@pytest.mark.parametrize("framework", ["jax", "tensorflow", "torch"])
def test_the_operators_read_from_a_tables_source_are_those_the_table_has(framework):
    table = importlib.import_module(f"xbench.converters.ops.{framework}").TABLE
    assert converters.operators_of(framework) == set(table)


# ***** linear layers in the text *****


class Sequences(nn.Module):
    """A linear layer on three axes, one whose product is read twice, and a bias that is not a row."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 4), nn.Linear(4, 5, bias=False)
        self.shift, self.grid = (nn.Parameter(torch.from_numpy(array(*shape))) for shape in ((5,), (3, 5)))

    def forward(self, x):
        y = self.two(self.one(x))
        return (y + self.shift) * y + (self.two(x[:, :, :4]) + self.grid)


def test_a_product_and_a_bias_are_one_gemm_and_compute_the_same():
    module = seeded(Sequences())
    model = exporter.export(module, {"x": array(2, 3, 6)})
    fused = fuse(model, [name for name, _ in module.named_parameters()])
    program = convert(fused, [name for name, _ in module.named_parameters()])
    assert program.source.count("Gemm(") == 1
    assert "params['one.weight'], params['one.bias'], transB=1)" in program.source
    assert program.source.count("MatMul(") == 2
    assert_same_training(module, program, array(2, 3, 6))


BRANCHES = """<ir_version: 9, opset_import: ["": 20]> g (bool c, float[2] x) => (float[2] y) {
    a = Relu (x)
    y = If (c) <then_branch = kept () => (float[2] p) { p = Identity (a) },
                else_branch = turned () => (float[2] q) { q = Neg (a) }>
}"""


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_that_hands_on_what_is_outside_stays_a_branch(taken):
    """Without its Identity it has no output of its own, which ONNX Runtime refuses to load (EmbeddingBag)."""
    model = ir.to_proto(exporter.clean(ir.from_proto(onnx.parser.parse_model(BRANCHES))))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"c": np.array(taken), "x": np.array([-1, 2], np.float32)})
    np.testing.assert_array_equal(y, [0, 2] if taken else [0, -2])


@pytest.mark.parametrize("training", [False, True])
def test_the_rate_of_a_dropout_that_goes_is_no_input(training):
    """In evaluation Dropout is folded away, and what only it read must go with it."""
    rate = onnx.numpy_helper.from_array(np.array(0.5, np.float32), "rate")
    switch = onnx.numpy_helper.from_array(np.array(training), "switch")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Dropout", ["x", "rate", "switch"], ["y"])],
        "g",
        [value("x", onnx.TensorProto.FLOAT, ["batch", 4])],
        [value("y", onnx.TensorProto.FLOAT, ["batch", 4])],
        [rate, switch],
    )
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = exporter.clean(canonical(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10)))
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert [node.op_type for node in model.graph] == (["Dropout"] if training else ["Identity"])
