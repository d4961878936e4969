"""Losses: every framework and the graph agree with the formula and its gradient."""

import dataclasses
import importlib

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from xbench import models
from xbench.converters import TABLES
from xbench.converters.autodiff.loss import loss_of, written
from xbench.converters.autodiff.train_step import select, train_step
from xbench.converters.frontends import pytorch as exporter

RULES = [
    models.Loss(),
    models.Loss(weights=(1.0, 0.3, 0.3)),
    models.Loss("mean_squared_error"),
    models.Loss("mean_squared_error", (0.5, 2.0)),
    models.Loss("binary_cross_entropy"),
    models.Loss("own_loss"),
]
RATED = pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.name}-{len(rule.weights)}")
CLASSES = 5


class Heads(nn.Module):
    """Three outputs of one trunk."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(4, 6)
        self.heads = nn.ModuleList(nn.Linear(6, CLASSES) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        hidden = torch.tanh(self.trunk(x))
        return tuple(head(hidden) for head in self.heads)


def labels_of(rule: models.Loss) -> models.Input:
    if rule.name == "cross_entropy":
        return models.classes(CLASSES)
    return models.Input("labels", ("batch", CLASSES), low=0.0, high=1.0)


def formula(rule: models.Loss, outputs: list[np.ndarray], labels: np.ndarray) -> float:
    """The definition, in float64."""
    total = 0.0
    for weight, y in zip(rule.weights, [each.astype(np.float64) for each in outputs], strict=False):
        if rule.name == "cross_entropy":
            share = np.exp(y) / np.exp(y).sum(-1, keepdims=True)
            value = -np.log(share[np.arange(len(labels)), labels]).mean()
        elif rule.name == "mean_squared_error":
            value = ((y - labels) ** 2).mean()
        elif rule.name == "own_loss":
            value = y.mean()
        else:
            p = 1 / (1 + np.exp(-y))
            value = -(labels * np.log(p) + (1 - labels) * np.log(1 - p)).mean()
        total += weight * value
    return total


def slopes(rule: models.Loss, outputs: list[np.ndarray], labels: np.ndarray) -> list[np.ndarray]:
    """The gradient by every output, by finite differences."""
    gradients = []
    for index, output in enumerate(outputs):
        grad = np.zeros(output.shape)
        for place in np.ndindex(output.shape):
            sides = []
            for step in (1e-5, -1e-5):
                moved = [each.astype(np.float64) for each in outputs]
                moved[index][place] += step
                sides.append(formula(rule, moved, labels))
            grad[place] = (sides[0] - sides[1]) / 2e-5
        gradients.append(grad)
    return gradients


def drawn(rule: models.Loss) -> tuple[list[np.ndarray], np.ndarray]:
    outputs = [3 * models.draw(models.Input(f"y{index}", (4, CLASSES)), 0) for index in range(3)]
    return outputs, models.draw(labels_of(rule), 4)


def torch_pair(function, outputs, labels):  # type: ignore[no-untyped-def]
    given = [torch.from_numpy(each).requires_grad_() for each in outputs]
    value = function(given, torch.from_numpy(labels))
    value.backward()
    return value.item(), [each.grad.numpy() if each.grad is not None else 0 * each.detach().numpy() for each in given]


def jax_pair(function, outputs, labels):  # type: ignore[no-untyped-def]
    import jax

    value, grads = jax.value_and_grad(lambda given: function(given, labels))(outputs)
    return float(value), [np.asarray(each) for each in grads]


def tensorflow_pair(function, outputs, labels):  # type: ignore[no-untyped-def]
    import tensorflow as tf

    given = [tf.constant(each) for each in outputs]
    with tf.GradientTape() as tape:
        tape.watch(given)
        value = function(given, tf.constant(labels))
    grads = tape.gradient(value, given, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return float(value), [each.numpy() for each in grads]


PAIRS = {"torch": torch_pair, "jax": jax_pair, "tensorflow": tensorflow_pair}


@RATED
@pytest.mark.parametrize("framework", TABLES)
def test_a_loss_is_the_same_in_every_framework(framework: str, rule: models.Loss) -> None:
    pytest.importorskip(framework)
    table = importlib.import_module(f"xbench.converters.ops.{framework}")
    outputs, labels = drawn(rule)
    value, grads = PAIRS[framework](loss_of(table, dataclasses.asdict(rule)), outputs, labels)
    assert value == pytest.approx(formula(rule, outputs, labels), rel=1e-5)
    for grad, expected in zip(grads, slopes(rule, outputs, labels), strict=True):
        np.testing.assert_allclose(grad, expected, atol=1e-6)


@pytest.mark.parametrize("framework", TABLES)
def test_large_logits_neither_overflow_nor_lose_their_gradient(framework: str) -> None:
    pytest.importorskip(framework)
    table = importlib.import_module(f"xbench.converters.ops.{framework}")
    logits, targets = np.array([[-200.0, 200.0, 0.0]], np.float32), np.array([[0.25, 0.25, 0.25]], np.float32)
    rule = dataclasses.asdict(models.Loss("binary_cross_entropy"))
    value, (grad, *_) = PAIRS[framework](loss_of(table, rule), [logits], targets)
    assert value == pytest.approx((50 + 150 + np.log(2)) / 3, rel=1e-6)
    np.testing.assert_allclose(grad, [[-0.25 / 3, 0.25, 0.25 / 3]], atol=1e-6)


@RATED
def test_the_graph_of_a_loss_gives_pytorchs_gradients(rule: models.Loss) -> None:
    torch.manual_seed(0)
    network, x = Heads(), models.draw(models.Input("x", ("batch", 4)), 3)
    facts = {"labels": models.plain(labels_of(rule)), "loss": dataclasses.asdict(rule)}
    model = exporter.export(network, {"x": x})
    step = train_step(
        model, [*dict(network.named_parameters())], facts | {"optimizer": dataclasses.asdict(models.Optimizer())}
    )
    session = onnxruntime.InferenceSession(exporter.ir.to_proto(select(step, "gradient")).SerializeToString())
    labels = models.draw(labels_of(rule), 3)
    params = {name: p.detach().numpy() for name, p in network.named_parameters()}
    names = [each.name for each in session.get_outputs()]
    fed = {each.name: {**params, "x": x, "labels": labels}[each.name] for each in session.get_inputs()}
    values = dict(zip(names, session.run(names, fed), strict=True))
    outputs = network(torch.from_numpy(x))
    expected = formula(rule, [each.detach().numpy() for each in outputs], labels)
    assert float(values["loss"]) == pytest.approx(expected, rel=1e-5)
    loss_of(importlib.import_module("xbench.converters.ops.torch"), dataclasses.asdict(rule))(
        outputs, torch.from_numpy(labels)
    ).backward()
    for name, p in network.named_parameters():
        grad = np.zeros(p.shape) if p.grad is None else p.grad.numpy()
        np.testing.assert_allclose(values[f"gradient.{name}"], grad, atol=1e-6, err_msg=name)


def test_a_loss_is_written_as_an_expression() -> None:
    assert written(dataclasses.asdict(models.Loss())) == "cross_entropy(outputs[0], labels)"
    text = "cross_entropy(outputs[0], labels) + 0.3 * cross_entropy(outputs[1], labels)"
    assert written({"name": "cross_entropy", "weights": [1, 0.3]}) == text
