"""The training step as one ONNX graph equals PyTorch's, for every optimizer, on a runtime without autodiff."""

import collections
import dataclasses
import importlib

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import nn

from xbench import models
from xbench.converters.autodiff.optimizer import slots
from xbench.converters.autodiff.optimizer import update as formula
from xbench.converters.autodiff.train_step import select, train_step
from xbench.converters.frontends import pytorch as exporter
from xbench.runtimes.torch import optimizer_of, set_dropout, update

STEPS = 4


class Small(nn.Module):
    """A convolution, a norm, a dropout and a linear layer; one parameter that the loss does not depend on.

    No bias before the norm: its gradient is only rounding, which Adam makes large.
    """

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.dropout = (
            nn.Conv2d(2, 3, 3, padding=1, bias=False),
            nn.BatchNorm2d(3),
            nn.Dropout(0.5),
        )
        self.fc, self.idle = nn.Linear(3 * 4 * 5, 4), nn.Parameter(torch.ones(2))

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.fc(self.dropout(x.flatten(1))), self.idle * 2


RULES = {
    "sgd": models.Optimizer(),
    "momentum": models.Optimizer(momentum=0.9, weight_decay=0.01),
    "nesterov": models.Optimizer(momentum=0.9, weight_decay=0.01, nesterov=True),
    "schedule": models.Optimizer(momentum=0.9, schedule=(0.1, 1.0, 0.5)),
    "adamw schedule": models.Optimizer(name="adamw", weight_decay=0.1, schedule=(0.1, 1.0)),
    "adam": models.Optimizer(name="adam", lr=0.01, weight_decay=0.01),
    "adamw": models.Optimizer(name="adamw", lr=0.01, weight_decay=0.1),
    "clip": models.Optimizer(momentum=0.9, clip=0.05),
}


def small():
    torch.manual_seed(0)
    module = Small()
    set_dropout(module, active=False)
    return module


def draw(batch):
    random = np.random.default_rng(batch)
    return random.standard_normal((batch, 2, 4, 5), np.float32), random.integers(0, 4, batch)


@pytest.fixture(scope="module")
def exported():
    module = Small()
    return exporter.export(module, {"x": draw(2)[0]}), [name for name, _ in module.named_parameters()]


def step_of(exported, rule):
    model, trainable = exported
    facts = {"labels": models.plain(models.classes(4)), "loss": dataclasses.asdict(models.Loss())}
    return train_step(model, trainable, facts | {"optimizer": dataclasses.asdict(rule)})


def session_of(model):
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    return onnxruntime.InferenceSession(proto.SerializeToString(), settings, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_step_is_that_of_pytorch(exported, rule):
    module, session, (x, labels) = small(), session_of(select(step_of(exported, rule), "step")), draw(6)
    tensors = {**dict(module.named_parameters()), **{n: b for n, b in module.named_buffers() if b.ndim}}
    state = {n: t.detach().numpy().copy() for n, t in tensors.items()} | {"x": x, "labels": labels}
    state |= {"dropout": np.array(0, np.float32)}
    shapes = {each.name: each.shape for each in session.get_inputs()}
    feed = {n: state[n] if n in state else np.zeros(shape, np.float32) for n, shape in shapes.items()}
    optimizer = optimizer_of(dataclasses.asdict(rule), list(module.parameters()))
    for count in range(STEPS):
        made = dict(zip((o.name for o in session.get_outputs()), session.run(None, feed), strict=True))
        feed |= {name.removeprefix("new."): value for name, value in made.items() if name.startswith("new.")}
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(torch.from_numpy(x))[0], torch.from_numpy(labels))
        loss.backward()
        module.idle.grad = torch.zeros(2)  # None in PyTorch, so that weight decay would skip it
        update(optimizer, dataclasses.asdict(rule), count + 1)
        np.testing.assert_allclose(made["loss"], loss.item(), rtol=2e-6)
    for name, tensor in tensors.items():
        np.testing.assert_allclose(feed[name], tensor.detach().numpy(), rtol=2e-5, atol=2e-6, err_msg=name)
    assert float(feed["step"]) == STEPS


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_formula_is_that_of_pytorch(rule, framework):
    """In eager arrays of a framework with its own autodiff."""
    of = pytest.importorskip({"jax": "jax.numpy"}.get(framework, framework))
    array = of.asarray if framework == "jax" else of.constant
    runtime = importlib.import_module(f"xbench.runtimes.{framework}")
    random, facts = np.random.default_rng(0), dataclasses.asdict(rule)
    start = {"a": random.standard_normal((3, 4), np.float32), "b": random.standard_normal(5, np.float32)}
    given = {name: nn.Parameter(torch.from_numpy(value.copy())) for name, value in start.items()}
    optimizer, params = optimizer_of(facts, list(given.values())), {name: array(v) for name, v in start.items()}
    memory = {slot: {name: array(np.zeros_like(v)) for name, v in start.items()} for slot in slots(facts)}
    for count in range(1, STEPS + 1):
        grads = {name: random.standard_normal(value.shape, np.float32) for name, value in start.items()}
        for name, p in given.items():
            p.grad = torch.from_numpy(grads[name].copy())
        update(optimizer, facts, count)
        here = {name: array(g) for name, g in grads.items()}
        params, memory = formula(facts, array(np.float32(count)), params, here, memory, runtime.FUNCTIONS)
    for name, p in given.items():
        np.testing.assert_allclose(np.asarray(params[name]), p.detach().numpy(), rtol=2e-5, atol=1e-6)


def test_everything_that_goes_in_and_comes_out_has_its_name(exported):
    graph = step_of(exported, RULES["adam"]).graph
    weights = ["conv.weight", "norm.weight", "norm.bias", "fc.weight", "fc.bias", "idle"]
    statistics = ["norm.running_mean", "norm.running_var"]
    memory = [f"{slot}.{name}" for slot in ("mean", "square") for name in weights]
    state = [*weights, *statistics, *memory, "step"]
    assert sorted(v.name for v in graph.inputs) == sorted(["x", "labels", "dropout", *state])
    outputs = ["loss", *(f"gradient.{name}" for name in weights), *(f"new.{name}" for name in state)]
    assert sorted(v.name for v in graph.outputs) == sorted(outputs)
    assert all(v.shape is not None and v.dtype is not None for v in (*graph.inputs, *graph.outputs))


def test_a_mode_is_asked_for_no_more_than_it_needs(exported):
    step = step_of(exported, RULES["momentum"])
    gradient = select(step, "gradient").graph
    weights = {"conv.weight", "norm.weight", "norm.bias", "fc.weight", "fc.bias"}
    assert {v.name for v in gradient.inputs} == {"x", "labels", "dropout", *weights}
    assert all(v.name == "loss" or v.name.startswith("gradient.") for v in gradient.outputs)
    assert all(v.name == "loss" or v.name.startswith("new.") for v in select(step, "step").graph.outputs)


def test_every_operator_is_of_onnx_and_nothing_is_written_twice(exported):
    graph = step_of(exported, RULES["momentum"]).graph
    assert {node.domain for node in graph} == {""}
    written = collections.Counter(
        (node.op_type, tuple(node.inputs), str(sorted(node.attributes.items())))
        for node in graph
        if node.op_type != "RandomUniformLike"
    )
    assert written.most_common(1)[0][1] == 1


def test_dropout_drops_its_share_and_scales_up_the_rest(exported):
    session, (x, labels) = session_of(select(step_of(exported, RULES["sgd"]), "gradient")), draw(1)
    module = small()
    weights = {name: p.detach().numpy() for name, p in module.named_parameters() if name != "idle"}
    feed = weights | {"x": x, "labels": labels}
    rest, dropped = {}, {}
    for rate in (0, 1):
        made = session.run(["gradient.fc.weight", "gradient.fc.bias"], feed | {"dropout": np.array(rate, np.float32)})
        signal = made[0][0] / made[1][0]  # the input of the layer
        dropped[rate], rest[rate] = signal == 0, signal
    new = dropped[1] & ~dropped[0]
    alive = ~dropped[1]
    assert 0.2 < new.sum() / (~dropped[0]).sum() < 0.8
    np.testing.assert_allclose(rest[1][alive], 2 * rest[0][alive], rtol=1e-4)
