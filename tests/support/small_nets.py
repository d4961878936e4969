"""Small networks of several kinds, as a user's modules: their proofs take a second."""

import torch
from torch import Tensor, nn


class Transformer(nn.Module):
    """One block of attention and of two linear layers, each with its norm, over 6 steps of 16 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down, self.head = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.out(mixed)
        x = x + self.down(nn.functional.gelu(self.up(self.norm2(x))))
        return self.head(x.mean(1))


class Decoder(nn.Module):
    """Causal attention with rotary positions and a gated layer, each after a root mean square, over 8 words of 40."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(40, 32), nn.Linear(32, 40, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(32), nn.RMSNorm(32)
        self.q, self.k, self.v, self.out = (nn.Linear(32, width, bias=False) for width in (32, 16, 16, 32))
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((32, 64), (32, 64), (64, 32)))
        self.register_buffer("angles", torch.tensor([1.0, 0.3, 0.1, 0.03]))

    def turned(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[2])[:, None] * torch.cat([self.angles, self.angles])
        first, second = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        normed = self.norm1(x)
        q, k, v = (layer(normed).unflatten(2, (-1, 8)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        k, v = (each.repeat_interleave(2, 1) for each in (self.turned(k), v))
        scores = self.turned(q) @ k.transpose(2, 3) / 8**0.5
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        x = x + self.out((scores.masked_fill(mask, -1e4).softmax(-1) @ v).transpose(1, 2).flatten(2))
        normed = self.norm2(x)
        return self.head(x + self.down(nn.functional.silu(self.gate(normed)) * self.up(normed)))


class Recurrent(nn.Module):
    """An embedding, a GRU and a layer of logits."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.gru, self.head = nn.Embedding(20, 8), nn.GRU(8, 12, batch_first=True), nn.Linear(12, 5)

    def forward(self, words: Tensor) -> Tensor:
        states, _ = self.gru(self.table(words))
        return self.head(torch.tanh(states[:, -1]))


class Dropping(nn.Module):
    """A convolution with its norm, and two layers, each after dropout, for images (3, 32, 32)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.fc1, self.fc2 = nn.Linear(8 * 8 * 8, 512), nn.Linear(512, 10)
        self.drop1, self.drop2 = nn.Dropout(0.25), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 4)
        return self.fc2(self.drop2(self.fc1(self.drop1(x.flatten(1))).relu()))


class InPlace(nn.Module):
    """Dropout that overwrites its input, and dropout of channels, for images (3, 8, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 6, 3), nn.Linear(6, 5)
        self.channels, self.drop = nn.Dropout2d(0.5), nn.Dropout(0.5, inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(self.channels(self.conv(x)).mean((2, 3))))


class DropPath(nn.Module):
    """Leaves out a branch of half of the samples, written as Hugging Face does."""

    def forward(self, x: Tensor) -> Tensor:
        return x / 0.5 * (0.5 + torch.rand(x.shape[0], 1)).floor() if self.training else x


class Frozen(nn.Module):
    """A table that is not trained, and a branch that may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.branch, self.path = nn.Embedding(20, 8), nn.Linear(8, 8), DropPath()
        self.table.weight.requires_grad_(False)
        self.head = nn.Linear(8, 5)

    def forward(self, words: Tensor) -> Tensor:
        x = self.table(words).mean(1)
        return self.head(x + self.path(self.branch(x)))


class Padded(nn.Module):
    """A table of five words, the one for padding among them, which is not zero and is not trained, and one of nine."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.other = nn.Embedding(5, 8, padding_idx=2), nn.Embedding(9, 8)
        self.head = nn.Linear(8, 5)
        with torch.no_grad():
            self.table.weight[2] = 0.5

    def forward(self, words: Tensor) -> Tensor:
        words = words.view(-1, words.shape[1])
        return self.head(torch.tanh(self.table(words) + self.other(words)).mean(1))


class Strided(nn.Module):
    """Reads its result through strides, which is a lookup in all numbers of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(torch.as_strided(x, (x.shape[0], 4), (8, 2)))


class Quantized(nn.Module):
    """A step whose gradient is that of the line through it, two teachers that learn nothing, and the batch's statistics
    in evaluation too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.teacher, self.other, self.last = (
            nn.Linear(n, m) for n, m in ((6, 8), (6, 8), (8, 8), (24, 5))
        )
        self.norm = nn.BatchNorm1d(2, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.first(x).unflatten(1, (2, 4))).flatten(1)
        stepped = y + (torch.round(y * 4) / 4 - y).detach()
        with torch.no_grad():
            other = torch.tanh(self.other(y))
        return self.last(torch.cat([stepped, self.teacher(x).detach(), other], 1))


class Attentive(nn.Module):
    """Weighs channels by their largest element, and takes the largest of windows that differ in length."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.weigh, self.last = nn.Conv2d(3, 4, 3), nn.Linear(4, 4), nn.Linear(4 * 3 * 4, 5)
        self.whole, self.windows = nn.AdaptiveMaxPool2d(1), nn.AdaptiveMaxPool2d((3, 4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        weights = torch.sigmoid(self.weigh(self.whole(y).flatten(1)))
        return self.last(self.windows(y * weights[:, :, None, None]).flatten(1))


class Disguised(nn.Module):
    """Computes something else while it is exported: in a branch of its own, or in its gradient alone."""

    def __init__(self, gradient: bool) -> None:
        super().__init__()
        self.gradient, self.first, self.last = gradient, nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        if not torch.compiler.is_exporting():
            y = y + 0.01 * (y - y.detach()) if self.gradient else y * 1.01
        return self.last(y)


class Normed(nn.Module):
    """A batch normalisation: what it computes of a sample depends on the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.norm(self.conv(x))).mean((2, 3)))


class Bare(nn.Module):
    """A BatchNorm without scale and shift: constants in the graph, and no parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def bare() -> nn.Module:
    return Bare()


def normed() -> nn.Module:
    return Normed()


def dropping() -> nn.Module:
    return Dropping()


def in_place() -> nn.Module:
    return InPlace()


def transformer() -> nn.Module:
    return Transformer()


def recurrent() -> nn.Module:
    return Recurrent()


def frozen() -> nn.Module:
    return Frozen()


def padded() -> nn.Module:
    return Padded()


def strided() -> nn.Module:
    return Strided()


def quantized() -> nn.Module:
    return Quantized()


def attentive() -> nn.Module:
    return Attentive()


def disguised() -> nn.Module:
    return Disguised(gradient=False)


def disguised_gradient() -> nn.Module:
    return Disguised(gradient=True)


def decoder() -> Decoder:
    return Decoder()
