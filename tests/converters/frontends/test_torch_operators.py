"""Operators and losses of PyTorch that its exporter has no form for, or a wrong one: the exported network computes what
the module does, and ONNX Runtime its gradients."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.frontends import torch_shapes
from xbench.converters.source import parse
from xbench.errors import XBenchError
from xbench.runtimes import Options, load

X = np.random.default_rng(1).normal(size=(3, 4, 6)).astype(np.float32)
NUMBERS = np.arange(6.0)
SCATTER = "x.scatter_reduce(1, (x.argsort(1) + 1) // 2, h,"
BAGS = "F.embedding_bag(x[:, 0].argsort(), h[0].t()"
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
    "scatter_reduce": f"{SCATTER} 'sum') * x[:, :1]",
    "scatter_reduce, mean": f"{SCATTER} 'mean') * x[:, :1]",
    "scatter_reduce, mean of others": f"{SCATTER} 'mean', include_self=False) * x[:, :1]",
    "scatter_reduce, sum of others": f"{SCATTER} 'sum', include_self=False) * x[:, :1]",
    "scatter_reduce, largest": f"{SCATTER} 'amax') * x[:, :1]",
    "scatter_reduce, least of others": f"{SCATTER} 'amin', include_self=False) * x[:, :1]",
    "scatter_reduce of a part": "x.scatter_reduce(-1, x[:, :2, :3].argsort(-1), h[:, :2, :3], 'mean')",
    "take_along_dim": "torch.take_along_dim(h, x.argmax(-1, keepdim=True), -1) * x",
    "take_along_dim of a broadcast": "h.take_along_dim(x[:, :1].argsort(-1)[..., :2], 2) * x[..., :2]",
    "take_along_dim of all": "torch.take_along_dim(h, x.argsort(1)[0])",
    "length of a batch": "h[torch.arange(len(x)), x.mean(2).argmax(-1)] * torch.ones(len(h), 6) * len(h.shape)",
    "gaussian_nll_loss": "F.gaussian_nll_loss(h, x, F.softplus(h))",
    "cov": "torch.cov(h[0]).square() + torch.corrcoef(h[0]) * torch.cov(x[0, 0])",
    "hstack of vectors": "torch.hstack([h[0, 0], x[0, 0]]) ** 2",
    "vstack and dstack": "torch.dstack([torch.vstack([h[0, 0], x[0, 1]]), x[0, :2]]) ** 2",
    "diagonal": "torch.where(x > 1, torch.inf, h).diagonal(2, -1, 1).clamp(max=3) * x[:, 0, :2].sum()",
    "diagonal below": "h.diagonal(-1, 1, 2) * x[:, :3, 0]",
    "diagonal of a batch": "torch.diagonal(h[:, 0] @ x[:, 0].t()) ** 2",
    "diagonal of a batch, above": "(h[:, 0] @ x[:, 0].t()).diagonal(1) ** 2 + (h[:, 0] @ x[0, 0]).diag().diagonal(-1)",
    "sort of a batch": "h * x[:, 0, 0].sort(stable=True).indices[:, None, None]",
    "roll over the batch": "torch.roll(h, 1, 0) * x",
    "part of a batch": "h[x.shape[0] // 2 :] ** 2",
    "masked_select": "h.masked_select((x > 0)[..., :1]).square()",
    "sort, stable": "h * (x * 2).round().sort(stable=True, dim=-1, descending=True).indices",
    "rrelu in evaluation": "F.rrelu(h) * x",
    "einsum of a sum": "torch.einsum('bij->bj', h) ** 2 + torch.einsum('bij->ij', h)[:1] ** 2",
    "einsum of diagonals": "torch.einsum('bii,bij->bi', h[..., :4], x) ** 2",
    "einsum with an ellipsis": "torch.einsum('...ij,...kj->...ik', h, x) ** 2",
    "einsum of three": "torch.einsum('bij,j,bi->b', h, numbers, x[..., 0]) ** 2",
    "embedding_bag": f"{BAGS}) ** 2",
    "embedding_bag, sum": f"{BAGS}, mode='sum', per_sample_weights=h[:, 0]) ** 2",
    "embedding_bag, largest": f"{BAGS}, mode='max') ** 2",
    "embedding_bag, padded": f"{BAGS}, padding_idx=2) ** 2",
    "embedding_bag, one empty": "F.embedding_bag(x[0, 0].argsort(), h[0].t(), torch.tensor([0, 2, 2, 3])) ** 2",
    "embedding_bag with a last offset": "F.embedding_bag(x[0, 0].argsort(), h[0].t(), torch.tensor([0, 2, 2, 6]), "
    "mode='max', include_last_offset=True) ** 2",
    "conv_transpose, beyond its kernel": "F.conv_transpose1d(h, numbers.repeat(4, 2, 1)[..., :3], numbers[:2], "
    "stride=2, output_padding=1) ** 2",
    "conv_transpose of a kernel": "F.conv_transpose2d(x[:, :, None], h[0, :, :2, None, None].repeat(1, 1, 3, 2), "
    "stride=3, output_padding=2, padding=1) ** 2",
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
        value = eval(self.loss, {"torch": torch, "F": F, "h": self.linear(x), "x": x, "numbers": numbers, "len": len})
        return value.mean()


class Projected(nn.Module):
    """A recurrent network whose hidden state is projected, with its first state given or not."""

    def __init__(self, layers: int, both: bool, given: bool) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5, layers, proj_size=3, bidirectional=both, batch_first=True)
        count = layers * (2 if both else 1)
        sizes = {"h": 3, "c": 5} if given else {}
        self.first = nn.ParameterDict({name: torch.randn(count, 1, size) for name, size in sizes.items()})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = [self.first[name].expand(-1, x.shape[0], -1).contiguous() for name in ("h", "c") if self.first]
        y, (h, c) = self.lstm(x, tuple(states) or None)
        return y.square().mean() + h.mean() + c.square().mean()


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = self.linear(x).unsqueeze(1)
        whole = nn.functional.avg_pool2d(image, 2, divisor_override=3)
        padded = nn.functional.avg_pool2d(
            image, (3, 2), stride=2, padding=1, divisor_override=4, count_include_pad=False
        )
        deep = nn.functional.avg_pool3d(image.unsqueeze(1), (1, 2, 3), stride=(1, 2, 1), divisor_override=5)
        return whole.square().mean() + padded.square().mean() + deep.square().mean()


MODULES = {
    "projected": lambda: Projected(1, False, False),
    "projected, given": lambda: Projected(1, True, True),
    "projected, deep": lambda: Projected(2, True, False),
    "divisor_override": Pooled,
}


def module(name: str) -> nn.Module:
    return MODULES[name]()


def made(loss: str) -> Net:
    return Net(loss)


def exported(factory: str, folder) -> Artifact:
    build.export_module(parse(f"{__name__}:{factory}@x:float32:batch,4,6"), folder)
    return Artifact.read(folder)


def agrees(artifact: Artifact, network: nn.Module) -> None:
    """Loss and gradients on ONNX Runtime are those of the module in float64."""
    params = artifact.program().params
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.from_numpy(params[name]))
    network.double()(torch.from_numpy(X).double()).backward()
    ready = load("onnxruntime", artifact, Options(mode="gradient"))
    labels = np.zeros(len(X), np.float32)
    ready.prepare([X], labels, False)
    value, gradients = ready.fetch(ready.gradients(ready.put([X]), ready.put([labels])[0]))
    assert value == pytest.approx(network(torch.from_numpy(X).double()).item(), rel=1e-5, abs=1e-6)
    for name, parameter in network.named_parameters():
        right = parameter.grad.numpy()
        np.testing.assert_allclose(gradients[name], right, rtol=1e-4, atol=1e-5 * float(np.abs(right).max()) + 1e-7)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_the_exported_network_has_the_results_and_gradients_of_the_module(tmp_path, loss):
    agrees(exported(f"made({loss!r})", tmp_path), made(loss))


@pytest.mark.parametrize("name", MODULES)
def test_an_exported_layer_has_the_results_and_gradients_of_the_module(tmp_path, name):
    agrees(exported(f"module({name!r})", tmp_path), module(name))


def test_equal_values_have_the_places_that_pytorch_says():
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0]])
    assert x.cummax(-1).indices.tolist() == [[0, 1, 2, 2]]  # what `select_last_index` gives


def test_shapes_and_types_that_contradict_the_operators_are_corrected():
    text = """<ir_version: 10, opset_import: ["": 20]> g (float[batch, 3] x) => (float[batch, 3] y) {
        a = Exp(x) b = Greater(a, x) c = Cast <to = 1> (b) d = Relu(c) y = Add(c, d) }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    values = {value.name: value for node in model.graph for value in node.outputs}
    kept = ir.Shape(["batch", 3])
    values["a"].shape, values["b"].shape, values["b"].type = ir.Shape([]), kept, ir.TensorType(ir.DataType.FLOAT)
    values["c"].shape = ir.Shape(["batch", 4])
    torch_shapes.correct(model)
    assert [values[name].shape for name in "abc"] == [kept] * 3 and values["b"].shape is kept
    assert values["b"].dtype == ir.DataType.BOOL and values["d"].shape is None


def test_a_batch_that_becomes_a_constant_is_one_line(tmp_path):
    with pytest.raises(XBenchError, match="its graph is of a batch of 2 alone: an operation in forward"):
        exported("made('h * int(x.shape[0])')", tmp_path)


def test_an_operator_over_the_batch_is_one_line(tmp_path):
    with pytest.raises(XBenchError, match="along the axis of the batch that must know its length"):
        exported("made('h.median(0).values')", tmp_path)
