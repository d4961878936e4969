"""The zoo: reference networks, each defined once in PyTorch, and the table that lists them.

What is told of a network is in `_spec.py`, the table in `_table.py`. Both are plain data and import no framework, so
`xbench list models` is instant. Every other file of the folder holds one family of networks.
"""

import difflib
import functools
import importlib
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from xbench.models._drawing import UNBOUNDED, draw, drawn, narrowed, resolve
from xbench.models._spec import Input, Loss, ModelSpec, Optimizer, classes, image, plain, tokens
from xbench.models._table import MODELS

if TYPE_CHECKING:
    from torch import nn

__all__ = (
    "DEFAULT_SUITE",
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
    "image",
    "make",
    "narrowed",
    "plain",
    "resolve",
    "sample",
    "tokens",
)

# Small, yet between them: dense, convolution, pooling, dropout, normalisation, recurrence, depthwise.
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


def make(factory: str) -> "nn.Module":
    """Calls `module:callable`, with PyTorch's random numbers started anew; the present folder may hold the module.
    Stochastic depth stays in evaluation, where it does nothing: to an exporter it is arithmetic with random numbers. So
    do layers that the factory has set to evaluation in a network that is not.

    Raises:
        BadFactory: it cannot be imported or called, or what it makes is no `nn.Module`.
    """
    import torch

    place, _, name = factory.partition(":")
    if place.endswith(".py"):
        module = place.rpartition("/")[2].removesuffix(".py")
        raise BadFactory(f"{factory} names a file: write {module}:{name}, in the folder of the file")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        function: Any = functools.reduce(getattr, name.split("."), importlib.import_module(place))
        _called_without_arguments(factory, function)
        torch.manual_seed(0)
        network = function()
    except BadFactory:
        raise
    except Exception as error:  # whatever a user's module raises when it is imported or called
        raise BadFactory(f"{factory} raises {type(error).__name__}: {error}") from error
    network = getattr(network, "_orig_mod", network)  # what torch.compile has made of it
    if not isinstance(network, torch.nn.Module):
        raise BadFactory(f"{factory} makes a {type(network).__name__}, not a torch.nn.Module")
    if isinstance(network, torch.jit.ScriptModule):
        raise BadFactory(f"{factory} makes a TorchScript module: give the module that it was made from")
    if any(torch.nn.parameter.is_lazy(each) for each in (*network.parameters(), *network.buffers())):
        raise BadFactory(f"{factory} makes lazy layers: call the network once in the factory, which gives them a size")
    for layer in network.modules():
        frozen = network.training and not layer.training
        if frozen or any(word in type(layer).__name__ for word in RANDOM_DEPTH):
            layer.eval().train = lambda mode=True, layer=layer: layer  # type: ignore[method-assign, assignment]
    return network.train()


def _called_without_arguments(factory: str, function: Any) -> None:
    try:
        needed = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        inspect.signature(function).bind()
    except ValueError:  # it tells no signature
        return
    except TypeError as error:
        said = f"{factory} needs {', '.join(needed)}: a factory is called without arguments; write one that gives them"
        raise BadFactory(said) from error


RANDOM_DEPTH = ("DropPath", "StochasticDepth")  # what the layers are called in timm and in torchvision


class BadFactory(Exception):
    """A factory that makes no network; one line."""


def sample(spec: ModelSpec, batch: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draws one batch: the inputs by name, and the labels, zeros where there are none."""
    inputs = {each.name: draw(each, batch, seed) for each in spec.inputs}
    return inputs, np.zeros(batch, np.int64) if spec.labels is None else draw(spec.labels, batch, seed)
