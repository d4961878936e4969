"""Long short-term memory networks."""

import torch
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


class ImdbLSTM(nn.Module):
    """Sentiment of film reviews of different lengths (Bahrampour et al. 2015, arXiv:1511.06435).

    Reviews are padded to 100 words; the LSTM's outputs after its end are masked out of the mean over its words.
    Each gate has two biases, as in cuDNN and PyTorch; the study's Theano had one, hence 512 parameters fewer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10_000, 128)
        self.lstm = nn.LSTM(128, 128, batch_first=True)
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(128, 2)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embedding(x))
        mask = (torch.arange(x.shape[1], device=x.device) < lengths[:, None]).to(hidden.dtype)[:, :, None]
        mean = (hidden * mask).sum(1) / mask.sum(1)
        return self.fc(self.dropout(mean))
