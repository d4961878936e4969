"""Stacked auto-encoders for MNIST (Bahrampour et al. 2015, arXiv:1511.06435): three are trained one after the other,
each on the codes of the one before, then their encoders together as a classifier."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SMALL, LARGE = (400, 200, 100), (800, 1000, 2000)


class AutoEncoder(nn.Module):
    """A sigmoid encoder and decoder with one shared (tied) matrix, to reproduce the input.

    Caffe and Neon could not tie them: theirs had 628,384 parameters, this has 314,784.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.encode = nn.Linear(width, hidden)
        self.decode_bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.encode(x).sigmoid()
        return F.linear(hidden, self.encode.weight.t(), self.decode_bias).sigmoid()


class Stack(nn.Module):
    """The three encoders and a classifier, to be fine-tuned."""

    def __init__(self, hidden: tuple[int, int, int]) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.fc3 = nn.Linear(hidden[1], hidden[2])
        self.fc4 = nn.Linear(hidden[2], 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x).sigmoid()
        x = self.fc2(x).sigmoid()
        x = self.fc3(x).sigmoid()
        return self.fc4(x)


def _layers(hidden: tuple[int, int, int]) -> tuple[Callable[[], AutoEncoder], ...]:
    widths = (784, *hidden)
    return tuple(partial(AutoEncoder, n, m) for n, m in zip(widths, hidden, strict=False))


small_1, small_2, small_3 = _layers(SMALL)
large_1, large_2, large_3 = _layers(LARGE)
small, large = partial(Stack, SMALL), partial(Stack, LARGE)
