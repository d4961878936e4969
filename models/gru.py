"""Gated recurrent units."""

from torch import Tensor, nn


class ImdbGRU(nn.Module):
    """Sentiment of film reviews (Karmanov et al. 2018, github.com/ilkarman/DeepLearningFrameworks).

    Each gate has two biases, as in cuDNN and PyTorch; the study's Keras had one, hence 300 parameters fewer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30_000, 125)
        self.gru = nn.GRU(125, 100, batch_first=True)
        self.fc = nn.Linear(100, 2)

    def forward(self, x: Tensor) -> Tensor:
        _, last = self.gru(self.embedding(x))
        return self.fc(last[0])
