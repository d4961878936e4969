"""Modules as users have them: results that are not a tuple, arguments of all kinds, parts without effect or with
another effect in training."""

import dataclasses
import types
from collections import namedtuple
from typing import Any

import torch
from torch import nn
from torch.distributions import Normal


class Layer(nn.Module):
    """A layer from 8 numbers to 4."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x)


# ***** results *****


class Dictionary(Layer):
    def forward(self, x):
        return {"logits": self.layer(x)}


class Nested(Layer):
    def forward(self, x):
        y = self.layer(x)
        return y, None, (y + 1, [y * 2]), 3, "words"


class Siamese(nn.Module):
    """A layer with running statistics that is called three times in a step."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6, momentum=0.3), nn.ReLU(), nn.Linear(6, 4))

    def forward(self, x, y):
        return self.encoder(x) - self.encoder(2 * y) + self.encoder(x + y)


@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    loss: Any = None
    hidden: Any = None


class Dataclass(Layer):
    def forward(self, x):
        y = self.layer(x)
        return Result(y, None, [y * 2, y + 1])


Pair = namedtuple("Pair", "first second")


class NamedTuple(Layer):
    def forward(self, x):
        y = self.layer(x)
        return Pair(y, {"relu": y.relu(), "best": y.argmax(-1)})


class Cache:
    """A cache of keys and values, as decoders return one; it contains itself, too."""

    def __init__(self, keys, values):
        self.keys, self.values, self.kind, self.itself, self.where = keys, values, torch.float32, self, open

    def __len__(self):
        return 2


class Cached(Layer):
    def forward(self, x):
        y = self.layer(x)
        return {"logits": y, "past": Cache(y + 1, [y * 2, Cache(y * 3, None)])}


class Distribution(Layer):
    def forward(self, x):
        return Normal(self.layer(x), 1.0 + self.layer(x).exp(), validate_args=False)


class Repeated(Layer):
    """Outputs that are returned twice, or are an input or a parameter."""

    def forward(self, x):
        y = self.layer(x)
        return y, x, y, self.layer.weight


class Colliding(Layer):
    """Names that collide with each other, an input's and a parameter's, and that need escaping in text."""

    def forward(self, x):
        y = self.layer(x)
        names = ("x", "layer.weight", "", "a\nb", "a.b", 1, "1", "x_output", '"]; import os', "\u202e", "é" * 300)
        return {name: y * (1 + number) for number, name in enumerate(names)} | {"a": {"b": y + 1}}


class NoTensor(Layer):
    def forward(self, x):
        return {"nothing": None, "size": 3}


class Function(Layer):
    def forward(self, x):
        return self.layer(x), open


# ***** arguments *****


class Optional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.kinds, self.head = nn.Embedding(50, 8), nn.Embedding(2, 8), nn.Linear(8, 3)

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        x = self.words(input_ids)
        x = x + (self.kinds.weight[0] if token_type_ids is None else self.kinds(token_type_ids))
        return self.head((x if attention_mask is None else x * attention_mask[..., None]).mean(1))


class KeywordOnly(Layer):
    def forward(self, *, x):
        return self.layer(x)


class Star(Layer):
    def forward(self, *args):
        return self.layer(args[0]) + self.layer(args[1])


class StarAndKeyword(Layer):
    def forward(self, x, *others, factor):
        return self.layer(x + sum(others)) * factor


class Keywords(Layer):
    def forward(self, x, **more):
        return self.layer(x) * more["scale"] + more.get("shift", 0)


class PositionalOnly(Layer):
    def forward(self, x, y=None, /, z=None):
        return self.layer(x) + (0 if y is None else y) + (0 if z is None else 2 * z)


class Settings(Layer):
    def forward(self, pixel_values, return_dict=True, scale=2.0):
        y = self.layer(pixel_values) * scale
        return {"y": y} if return_dict else (y,)


class NoBatch(Layer):
    """An input whose first axis is not the batch: the ends of the edges of a graph."""

    def forward(self, x, edges):
        return self.layer(x.index_add(0, edges[1], x[edges[0]]))


class Scalar(Layer):
    def forward(self, x, t):
        return self.layer(x * t)


# ***** parts that do nothing *****


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.decoder(x)


class Scale(Layer):
    """A parameter that is used, though not in what is returned."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        y = self.layer(x)
        y * self.scale.exp()
        return y


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.spare = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(3, 3)
        self.second.weight, self.also = self.first.weight, self.second

    def forward(self, x):
        return self.second(self.first(x).relu())


class TwoHeads(nn.Module):
    """The loss depends on the first output alone, so not on all parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(8, 4), nn.Linear(8, 3), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.first(x), self.norm(self.second(x))


# ***** training and evaluation *****


class Skipped(nn.Module):
    """A structure that is random in training."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        if self.training and torch.rand([]) < 0.1:
            return self.last(x)
        return self.last(torch.relu(self.first(x)))


def evaluated():
    return Skipped().eval()


class Auxiliary(Unused):
    """A second output in training only, as Inception's."""

    def forward(self, x):
        y = self.decoder(x)
        return (y, self.encoder(x)) if self.training else y


class Skipping(Layer):
    """A layer that is left out now and then, by a setting of its configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.config = types.SimpleNamespace(layerdrop=0.01, hidden_dropout=0.1)

    def forward(self, x):
        skipped = self.training and self.config.layerdrop > 0 and torch.rand([]) < self.config.layerdrop
        return x[:, :4] if skipped else self.layer(x)


class Labels(nn.Module):
    """Drops whole samples, as a generator of images drops their labels."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout_prob = 0.2

    def forward(self, x):
        if not self.training or not self.dropout_prob:
            return x
        return torch.where((torch.rand(len(x)) < self.dropout_prob)[:, None], 0, x)


class Labelled(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.labels = Labels()

    def forward(self, x):
        return self.layer(self.labels(x))


def kept():
    network = Labelled()
    network.labels.eval()
    return network


class Noisy(Layer):
    def forward(self, x):
        return self.layer(x + torch.randn_like(x) if self.training else x)


class OwnNorm(nn.Module):
    """BatchNormalization by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        y = self.layer(x)
        if self.training:
            self.mean.lerp_(y.detach().mean(0), 0.1)
            return y - y.mean(0)
        return y - self.mean


class Frozen(nn.Module):
    """One norm is left in evaluation, as in fine-tuning; the other is not, and one has no weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 5)
        self.frozen, self.bare, self.norm = nn.BatchNorm2d(4), nn.BatchNorm2d(4, affine=False), nn.BatchNorm2d(4)
        for layer in (self.frozen, self.bare):
            layer.running_mean.uniform_(-1, 1), layer.running_var.uniform_(0.5, 2), layer.eval()

    def forward(self, x):
        return self.head(self.norm(self.bare(self.frozen(self.conv(x)).relu()).relu()).mean((2, 3)))


class NoGradient(Layer):
    @torch.no_grad()
    def forward(self, x):
        return self.layer(x)


class Decided(Layer):
    """It cannot be traced at all."""

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else self.layer(-x)


class Selected(Layer):
    """A selection, whose size is known only at run time, and asked for, as graph networks ask for their edges."""

    def forward(self, x):
        y = self.layer(x)
        chosen = y[x[:, :4] > 0]
        return y if chosen.numel() == 0 else y - chosen.mean()


class Empty(Layer):
    """A selection that is always empty, which nobody who traces it can know."""

    def forward(self, x):
        y = self.layer(x)
        chosen = y[y > y.max() + 1]
        return y if chosen.numel() == 0 else y - 1


# ***** what a call changes *****


class Counting(Layer):
    calls = 0

    def forward(self, x):
        self.calls += 1
        self.last = self.layer(x)
        return self.last


class Remembering(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x):
        self.steps += 1
        return self.layer(x) + self.steps


class InPlace(Layer):
    def forward(self, x):
        x += 1
        return self.layer(x)


def half():
    return Layer().half()


def hooked():
    network = Dataclass()
    network.register_forward_hook(lambda module, given, result: result.logits * 2)
    network.register_forward_hook(lambda module, given, named, result: result + 1, with_kwargs=True)
    network.register_forward_pre_hook(lambda module, given: (given[0] * 3,))
    return network


# ***** not a module of layers *****


def lazy():
    return nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(4))


def scripted():
    return torch.jit.script(Layer())


def compiled():
    return torch.compile(Layer())


def parallel():
    return nn.DataParallel(Layer())


def traced_by_fx():
    return torch.fx.symbolic_trace(Layer())


def normed():
    return nn.utils.weight_norm(nn.Linear(8, 4))


def needs(width, depth=2):
    return nn.Linear(width, depth)


class Pixels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


# ***** gradients of their own, and rows without a place *****


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x**2


class Rounded(torch.autograd.Function):
    """Rounds to eighths, and hands the gradient through."""

    @staticmethod
    def forward(ctx, x):
        return (x * 8).round() / 8

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class OwnGradient(Layer):
    def forward(self, x):
        return Cube.apply(self.layer(x))


class OtherGradient(Layer):
    def forward(self, x):
        return Rounded.apply(self.layer(x))


class OwnLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.layer(x), labels)


class OneNumber(Layer):
    """One number a sample."""

    def forward(self, x):
        return self.layer(x).sum(-1)


class MaskedRows(nn.Module):
    """Attention of which one row keeps no place."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(8, 8), nn.Linear(8, 4)
        mask = torch.ones(6, 6, dtype=torch.bool).tril()
        mask[2] = False
        self.register_buffer("mask", mask)

    def forward(self, x):
        h = self.layer(x)
        return self.last(nn.functional.scaled_dot_product_attention(h, h, h, attn_mask=self.mask).mean(1))


class Taken(nn.Module):
    """Has names that a training step gives, too."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.loss = nn.Parameter(torch.ones(8)), nn.Linear(8, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, dropout, labels):
        return {"loss": self.loss(self.drop(dropout * self.step)) + labels[:, None], "new.loss.weight": labels}


class Ignoring(nn.Module):
    """Attention by positions alone, which are dropped out; it does not read its mask."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head, self.drop = nn.Embedding(12, 8), nn.Linear(8, 4), nn.Dropout(0.5)

    def forward(self, input_ids, attention_mask):
        positions = self.drop(torch.cos(torch.arange(8).to(self.head.weight.dtype)))
        return self.head((self.table(input_ids) + positions).mean(1))


class Subtracted(nn.Module):
    """Subtracts its mask, which is of integers, from a float."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(12, 8), nn.Linear(8, 4)

    def forward(self, input_ids, attention_mask):
        scores = self.table(input_ids) - 2.0 * (1.0 - attention_mask)[..., None]
        return self.head(scores.mean(1))


class AuxiliaryDecided(Decided):
    """Gives a second output in training, and cannot be traced in either form."""

    def forward(self, x):
        y = super().forward(x)
        return (y, y) if self.training else y


class Spectrum(nn.Module):
    """Mixes by Fourier transforms, as FNet does, and takes magnitudes of a spectrum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        mixed = torch.fft.fftn(self.first(x), dim=(1, 2)).real
        magnitudes = torch.fft.rfft(mixed, dim=1).abs()
        return self.head(magnitudes.mean(1))
