"""GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners")."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CausalAttention(nn.Module):
    """Multi-head self-attention of every position with itself and those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        length, width = x.shape[1:]
        q, k, v = (
            part.view(-1, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(-1, length, width))


class Block(nn.Module):
    """One decoder layer, normalised before each branch."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-5)
        self.attention = CausalAttention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-5)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """GPT-2, small by default: 12 layers of width 768; one matrix for the embedding and the output.

    It has no dropout. Sequences shorter than 1024 use the first positions; the length is fixed when it is exported.
    """

    def __init__(self, width: int = 768, heads: int = 12, layers: int = 12) -> None:
        super().__init__()
        self.wte = nn.Embedding(50_257, width)
        self.wpe = nn.Parameter(torch.zeros(1024, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.wte(x) + self.wpe[: x.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.wte.weight)
