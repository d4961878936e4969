"""Residual networks (He et al. 2015, arXiv:1512.03385)."""

import torch.nn.functional as F
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside the shortcut of option A: every second pixel, new channels zero."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.new_channels = width - channels
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm_out = nn.BatchNorm2d(width)

    def shortcut(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            return x
        half = self.new_channels // 2
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, half))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm_out(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions; the 3x3 carries the stride, which is what "v1.5" means."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norm_out = nn.BatchNorm2d(4 * width)
        self.shortcut = nn.Sequential() if channels == 4 * width else projection(channels, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        y = self.norm_out(self.conv3(y))
        return F.relu(y + self.shortcut(x))


def projection(channels: int, out: int, stride: int) -> nn.Sequential:
    layers = nn.Sequential()
    layers.add_module("conv", nn.Conv2d(channels, out, 1, stride=stride, bias=False))
    layers.add_module("norm", nn.BatchNorm2d(out))
    return layers


def basic_stage(channels: int, width: int, stride: int, blocks: int) -> nn.Sequential:
    rest = [BasicBlock(width, width, 1) for _ in range(blocks - 1)]
    return nn.Sequential(BasicBlock(channels, width, stride), *rest)


def bottleneck_stage(channels: int, width: int, stride: int, blocks: int) -> nn.Sequential:
    rest = [Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)]
    return nn.Sequential(Bottleneck(channels, width, stride), *rest)


class ResNet56(nn.Module):
    """ResNet-56 for CIFAR-10 (section 4.2 of the paper): three stages of nine basic blocks, no convolution has a bias.

    Shi et al. 2016 (arXiv:1608.07249) trained five versions of it that were not the same; this one is the paper's.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(16)
        self.stage1 = basic_stage(16, 16, 1, 9)
        self.stage2 = basic_stage(16, 32, 2, 9)
        self.stage3 = basic_stage(32, 64, 2, 9)
        self.fc = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        x = self.stage3(self.stage2(self.stage1(x)))
        return self.fc(x.mean((2, 3)))


class ResNet50(nn.Module):
    """ResNet-50 v1.5 for ImageNet: stages of 3, 4, 6 and 3 bottlenecks.

    Studies 1 to 4 all time it; their frameworks disagreed on the place of the stride, and v1.5 is today's reading.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.norm1 = nn.BatchNorm2d(64)
        self.stage1 = bottleneck_stage(64, 64, 1, 3)
        self.stage2 = bottleneck_stage(256, 128, 2, 4)
        self.stage3 = bottleneck_stage(512, 256, 2, 6)
        self.stage4 = bottleneck_stage(1024, 512, 2, 3)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = self.stage4(self.stage3(self.stage2(self.stage1(x))))
        return self.fc(x.mean((2, 3)))
