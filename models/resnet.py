"""Residual networks (He et al. 2015, arXiv:1512.03385)."""

import functools
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn


class Subsample(nn.Module):
    """The shortcut of option A: every second pixel, new channels zero, half before and half after the old."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride, self.half = stride, (width - channels) // 2

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            return x
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.half, self.half))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, channels: int, width: int, stride: int, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.shortcut = shortcut or nn.Sequential()
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm_out = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm_out(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions; "v1.5" means that the 3x3 carries the stride, "v1" that the first 1x1 does."""

    def __init__(self, channels: int, width: int, stride: int, first: bool = False) -> None:
        super().__init__()
        strides = (stride, 1) if first else (1, stride)
        self.conv1 = nn.Conv2d(channels, width, 1, stride=strides[0], bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=strides[1], padding=1, bias=False)
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


def subsampled_stage(channels: int, width: int, stride: int, blocks: int) -> nn.Sequential:
    first = BasicBlock(channels, width, stride, Subsample(channels, width, stride))
    return nn.Sequential(first, *(BasicBlock(width, width, 1) for _ in range(blocks - 1)))


def basic_stage(channels: int, width: int, stride: int, blocks: int) -> nn.Sequential:
    shortcut = None if channels == width else projection(channels, width, stride)
    first = BasicBlock(channels, width, stride, shortcut)
    return nn.Sequential(first, *(BasicBlock(width, width, 1) for _ in range(blocks - 1)))


def bottleneck_stage(channels: int, width: int, stride: int, blocks: int, first: bool = False) -> nn.Sequential:
    rest = [Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)]
    return nn.Sequential(Bottleneck(channels, width, stride, first), *rest)


class ResNet56(nn.Module):
    """ResNet-56 for CIFAR-10 (section 4.2 of the paper): three stages of nine basic blocks, no convolution has a bias.

    Shi et al. 2016 (arXiv:1608.07249) trained five versions of it that were not the same; this one is the paper's.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(16)
        self.stage1 = subsampled_stage(16, 16, 1, 9)
        self.stage2 = subsampled_stage(16, 32, 2, 9)
        self.stage3 = subsampled_stage(32, 64, 2, 9)
        self.fc = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        x = self.stage3(self.stage2(self.stage1(x)))
        return self.fc(x.mean((2, 3)))


class ResNet(nn.Module):
    """A residual network for ImageNet: `stage` makes a stage of channels in, width, stride and number of blocks;
    `features` are the channels that come out of the last one. Without `classes` they are the output."""

    def __init__(
        self,
        blocks: tuple[int, int, int, int],
        stage: Callable[..., nn.Module] = bottleneck_stage,
        features: int = 2048,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        wide = features // 512
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.norm1 = nn.BatchNorm2d(64)
        self.stage1 = stage(64, 64, 1, blocks[0])
        self.stage2 = stage(64 * wide, 128, 2, blocks[1])
        self.stage3 = stage(128 * wide, 256, 2, blocks[2])
        self.stage4 = stage(256 * wide, 512, 2, blocks[3])
        self.fc = nn.Linear(features, classes) if classes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = self.stage4(self.stage3(self.stage2(self.stage1(x))))
        return self.fc(x.mean((2, 3)))


def resnet18() -> ResNet:
    return ResNet((2, 2, 2, 2), basic_stage, 512)


def resnet34() -> ResNet:
    return ResNet((3, 4, 6, 3), basic_stage, 512)


def resnet50() -> ResNet:
    """v1.5. Studies 1 to 4 all time it; their frameworks disagreed on the place of the stride, and v1.5 is the current
    reading. Study 1's MXNet had a third, with norms before the convolutions: 25,549,483 parameters."""
    return ResNet((3, 4, 6, 3))


def resnet50_v1() -> ResNet:
    """As in the paper and in study 1's Caffe: the stride is on the first 1x1 convolution of a stage."""
    return ResNet((3, 4, 6, 3), functools.partial(bottleneck_stage, first=True))


def resnet50_features() -> ResNet:
    """v1.5 up to the global pooling, as study 4 had it to extract features."""
    return ResNet((3, 4, 6, 3), classes=0)


def resnet101() -> ResNet:
    return ResNet((3, 4, 23, 3))


def resnet152() -> ResNet:
    return ResNet((3, 8, 36, 3))
