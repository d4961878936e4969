"""LeNet for MNIST."""

import torch.nn.functional as F
from torch import Tensor, nn


class LeNet(nn.Module):
    """LeNet with tanh after each pooling (Bahrampour et al. 2015, arXiv:1511.06435)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(800, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.conv1(x), 2).tanh()
        x = F.max_pool2d(self.conv2(x), 2).tanh()
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)
