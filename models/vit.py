"""Vision transformers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head self-attention of every position with every other."""

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
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(-1, length, width))


class Block(nn.Module):
    """One encoder layer, normalised before each branch."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViTS16(nn.Module):
    """ViT-S/16, the size DeiT-S introduced (Touvron et al. 2020, arXiv:2012.12877), without the distillation token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 384, 16, stride=16)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 384))
        self.positions = nn.Parameter(torch.zeros(1, 197, 384))
        self.blocks = nn.Sequential(*(Block(384, heads=6) for _ in range(12)))
        self.norm = nn.LayerNorm(384, eps=1e-6)
        self.head = nn.Linear(384, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), dim=1)
        x = self.norm(self.blocks(x + self.positions))
        return self.head(x[:, 0])
