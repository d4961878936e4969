"""Long short-term memory networks."""

from torch import Tensor, nn


class LSTMPTB(nn.Module):
    """Word model of the Penn Treebank: two LSTM layers of 256 (Shi et al. 2016, arXiv:1608.07249).

    Each gate has two biases, as in cuDNN and PyTorch; the study's TensorFlow had one, hence 2,048 parameters fewer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10_000, 256)
        self.lstm = nn.LSTM(256, 256, num_layers=2, batch_first=True)
        self.fc = nn.Linear(256, 10_000)

    def forward(self, x: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embedding(x))
        return self.fc(hidden)
