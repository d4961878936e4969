"""The zoo: reference networks, each defined once in PyTorch, and the table that lists them.

`_spec.py` defines the fields of a network, `_table.py` the table. Both are plain data and import no framework, so
`xbench list models` is instant. Every other file of the folder holds one family of networks.
"""

import difflib
from typing import TYPE_CHECKING

import numpy as np

from xbench.models._drawing import UNBOUNDED, draw, drawn, narrowed, resolve
from xbench.models._factory import BadFactory, function, make
from xbench.models._hub import LIBRARIES
from xbench.models._spec import Input, Loss, ModelSpec, Optimizer, classes, image, plain, tokens
from xbench.models._table import MODELS
from xbench.models._usual import usual_inputs

if TYPE_CHECKING:
    from torch import nn

__all__ = (
    "DEFAULT_SUITE",
    "LIBRARIES",
    "MODELS",
    "UNBOUNDED",
    "BadFactory",
    "Input",
    "Loss",
    "ModelSpec",
    "Optimizer",
    "UnknownModel",
    "build",
    "classes",
    "draw",
    "drawn",
    "find",
    "function",
    "image",
    "make",
    "narrowed",
    "plain",
    "resolve",
    "sample",
    "tokens",
    "usual_inputs",
)

# Small, and together they have: dense, convolution, pooling, dropout, normalisation, recurrence, depthwise.
DEFAULT_SUITE = ("lenet", "resnet56_cifar", "cifar_vgg", "imdb_gru", "mobilenet_v2")


class UnknownModel(KeyError):
    """A name that is not in the table, with the nearest ones that are."""

    def __init__(self, name: str) -> None:
        near = difflib.get_close_matches(name, MODELS, n=2, cutoff=0.75)
        hint = f"did you mean {' or '.join(near)}?" if near else f"the models are {', '.join(MODELS)}"
        super().__init__(f"unknown model {name!r}: {hint}")

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print it in quotes


def find(name: str) -> ModelSpec:
    if name not in MODELS:
        raise UnknownModel(name)
    return MODELS[name]


def build(spec: ModelSpec, seed: int = 0) -> "nn.Module":
    """Makes the network in training mode, with weights that depend on `seed` and the parameters' names alone."""
    from xbench.models._weights import fill

    network = make(spec.factory)
    fill(network, seed)
    return network.train()


def sample(spec: ModelSpec, batch: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draws one batch: the inputs by name, and the labels, zeros if there are none."""
    inputs = {each.name: draw(each, batch, seed) for each in spec.inputs}
    return inputs, np.zeros(batch, np.int64) if spec.labels is None else draw(spec.labels, batch, seed)
