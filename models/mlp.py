"""Multilayer perceptrons."""

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
