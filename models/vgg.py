"""VGG (Simonyan and Zisserman 2014, arXiv:1409.1556), and a small network in its manner."""

import torch.nn.functional as F
from torch import Tensor, nn

from xbench.models._weights import rectified


class CifarVGG(nn.Module):
    """The CIFAR-10 network of the Rosetta Stone (Karmanov et al. 2018, github.com/ilkarman/DeepLearningFrameworks).

    The second ReLU of each pair follows the pooling: the result is the same and a quarter of the work.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 50, 3, padding=1)
        self.conv2 = nn.Conv2d(50, 50, 3, padding=1)
        self.conv3 = nn.Conv2d(50, 100, 3, padding=1)
        self.conv4 = nn.Conv2d(100, 100, 3, padding=1)
        self.fc1 = nn.Linear(6400, 512)
        self.fc2 = nn.Linear(512, 10)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.25)
        self.dropout3 = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv2(F.relu(self.conv1(x)))
        x = self.dropout1(F.relu(F.max_pool2d(x, 2)))
        x = self.conv4(F.relu(self.conv3(x)))
        x = self.dropout2(F.relu(F.max_pool2d(x, 2)))
        x = self.dropout3(F.relu(self.fc1(x.flatten(1))))
        return self.fc2(x)


class VGG(nn.Module):
    """Stages of 3x3 convolutions with a pooling after each; `counts` are the convolutions of the five stages.

    Without dropout, as soumith/convnet-benchmarks has it, whose networks study 3 timed.
    """

    def __init__(self, counts: tuple[int, int, int, int, int]) -> None:
        super().__init__()
        channels, self.stages = 3, nn.ModuleList()
        for width, count in zip((64, 128, 256, 512, 512), counts, strict=True):
            sizes = [channels, *[width] * count]
            layers = [rectified(nn.Conv2d(n, width, 3, padding=1)) for n in sizes[:-1]]
            self.stages.append(nn.ModuleList(layers))
            channels = width
        self.fc1 = rectified(nn.Linear(25_088, 4096))
        self.fc2 = rectified(nn.Linear(4096, 4096))
        self.fc3 = nn.Linear(4096, 1000)

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            for conv in stage:
                x = F.relu(conv(x))
            x = F.max_pool2d(x, 2)
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def vgg11() -> VGG:
    """Configuration A: the "Oxford VGG" of study 3, by its one surviving time and the arithmetic of its GPU."""
    return VGG((1, 1, 2, 2, 2))


def vgg16() -> VGG:
    """Configuration D."""
    return VGG((2, 2, 3, 3, 3))


def vgg19() -> VGG:
    """Configuration E."""
    return VGG((2, 2, 4, 4, 4))
