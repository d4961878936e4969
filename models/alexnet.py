"""AlexNet's small relative for CIFAR-10."""

import torch.nn.functional as F
from torch import Tensor, nn


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
