"""Multilayer perceptrons."""

import itertools

from torch import Tensor, nn


class FCN5(nn.Module):
    """FCN-5 on MNIST: three hidden sigmoid layers (Shi et al. 2016, arXiv:1608.07249, "FCN-R").

    The hidden widths are 2048, 4096, 1024, as in four of the study's five tools; CNTK's file had the first two swapped.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, 2048)
        self.fc2 = nn.Linear(2048, 4096)
        self.fc3 = nn.Linear(4096, 1024)
        self.fc4 = nn.Linear(1024, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x).sigmoid()
        x = self.fc2(x).sigmoid()
        x = self.fc3(x).sigmoid()
        return self.fc4(x)


class FCNS(nn.Module):
    """The synthetic network of Shi et al. 2016, "FCN-S": hidden sigmoid layers of 2048 between 26,752 numbers and
    26,752 classes. "FCN-5" has three of them, "FCN-8" six."""

    def __init__(self, hidden: int = 3) -> None:
        super().__init__()
        widths = [26_752, *[2048] * hidden]
        self.hidden = nn.ModuleList(nn.Linear(n, m) for n, m in itertools.pairwise(widths))
        self.fc = nn.Linear(2048, 26_752)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.hidden:
            x = layer(x).sigmoid()
        return self.fc(x)


def fcn8_s() -> FCNS:
    return FCNS(6)
