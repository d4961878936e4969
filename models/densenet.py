"""Densely connected networks (Huang et al. 2016, arXiv:1608.06993)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GROWTH, BLOCKS = 32, (6, 12, 24, 16)


class DenseLayer(nn.Module):
    """Norm, ReLU, 1x1, norm, ReLU, 3x3: 32 new channels after the input's."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, 4 * GROWTH, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * GROWTH)
        self.conv2 = nn.Conv2d(4 * GROWTH, GROWTH, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.relu(self.norm1(x)))
        y = self.conv2(F.relu(self.norm2(y)))
        return torch.cat([x, y], 1)


class Transition(nn.Module):
    """Half the channels and half the height and width."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels // 2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(self.conv(F.relu(self.norm(x))), 2)


class DenseNet121(nn.Module):
    """DenseNet-121 for ImageNet, as torchvision builds it; `classes` are its outputs."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(64)
        channels, self.blocks = 64, nn.Sequential()
        for number, count in enumerate(BLOCKS):
            for _ in range(count):
                self.blocks.append(DenseLayer(channels))
                channels += GROWTH
            if number < len(BLOCKS) - 1:
                self.blocks.append(Transition(channels))
                channels //= 2
        self.last = nn.BatchNorm2d(channels)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 3, stride=2, padding=1)
        x = F.relu(self.last(self.blocks(x)))
        return self.fc(x.mean((2, 3)))


def chest_x_ray() -> DenseNet121:
    """For the 14 findings of ChestX-ray14, any of which an image may show (CheXNet, Rajpurkar et al. 2017,
    arXiv:1711.05225), as in the Rosetta Stone (github.com/ilkarman/DeepLearningFrameworks)."""
    return DenseNet121(14)
