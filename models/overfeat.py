"""OverFeat (Sermanet et al. 2013, arXiv:1312.6229)."""

import torch.nn.functional as F
from torch import Tensor, nn

from xbench.models._weights import rectified


class OverFeatFast(nn.Module):
    """The fast model as soumith/convnet-benchmarks has it: the first two convolutions without padding, no dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = rectified(nn.Conv2d(3, 96, 11, stride=4))
        self.conv2 = rectified(nn.Conv2d(96, 256, 5))
        self.conv3 = rectified(nn.Conv2d(256, 512, 3, padding=1))
        self.conv4 = rectified(nn.Conv2d(512, 1024, 3, padding=1))
        self.conv5 = rectified(nn.Conv2d(1024, 1024, 3, padding=1))
        self.fc6 = rectified(nn.Linear(36_864, 3072))
        self.fc7 = rectified(nn.Linear(3072, 4096))
        self.fc8 = nn.Linear(4096, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.conv3(x))
        x = F.relu(self.conv4(x))
        x = F.max_pool2d(F.relu(self.conv5(x)), 2)
        x = F.relu(self.fc6(x.flatten(1)))
        x = F.relu(self.fc7(x))
        return self.fc8(x)
