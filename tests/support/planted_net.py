"""A small network with BatchNormalization, as a user's module: its proofs take a second."""

from torch import Tensor, nn


class Net(nn.Module):
    """Two convolutions, each with its norm, and a layer of logits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16)
        self.fc = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(self.conv1(x)).relu()
        x = self.norm2(self.conv2(x)).relu()
        return self.fc(x.mean((2, 3)))


def make() -> nn.Module:
    """With statistics as after training: the initial ones make a norm the identity."""
    net = Net()
    for norm in (net.norm1, net.norm2):
        nn.init.uniform_(norm.running_mean, -0.5, 0.5)
        nn.init.uniform_(norm.running_var, 0.5, 2)
        nn.init.uniform_(norm.weight, 0.5, 2)
    return net
