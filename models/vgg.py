"""Small networks in the manner of VGG."""

import torch.nn.functional as F
from torch import Tensor, nn


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
