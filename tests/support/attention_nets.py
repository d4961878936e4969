"""Ten small attention networks, each using masks, positions and token types like a known model."""

import torch
from torch import nn

WIDTH, HEADS, LENGTH, WORDS, PAD, END = 16, 2, 6, 40, 1, 39
LEAST = torch.finfo(torch.float32).min


class Layer(nn.Module):
    """Attention and a linear layer. `bias` is added to the scores; where `kept` is false the score is masked."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, bias=None, kept=None, memory=None):
        memory = x if memory is None else memory
        q, k, v = (
            f(a).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for f, a in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        scores = q @ k.transpose(-1, -2)
        scores = scores if bias is None else scores + bias
        scores = scores if kept is None else scores.masked_fill(~kept, -torch.inf)
        return self.norm(x + self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))


class Net(nn.Module):
    def __init__(self, words=WORDS, positions=LENGTH, types=0):
        super().__init__()
        for name, rows in {"words": words, "positions": positions, "types": types}.items():
            if rows:
                setattr(self, name, nn.Embedding(rows, WIDTH))
        self.one = Layer()


class Bert(Net):
    def __init__(self):
        super().__init__(types=2)
        self.two = Layer()

    def forward(self, ids, mask, types):
        x = self.words(ids) + self.positions(torch.arange(LENGTH)) + self.types(types)
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * LEAST
        return self.two(self.one(x, bias), bias)


class Gpt2(Net):
    """Positions are counted from the mask, as in texts padded on the left."""

    def __init__(self):
        super().__init__()
        self.two = Layer()

    def forward(self, ids, mask):
        places = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)
        x = self.words(ids) + self.positions(places)
        kept = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        return self.two(self.one(x, bias, kept), bias, kept)


class T5(Net):
    def __init__(self):
        super().__init__(positions=0)
        self.relative = nn.Embedding(2 * LENGTH, HEADS)

    def forward(self, ids, mask):
        far = torch.arange(LENGTH)[None] - torch.arange(LENGTH)[:, None] + LENGTH
        bias = self.relative(far).permute(2, 0, 1)[None]
        bias = bias + (1.0 - mask[:, None, None, :].to(bias.dtype)) * LEAST
        return self.one(self.words(ids), bias)


class Vit(Net):
    """Patches; those in the mask become one learned token."""

    def __init__(self):
        super().__init__(words=0)
        self.patch, self.token = nn.Linear(8, WIDTH), nn.Parameter(torch.randn(1, 1, WIDTH))

    def forward(self, pixels, hidden):
        x = self.patch(pixels)
        share = hidden.unsqueeze(-1).type_as(x)
        return self.one(x * (1.0 - share) + self.token * share + self.positions(torch.arange(LENGTH)))


class Roberta(Net):
    """Positions are counted over the words that are not padding."""

    def __init__(self):
        super().__init__(positions=LENGTH + PAD + 1)

    def forward(self, ids, mask):
        real = ids.ne(PAD).int()
        places = (real.cumsum(1).type_as(real) * real).long() + PAD
        kept = mask[:, None, None, :].bool()
        return self.one(self.words(ids) + self.positions(places), kept=kept)


class DistilBert(Net):
    def forward(self, ids, mask):
        x = self.words(ids) + self.positions(torch.arange(LENGTH))
        return self.one(x, kept=~(mask == 0)[:, None, None, :])


class Albert(Net):
    """A mask of pairs, and embeddings that are projected."""

    def __init__(self):
        super().__init__(types=2)
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids, mask, types):
        x = self.project(self.words(ids) + self.positions(torch.arange(LENGTH)) + self.types(types))
        pairs = (mask[:, None, :] * mask[:, :, None])[:, None]
        return self.one(x, (1.0 - pairs.to(x.dtype)) * -10000.0)


class Bart(Net):
    """A decoder with a mask of its own reads an encoder with another."""

    def __init__(self):
        super().__init__()
        self.two, self.cross = Layer(), Layer()

    def forward(self, ids, mask, target_ids, target_mask):
        places = self.positions(torch.arange(LENGTH))
        memory = self.one(self.words(ids) + places, kept=mask[:, None, None, :] > 0)
        causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        x = self.two(self.words(target_ids) + places, kept=causal & target_mask[:, None, None, :].bool())
        return self.cross(x, (1.0 - mask[:, None, None, :].to(x.dtype)) * LEAST, memory=memory)


class ClipText(Net):
    """Returns the state at the end of the text."""

    def forward(self, ids, mask):
        kept = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril() & mask[:, None, None, :].bool()
        x = self.one(self.words(ids) + self.positions(torch.arange(LENGTH)), kept=kept)
        return x[torch.arange(len(x)), (ids == END).int().argmax(-1)]


class Electra(Net):
    """Positions and a mask that is true at padding, as inputs."""

    def __init__(self):
        super().__init__(types=2)

    def forward(self, ids, types, places, padding):
        x = self.words(ids) + self.types(types) + self.positions(places)
        return self.one(x, torch.zeros(len(x), 1, 1, LENGTH).masked_fill(padding[:, None, None, :], -torch.inf))


IDS = {"ids": "int64", "mask": "int64"}
# The inputs of each; the value of a mask that keeps everything; the tables whose rows are positions.
NETS = {
    Bert: (IDS | {"types": "int64"}, {"mask": 1}, ["positions"]),
    Gpt2: (IDS, {"mask": 1}, ["positions"]),
    T5: (IDS, {"mask": 1}, ["relative"]),
    Vit: ({"pixels": "float32", "hidden": "bool"}, {"hidden": 0}, ["positions"]),
    Roberta: (IDS, {"mask": 1}, ["positions"]),
    DistilBert: (IDS, {"mask": 1}, ["positions"]),
    Albert: (IDS | {"types": "int64"}, {"mask": 1}, ["positions"]),
    Bart: (IDS | {"target_ids": "int64", "target_mask": "int64"}, {"mask": 1, "target_mask": 1}, ["positions"]),
    ClipText: (IDS, {"mask": 1}, ["positions"]),
    Electra: ({"ids": "int64", "types": "int64", "places": "int64", "padding": "bool"}, {"padding": 0}, ["positions"]),
}
WORD = {
    net.__name__: f"attention_nets:{net.__name__}@"
    + ";".join(f"{name}:{dtype}:batch,{LENGTH}{',8' if dtype == 'float32' else ''}" for name, dtype in inputs.items())
    for net, (inputs, _, _) in NETS.items()
}
