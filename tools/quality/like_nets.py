"""Small networks, their quantised files, and one fault in each: what `xbench bisect --like` must name.

Networks: blocks of the zoo's in a small size, and stacks of random layers. Forms: QDQ with scales for each channel and
for each tensor, operators of integers, and dynamic. Faults: a range that is wrong, a channel that is far larger than
all others, a scale of weights that is wrong.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from torch import nn

from xbench.models.alexnet import AlexNetCifar
from xbench.models.densenet import DenseLayer
from xbench.models.googlenet import Inception
from xbench.models.lenet import LeNet
from xbench.models.mobilenet import InvertedResidual
from xbench.models.resnet import BasicBlock, Bottleneck
from xbench.models.vit import Block

IMAGE, WORDS, ROWS = (3, 16, 16), (10, 32), (24,)
Network = tuple[tuple[int, ...], Callable[[], nn.Module]]  # the shape of a sample, and what makes the module


class Mean(nn.Module):
    """Over the words."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


class Sum(nn.Module):
    """A module's output plus its input."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.part = nn.Sequential(*parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.part(x)


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.q(x) @ self.k(x).transpose(-1, -2) / self.width**0.5
        return x + self.out(scores.softmax(-1) @ self.v(x))


def conv(inputs: int, outputs: int, stride: int = 1, size: int = 3, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups)


def headed(width: int, *layers: nn.Module) -> nn.Sequential:
    """Layers, and a classifier of images."""
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 10))


def of_words(*layers: nn.Module, width: int = 32) -> nn.Sequential:
    """Layers, and a classifier of words."""
    return nn.Sequential(*layers, Mean(), nn.Linear(width, 10))


def feed(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))


def random_layers(seed: int) -> Network:
    """A stack of convolutions, of linear layers or of attention, of random widths."""
    draw = random.Random(seed)
    count, place = draw.randint(3, 5), 2 * draw.randint(1, 2)
    sizes = {0: [8, 12, 16, 24], 1: [32, 48, 64], 2: [48, 64]}[seed % 3]
    drawn = [draw.choice(sizes) for _ in range(count)]

    def images() -> nn.Module:
        layers = [each for a, b in itertools.pairwise([3, *drawn]) for each in (conv(a, b), nn.ReLU())]
        layers.insert(place, nn.MaxPool2d(2))
        return headed(drawn[-1], *layers)

    def rows() -> nn.Module:
        layers = [each for a, b in itertools.pairwise([24, *drawn]) for each in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*layers, nn.Linear(drawn[-1], 10))

    def words() -> nn.Module:
        blocks = [(nn.LayerNorm(32), Attention(32), Sum(feed(32, width))) for width in drawn[: count - 2]]
        return of_words(*itertools.chain(*blocks))

    return ((IMAGE, images), (ROWS, rows), (WORDS, words))[seed % 3]


# The zoo's blocks, cut small.
NETWORKS: dict[str, Network] = {
    "lenet": ((1, 28, 28), LeNet),
    "alexnet": ((3, 32, 32), AlexNetCifar),
    "resnet basic": (IMAGE, lambda: headed(16, conv(3, 16), nn.ReLU(), BasicBlock(16, 16, 1), BasicBlock(16, 16, 1))),
    "resnet bottleneck": (IMAGE, lambda: headed(64, conv(3, 16), nn.ReLU(), Bottleneck(16, 16, 1))),
    "resnet stride": (IMAGE, lambda: headed(32, conv(3, 16), nn.ReLU(), Bottleneck(16, 8, 2), Bottleneck(32, 8, 1))),
    "mobilenet": (IMAGE, lambda: headed(16, conv(3, 8), *(InvertedResidual(a, 16, 1, 4) for a in (8, 16, 16)))),
    "googlenet": (IMAGE, lambda: headed(40, conv(3, 16), nn.ReLU(), Inception(16, 8, 8, 16, 4, 8, 8))),
    "densenet": (IMAGE, lambda: headed(80, conv(3, 16), *(DenseLayer(16 + 32 * each) for each in range(2)))),
    "vit": (WORDS, lambda: of_words(Block(32, 4), Block(32, 4), nn.LayerNorm(32))),
    "vgg": (
        (3, 32, 32),
        lambda: headed(
            32,
            conv(3, 16),
            nn.ReLU(),
            conv(16, 16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            conv(16, 32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ),
    ),
    "autoencoder": (
        ROWS,
        lambda: nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 24)),
    ),
    **{f"random {seed}": random_layers(seed) for seed in range(12)},
}
STATIC: dict[str, dict[str, Any]] = {
    "channels": {"activation_type": QuantType.QInt8, "per_channel": True},
    "tensors": {"activation_type": QuantType.QUInt8},
    "operators": {"activation_type": QuantType.QUInt8, "quant_format": QuantFormat.QOperator},
}
FORMS = (*STATIC, "dynamic")


class Drawn(CalibrationDataReader):  # type: ignore[misc]
    """Standard normal samples, which `xbench bisect` does not draw: its are uniform."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.left = [np.random.default_rng(seed).standard_normal((8, *shape), np.float32) for seed in range(8)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return {"x": self.left.pop()} if self.left else None


def exported(network: str, path: Path, seed: int = 0) -> Path:
    """The network as a file of float32. Its numbers are random, in norms too: the exporter stores equal ones once."""
    shape, make = NETWORKS[network]
    torch.manual_seed(seed)
    module = make().eval()
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
        if isinstance(layer, nn.BatchNorm2d | nn.LayerNorm):
            nn.init.uniform_(layer.weight, 0.7, 1.3)
            nn.init.normal_(layer.bias, 0, 0.2)
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.running_mean, 0, 0.2)
            nn.init.uniform_(layer.running_var, 0.7, 1.3)
    names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}}
    torch.onnx.export(module, (torch.randn(2, *shape),), path, opset_version=17, dynamo=False, **names)
    return path


def quantised(network: str, form: str, plain: Path, path: Path, **more: Any) -> Path:
    """The file quantised by ONNX Runtime's own tools, with `more` of their settings."""
    if form == "dynamic":
        quantize_dynamic(plain, path)
    else:
        settings = {"weight_type": QuantType.QInt8, **STATIC[form], **more}
        quantize_static(plain, path, Drawn(NETWORKS[network][0]), **settings)
    return path


def arrays(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def store(model: onnx.ModelProto, name: str, array: np.ndarray) -> None:
    """Replaces an initializer."""
    (tensor,) = (each for each in model.graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(array, order="C").reshape(array.shape), name))
