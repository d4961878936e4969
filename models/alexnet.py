"""AlexNet (Krizhevsky et al. 2012) in the versions that the studies took for it, and its relative for CIFAR-10."""

import torch.nn.functional as F
from torch import Tensor, nn

from xbench.models._weights import rectified


class AlexNetCifar(nn.Module):
    """AlexNet-R of Shi et al. 2016 (arXiv:1608.07249): cuda-convnet's "layers-18pct" without response normalisation.

    Pooling rounds down. Caffe rounded up, which made its classifier 1024 wide instead of 576.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 32, 5, padding=2)
        self.conv3 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc = nn.Linear(576, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x), 3, stride=2))
        x = F.max_pool2d(F.relu(self.conv2(x)), 3, stride=2)
        x = F.avg_pool2d(F.relu(self.conv3(x)), 3, stride=2)
        return self.fc(x.flatten(1))


class AlexNet(nn.Module):
    """Five convolutions and three linear layers for ImageNet; the arguments are the differences of the versions.

    `widths` are the channels of the convolutions, `padding` is that of the first, `groups` those of the second, fourth
    and fifth. With `norm`, responses are normalised after the first two (LRN over 5 channels); `dropout` is the rate
    before the first two linear layers.
    """

    def __init__(
        self,
        widths: tuple[int, int, int, int, int],
        padding: int = 2,
        groups: int = 1,
        norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        a, b, c, d, e = widths
        self.conv1 = rectified(nn.Conv2d(3, a, 11, stride=4, padding=padding))
        self.conv2 = rectified(nn.Conv2d(a, b, 5, padding=2, groups=groups))
        self.conv3 = rectified(nn.Conv2d(b, c, 3, padding=1))
        self.conv4 = rectified(nn.Conv2d(c, d, 3, padding=1, groups=groups))
        self.conv5 = rectified(nn.Conv2d(d, e, 3, padding=1, groups=groups))
        self.fc6 = rectified(nn.Linear(e * 36, 4096))
        self.fc7 = rectified(nn.Linear(4096, 4096))
        self.fc8 = nn.Linear(4096, 1000)
        self.norm = nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.norm(F.relu(self.conv1(x))), 3, stride=2)
        x = F.max_pool2d(self.norm(F.relu(self.conv2(x))), 3, stride=2)
        x = F.relu(self.conv3(x))
        x = F.relu(self.conv4(x))
        x = F.max_pool2d(F.relu(self.conv5(x)), 3, stride=2)
        x = F.relu(self.fc6(self.dropout(x.flatten(1))))
        x = F.relu(self.fc7(self.dropout(x)))
        return self.fc8(x)


def s() -> AlexNet:
    """AlexNet-S of Shi et al. 2016: one tower without groups, response normalisation or dropout.

    The study's MXNet had wired conv5 and pool5 to relu3 and fc8 to pool5: four layers were dead, and 11,135,720
    parameters left. Its TensorFlow padded "SAME", which makes the last image 7x7 and the parameters 76,009,832.
    """
    return AlexNet((96, 256, 384, 384, 256))


def bvlc() -> AlexNet:
    """BVLC's: groups of 2, response normalisation before each pooling, dropout; of studies 2 (arXiv:1711.05979) and 5
    (arXiv:1511.06435), whose Torch had groups within two towers: 59,816,296 parameters."""
    return AlexNet((96, 256, 384, 384, 256), padding=0, groups=2, norm=True, dropout=0.5)


def owt() -> AlexNet:
    """Krizhevsky 2014 (arXiv:1404.5997, "one weird trick") as soumith/convnet-benchmarks has it, without dropout."""
    return AlexNet((64, 192, 384, 256, 256))
