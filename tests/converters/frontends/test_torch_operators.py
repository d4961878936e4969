"""Operators and losses of PyTorch that its exporter has no form for, or a wrong one: the exported network computes what
the module does, and ONNX Runtime its gradients."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.source import parse
from xbench.errors import XBenchError
from xbench.runtimes import Options, load

X = np.random.default_rng(1).normal(size=(3, 4, 6)).astype(np.float32)
NUMBERS = np.arange(6.0)
# Of h, a linear function of x, [batch, 4, 6]; each gives one number.
LOSSES = {
    "cross_entropy": "F.cross_entropy(h.mean(1), x.mean(1).argmax(-1), label_smoothing=0.1)",
    "cross_entropy of probabilities": "F.cross_entropy(h.mean(1), x.mean(1).softmax(-1))",
    "cross_entropy of each": "F.cross_entropy(h.mean(1), x.mean(1).argmax(-1), label_smoothing=0.1, reduction='none')",
    "cross_entropy of each, weighted": "F.cross_entropy(h.mean(1), x.mean(1).argmax(-1), numbers, reduction='none')",
    "cross_entropy, weighted": "F.cross_entropy(h.mean(1), x.mean(1).argmax(-1), numbers)",
    "cross_entropy, some ignored": "F.cross_entropy(h.mean(1), x.mean(1).argmax(-1) % 3, ignore_index=1)",
    "cross_entropy of pixels": "F.cross_entropy(h.transpose(1, 2), x.argmax(-1), reduction='none') * x[..., 0]",
    "nll_loss of each": "F.nll_loss(h.mean(1).log_softmax(-1), x.mean(1).argmax(-1), reduction='none') * x[:, 0, 0]",
    "contrastive": "F.cross_entropy(h.mean(1) @ x.mean(1).t(), torch.arange(x.shape[0]))",
    "cdist": "torch.cdist(h, x)",
    "cdist with itself": "torch.cdist(h, h) * torch.arange(4)",
    "cdist, p=1": "torch.cdist(h, x, p=1.0)",
    "cdist, p=3": "torch.cdist(h, x, p=3.0)",
    "cdist, p=inf": "torch.cdist(h, x, p=float('inf'))",
    "cumprod": "h.cumprod(1) * x",
    "cumprod with zeros": "(h * (x > 0)).cumprod(-1) * x",
    "cummax": "h.cummax(1).values * x",
    "cummin": "h.cummin(-1).values * x",
    "median": "h.median(-1).values * x[..., 0]",
    "median, kept": "h.median(1, keepdim=True).values * x",
    "median of all": "h[0].median()",
    "kthvalue": "h.kthvalue(2, -1).values * x[..., 0]",
    "fmax": "torch.fmax(h, torch.where(x > 1, torch.nan, x))",
    "fmin": "torch.fmin(h, x)",
    "hypot": "torch.hypot(h, x)",
    "copysign": "torch.copysign(h, x) * numbers",
    "searchsorted": "h * torch.searchsorted(torch.tensor([-0.5, 0.0, 0.5]), x)",
    "searchsorted, right": "h * torch.searchsorted(numbers, x.round(), right=True)",
    "searchsorted in rows": "h * torch.searchsorted(x.sort(-1).values, x)",
}


class Net(nn.Module):
    """A loss of a linear layer's result."""

    def __init__(self, loss: str) -> None:
        super().__init__()
        self.linear, self.loss = nn.Linear(6, 6), compile(loss, "loss", "eval")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers = torch.from_numpy(NUMBERS).to(x.dtype)
        value = eval(self.loss, {"torch": torch, "F": F, "h": self.linear(x), "x": x, "numbers": numbers})
        return value.mean()


def made(loss: str) -> Net:
    return Net(loss)


def exported(loss: str, folder) -> Artifact:
    build.export_module(parse(f"{__name__}:made({loss!r})@x:float32:batch,4,6"), folder)
    return Artifact.read(folder)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_the_exported_network_has_the_results_and_gradients_of_the_module(tmp_path, loss):
    artifact = exported(loss, tmp_path)
    network = Net(loss)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.from_numpy(artifact.program().params[name]))
    network.double()(torch.from_numpy(X).double()).backward()
    ready = load("onnxruntime", artifact, Options(mode="gradient"))
    labels = np.zeros(len(X), np.float32)
    ready.prepare([X], labels, False)
    value, gradients = ready.fetch(ready.gradients(ready.put([X]), ready.put([labels])[0]))
    assert value == pytest.approx(network(torch.from_numpy(X).double()).item(), rel=1e-5, abs=1e-6)
    for name, parameter in network.named_parameters():
        right = parameter.grad.numpy()
        np.testing.assert_allclose(gradients[name], right, rtol=1e-4, atol=1e-5 * float(np.abs(right).max()) + 1e-7)


def test_equal_values_have_the_places_that_pytorch_says():
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0]])
    assert x.cummax(-1).indices.tolist() == [[0, 1, 2, 2]]  # what `select_last_index` gives


def test_a_batch_that_becomes_a_constant_is_one_line(tmp_path):
    with pytest.raises(XBenchError, match="its graph is of a batch of 2 alone, an operation in forward"):
        exported("torch.take_along_dim(h, x.argmax(-1, keepdim=True), -1)", tmp_path)


def test_an_operator_over_the_batch_is_one_line(tmp_path):
    with pytest.raises(XBenchError, match="along the axis of the batch that must know its length"):
        exported("h.median(0).values", tmp_path)
