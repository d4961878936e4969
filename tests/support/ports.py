"""Networks as people have ported them: each has the name of one of the zoo and differs from it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xbench.models.alexnet import AlexNetCifar
from xbench.models.lenet import LeNet
from xbench.models.mlp import FCN5
from xbench.models.resnet import ResNet56


class MiswiredAlexNet(nn.Module):
    """Study 1's MXNet: conv5 and pool5 read relu3, fc8 reads pool5; four layers are dead."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 96, 11, 4, 1), nn.Conv2d(96, 256, 5, padding=1)
        self.conv3, self.conv4 = nn.Conv2d(256, 384, 3, padding=1), nn.Conv2d(384, 384, 3, padding=1)
        self.conv5 = nn.Conv2d(384, 256, 3, padding=1)
        self.fc6, self.fc7, self.fc8 = nn.Linear(9600, 64), nn.Linear(64, 64), nn.Linear(9600, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 3, 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 3, 2)
        relu3 = F.relu(self.conv3(x))
        F.relu(self.conv4(relu3))
        F.relu(self.conv5(relu3))
        pool5 = F.max_pool2d(relu3, 3, 2).flatten(1)
        F.relu(self.fc7(F.relu(self.fc6(pool5))))
        return self.fc8(pool5)


class ExecutedAlexNet(nn.Module):
    """The part of it that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 96, 11, 4, 1), nn.Conv2d(96, 256, 5, padding=1)
        self.conv3, self.fc8 = nn.Conv2d(256, 384, 3, padding=1), nn.Linear(9600, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 3, 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 3, 2)
        return self.fc8(F.max_pool2d(F.relu(self.conv3(x)), 3, 2).flatten(1))


class SameAlexNet(nn.Module):
    """Study 1's TensorFlow: every layer padded SAME."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 96, 11, 4), nn.Conv2d(96, 256, 5, padding=2)
        self.conv3, self.conv4 = nn.Conv2d(256, 384, 3, padding=1), nn.Conv2d(384, 384, 3, padding=1)
        self.conv5 = nn.Conv2d(384, 256, 3, padding=1)
        self.fc6, self.fc7, self.fc8 = nn.Linear(12_544, 4096), nn.Linear(4096, 4096), nn.Linear(4096, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = pooled_same(F.relu(self.conv1(F.pad(x, (3, 4, 3, 4)))))
        x = pooled_same(F.relu(self.conv2(x)))
        x = F.relu(self.conv4(F.relu(self.conv3(x))))
        x = pooled_same(F.relu(self.conv5(x))).flatten(1)
        return self.fc8(F.relu(self.fc7(F.relu(self.fc6(x)))))


def pooled_same(x: Tensor) -> Tensor:
    size = x.shape[-1]
    pad = max((-(-size // 2) - 1) * 2 + 3 - size, 0)
    return F.max_pool2d(F.pad(x, (pad // 2, pad - pad // 2) * 2, value=-1e30), 3, 2)


class SwappedFCN5(nn.Module):
    """Study 1's CNTK: the first two hidden layers swapped."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(784, 4096), nn.Linear(4096, 2048)
        self.fc3, self.fc4 = nn.Linear(2048, 1024), nn.Linear(1024, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc4(self.fc3(self.fc2(self.fc1(x).sigmoid()).sigmoid()).sigmoid())


class ReversedFCN5(nn.Module):
    """All shapes of the network, in another order: the last layer comes first."""

    def __init__(self) -> None:
        super().__init__()
        self.fc4, self.fc3 = nn.Linear(1024, 10), nn.Linear(4096, 1024)
        self.fc2, self.fc1 = nn.Linear(2048, 4096), nn.Linear(784, 2048)

    def forward(self, x: Tensor) -> Tensor:
        first = self.fc4(x.repeat(1, 2)[:, :1024].sigmoid())  # the last layer first
        x = self.fc3(self.fc2(self.fc1(x).sigmoid()).sigmoid())
        return first + x[:, :10]


class CeilAlexNet(AlexNetCifar):
    """Study 1's Caffe: pooling rounds up."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(1024, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x), 3, stride=2, ceil_mode=True))
        x = F.max_pool2d(F.relu(self.conv2(x)), 3, stride=2, ceil_mode=True)
        x = F.avg_pool2d(F.relu(self.conv3(x)), 3, stride=2, ceil_mode=True)
        return self.fc(x.flatten(1))


def after(network: Callable[[], nn.Module], last: nn.Module) -> nn.Module:
    return nn.Sequential(network(), last)


def relu_on_logits() -> nn.Module:
    return after(AlexNetCifar, nn.ReLU())


def softmax_at_the_end() -> nn.Module:
    return after(LeNet, nn.Softmax(-1))


def log_softmax_at_the_end() -> nn.Module:
    return after(LeNet, nn.LogSoftmax(-1))


class Transposed(LeNet):
    """Images transposed from NHWC with (0, 3, 2, 1), not (0, 3, 1, 2)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(2, 3))


class Reversed(AlexNetCifar):
    """Images read by OpenCV: blue first."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flip(1))


class Faithful(nn.Module):
    """LeNet written by somebody else: other names, another order of definition, the same network."""

    def __init__(self) -> None:
        super().__init__()
        self.out, self.hidden = nn.Linear(500, 10), nn.Linear(800, 500)
        self.second, self.first = nn.Conv2d(20, 50, 5), nn.Conv2d(1, 20, 5)

    def forward(self, images: Tensor) -> Tensor:
        x = torch.tanh(nn.functional.max_pool2d(self.first(images), 2))
        x = torch.tanh(nn.functional.max_pool2d(self.second(x), 2))
        return self.out(torch.relu(self.hidden(x.reshape(x.shape[0], -1))))


class Branches(nn.Module):
    """Two branches of equal shapes side by side, and a sum with a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 5, 1)
        self.three, self.shortcut = nn.Conv2d(9, 6, 3, padding=1), nn.Conv2d(9, 6, 1)
        self.norm, self.fc = nn.BatchNorm2d(6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.one(x), self.two(x)], 1)
        x = self.norm(self.three(x)) + self.shortcut(x)
        return self.fc(F.relu(x).mean((2, 3)))


class BranchesTurned(Branches):
    """The same, with the other branch written first."""

    def forward(self, x: Tensor) -> Tensor:
        two = self.two(x)
        x = torch.cat([self.one(x), two], 1)
        shortcut = self.shortcut(x)
        return self.fc(F.relu(shortcut + self.norm(self.three(x))).mean((2, 3)))


class BranchesSwapped(Branches):
    """Another network: the order of the branches is swapped."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.two(x), self.one(x)], 1)
        x = self.norm(self.three(x)) + self.shortcut(x)
        return self.fc(F.relu(x).mean((2, 3)))


def biased(network: nn.Module) -> nn.Module:
    """Its convolutions with a bias."""
    for layer in [m for m in network.modules() if not isinstance(m, nn.Conv2d)]:
        for name, child in list(layer.named_children()):
            if isinstance(child, nn.Conv2d):
                sizes = child.in_channels, child.out_channels, child.kernel_size[0], child.stride, child.padding
                setattr(layer, name, nn.Conv2d(*sizes))
    return network


def torch_resnet56() -> nn.Module:
    return biased(ResNet56())


class MXNetResNet56(nn.Module):
    """With a norm on the images whose factor is fixed."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.network = nn.BatchNorm2d(3), torch_resnet56()
        self.norm.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.network(self.norm(x))


class ProjectedResNet56(ResNet56):
    """Shortcuts by 1x1 convolutions and norms: the counts of study 1's CNTK, whose projections were frozen."""

    def __init__(self) -> None:
        super().__init__()
        for stage, (channels, width) in ((self.stage2, (16, 32)), (self.stage3, (32, 64))):
            conv, norm = nn.Conv2d(channels, width, 1, 2, bias=False), nn.BatchNorm2d(width)
            conv.weight.requires_grad_(False)
            stage[0].shortcut = nn.Sequential(conv, norm)  # type: ignore[union-attr]


class CaffeResNet56(nn.Module):
    """Biases, BatchNorm without Scale, projections with a bias, and a pooling of 2x2 before 1024 numbers a sample."""

    def __init__(self) -> None:
        super().__init__()
        network = torch_resnet56()
        for stage, (channels, width) in ((network.stage2, (16, 32)), (network.stage3, (32, 64))):
            stage[0].shortcut = nn.Conv2d(channels, width, 1, 2)
        for layer in [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]:
            layer.weight.requires_grad_(False)
            layer.bias.requires_grad_(False)
        self.network, self.fc = network, nn.Linear(1024, 10)
        del network.fc

    def forward(self, x: Tensor) -> Tensor:
        network = self.network
        x = F.relu(network.norm1(network.conv1(x)))
        x = network.stage3(network.stage2(network.stage1(x)))
        return self.fc(F.avg_pool2d(x, 2).flatten(1))


class NoReluBehindSums(ResNet56):
    """Study 1's Torch and MXNet: no ReLU after the residual sums."""

    def __init__(self) -> None:
        super().__init__()
        for stage in (self.stage1, self.stage2, self.stage3):
            for block in stage:
                block.forward = unrectified.__get__(block)  # type: ignore[method-assign]


def unrectified(self, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
    y = F.relu(self.norm1(self.conv1(x)))
    return self.norm_out(self.conv2(y)) + self.shortcut(x)


class Mean(FCN5):
    """Inputs between 0 and 1 where -1.7 to 1.7 are meant."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x / 256)
