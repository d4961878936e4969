"""GoogLeNet (Szegedy et al. 2014, arXiv:1409.4842), the first Inception."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xbench.models._weights import rectified

# channels in; 1x1; 3x3 reduced, 3x3; 5x5 reduced, 5x5; after the pooling (table 1 of the paper)
BLOCKS = {
    "3a": (192, 64, 96, 128, 16, 32, 32),
    "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64),
    "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64),
    "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128),
    "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}


def conv(channels: int, out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(rectified(nn.Conv2d(channels, out, kernel, stride, kernel // 2)), nn.ReLU())


class Inception(nn.Module):
    """Four parallel branches, their channels concatenated."""

    def __init__(self, channels: int, one: int, to3: int, three: int, to5: int, five: int, pooled: int) -> None:
        super().__init__()
        self.one = conv(channels, one, 1)
        self.three = nn.Sequential(conv(channels, to3, 1), conv(to3, three, 3))
        self.five = nn.Sequential(conv(channels, to5, 1), conv(to5, five, 5))
        self.pooled = conv(channels, pooled, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.max_pool2d(x, 3, stride=1, padding=1)
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(pooled)], 1)


class Auxiliary(nn.Module):
    """An auxiliary classifier, for training."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = conv(channels, 128, 1)
        self.fc1 = nn.Linear(2048, 1024)  # not rectified: the dropout raises its output
        self.fc2 = nn.Linear(1024, 1000)
        self.dropout = nn.Dropout(0.7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(F.avg_pool2d(x, 5, stride=3))
        return self.fc2(self.dropout(F.relu(self.fc1(x.flatten(1)))))


class GoogLeNet(nn.Module):
    """Without response normalisation, as in soumith/convnet-benchmarks and study 2's MXNet; pooling rounds up.

    With `auxiliary`, the classifiers after 4a and 4d are outputs too and dropout is where the paper has it: Caffe's
    13,378,280 parameters instead of 6,998,552.
    """

    def __init__(self, auxiliary: bool = False) -> None:
        super().__init__()
        self.conv1 = conv(3, 64, 7, stride=2)
        self.conv2 = nn.Sequential(conv(64, 64, 1), conv(64, 192, 3))
        self.blocks = nn.ModuleDict({name: Inception(*sizes) for name, sizes in BLOCKS.items()})
        self.fc = nn.Linear(1024, 1000)
        self.dropout = nn.Dropout(0.4) if auxiliary else nn.Identity()
        self.heads = nn.ModuleDict({"4a": Auxiliary(512), "4d": Auxiliary(528)} if auxiliary else {})

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        x = F.max_pool2d(self.conv1(x), 3, stride=2, ceil_mode=True)
        x = F.max_pool2d(self.conv2(x), 3, stride=2, ceil_mode=True)
        auxiliary = []
        for name, block in self.blocks.items():
            x = block(x)
            if name in self.heads:
                auxiliary.append(self.heads[name](x))
            if name in ("3b", "4e"):
                x = F.max_pool2d(x, 3, stride=2, ceil_mode=True)
        logits = self.fc(self.dropout(x.mean((2, 3))))
        return (logits, *auxiliary) if auxiliary else logits


def with_auxiliary() -> GoogLeNet:
    return GoogLeNet(auxiliary=True)
