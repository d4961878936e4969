"""The zoo: reference networks, each defined once in PyTorch, and the table that lists them.

This file is the contract (`Input`, `Optimizer`, `ModelSpec`) and the table (`MODELS`). It is plain data and imports no
framework, so `xbench list models` is instant. Every other file of the folder holds one family of networks.
"""

import difflib
import functools
import importlib
import os
import sys
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Input:
    """One array that goes into a network: values are drawn uniformly from [low, high).

    `shape` holds numbers and the symbol `"batch"`. `dtype` is numpy's name. For integers `high` is exclusive.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str = "float32"
    low: float = -1.7320508  # uniform with mean 0 and variance 1
    high: float = 1.7320508


@dataclass(frozen=True)
class Optimizer:
    """An update rule: `sgd` (Polyak momentum as PyTorch writes it), `adam` or `adamw`.

    `weight_decay` is coupled (added to the gradient) for sgd and adam, decoupled for adamw. `clip` bounds the global
    L2 norm of all gradients; 0 means no clipping. `schedule` holds factors of `lr`, step by step; the last one stays.
    """

    name: str = "sgd"
    lr: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    nesterov: bool = False
    schedule: tuple[float, ...] = ()


@dataclass(frozen=True)
class ModelSpec:
    """A reference network: where it is defined, what goes in, how it is trained, and the counts it must have.

    `factory` is `module:callable` and makes an `nn.Module`. Labels are integers in [0, classes) of shape `labels`; the
    loss is the mean cross entropy of the logits. `parameters` counts trainable scalars, each once even when tied;
    `macs` counts the forward multiply-accumulates of one sample (convolutions, matrix products, recurrent layers).
    `batch` is the batch size used when none is asked for.
    """

    name: str
    study: str
    factory: str
    inputs: tuple[Input, ...]
    classes: int
    parameters: int
    macs: int
    batch: int
    labels: tuple[int | str, ...] = ("batch",)
    optimizer: Optimizer = field(default_factory=Optimizer)


def image(*shape: int) -> tuple[Input, ...]:
    return (Input("x", ("batch", *shape)),)


def tokens(length: int, vocabulary: int) -> tuple[Input, ...]:
    return (Input("x", ("batch", length), "int64", 0, vocabulary),)


MODELS: dict[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        ModelSpec(
            name="lenet",
            study="study 5",
            factory="xbench.models.lenet:LeNet",
            inputs=image(1, 28, 28),
            classes=10,
            parameters=431_080,
            macs=2_293_000,
            batch=64,
            optimizer=Optimizer(lr=0.01, momentum=0.9),
        ),
        ModelSpec(
            name="fcn5_mnist",
            study="study 1",
            factory="xbench.models.mlp:FCN5",
            inputs=image(784),
            classes=10,
            parameters=14_205_962,
            macs=14_198_784,
            batch=64,
            optimizer=Optimizer(lr=0.05, momentum=0.9),
        ),
        ModelSpec(
            name="alexnet_cifar",
            study="study 1",
            factory="xbench.models.alexnet:AlexNetCifar",
            inputs=image(3, 32, 32),
            classes=10,
            parameters=85_098,
            macs=10_732_160,
            batch=64,
            optimizer=Optimizer(lr=0.01, momentum=0.9),
        ),
        ModelSpec(
            name="resnet56_cifar",
            study="study 1",
            factory="xbench.models.resnet:ResNet56",
            inputs=image(3, 32, 32),
            classes=10,
            parameters=853_018,
            macs=125_485_696,
            batch=8,
            optimizer=Optimizer(lr=0.01, momentum=0.9, weight_decay=1e-4),
        ),
        ModelSpec(
            name="lstm_ptb",
            study="study 1",
            factory="xbench.models.lstm:LSTMPTB",
            inputs=tokens(32, 10_000),
            classes=10_000,
            parameters=6_182_672,
            macs=115_474_432,
            batch=16,
            labels=("batch", 32),
            optimizer=Optimizer(lr=0.1, clip=5.0),
        ),
        ModelSpec(
            name="cifar_vgg",
            study="study 4",
            factory="xbench.models.vgg:CifarVGG",
            inputs=image(3, 32, 32),
            classes=10,
            parameters=3_441_592,
            macs=62_264_320,
            batch=16,
            optimizer=Optimizer(lr=0.01, momentum=0.9),
        ),
        ModelSpec(
            name="imdb_gru",
            study="study 4",
            factory="xbench.models.gru:ImdbGRU",
            inputs=tokens(150, 30_000),
            classes=2,
            parameters=3_818_302,
            macs=10_125_200,
            batch=16,
            optimizer=Optimizer("adam", lr=1e-3),
        ),
        ModelSpec(
            name="resnet50",
            study="study 2",
            factory="xbench.models.resnet:ResNet50",
            inputs=image(3, 224, 224),
            classes=1000,
            parameters=25_557_032,
            macs=4_089_184_256,
            batch=2,
            optimizer=Optimizer(lr=0.1, momentum=0.9, weight_decay=1e-4),
        ),
        ModelSpec(
            name="mobilenet_v2",
            study="modern",
            factory="xbench.models.mobilenet:MobileNetV2",
            inputs=image(3, 224, 224),
            classes=1000,
            parameters=3_504_872,
            macs=300_774_272,
            batch=2,
            optimizer=Optimizer(lr=0.001, momentum=0.9, weight_decay=4e-5),  # the paper's 0.045 is for batch 96
        ),
        ModelSpec(
            name="vit_s16",
            study="modern",
            factory="xbench.models.vit:ViTS16",
            inputs=image(3, 224, 224),
            classes=1000,
            parameters=22_050_664,
            macs=4_598_882_304,
            batch=1,
            optimizer=Optimizer("adamw", lr=5e-4, weight_decay=0.05),
        ),
        ModelSpec(
            name="gpt2",
            study="modern",
            factory="xbench.models.gpt2:GPT2",
            inputs=tokens(128, 50_257),
            classes=50_257,
            parameters=124_439_808,
            macs=16_114_089_984,
            batch=1,
            labels=("batch", 128),
            optimizer=Optimizer("adamw", lr=6e-4, weight_decay=0.1, beta2=0.95, clip=1.0),
        ),
    )
}

# Small, yet between them: dense, convolution, pooling, dropout, normalisation, recurrence, depthwise.
DEFAULT_SUITE = ("lenet", "resnet56_cifar", "cifar_vgg", "imdb_gru", "mobilenet_v2")


class UnknownModel(KeyError):
    """A name that is not in the table, with the nearest ones that are."""

    def __init__(self, name: str) -> None:
        near = difflib.get_close_matches(name, MODELS, n=2)
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
    Stochastic depth stays in evaluation, where it does nothing: to an exporter it is arithmetic with random numbers.

    Raises:
        BadFactory: it cannot be imported or called, or what it makes is no `nn.Module`.
    """
    import torch

    place, _, name = factory.partition(":")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        function: Any = functools.reduce(getattr, name.split("."), importlib.import_module(place))
        torch.manual_seed(0)
        network = function()
    except Exception as error:  # whatever a user's module raises when it is imported or called
        raise BadFactory(f"{factory} raises {type(error).__name__}: {error}") from error
    if not isinstance(network, torch.nn.Module):
        raise BadFactory(f"{factory} makes a {type(network).__name__}, not a torch.nn.Module")
    for layer in network.modules():
        if any(word in type(layer).__name__ for word in ("DropPath", "StochasticDepth")):  # timm's, torchvision's
            layer.eval().train = lambda mode=True, layer=layer: layer  # type: ignore[method-assign, assignment]
    return network.train()


class BadFactory(Exception):
    """A factory that makes no network; one line."""


def sample(spec: ModelSpec, batch: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draws one batch: the inputs by name, and the labels."""
    inputs = {
        each.name: draw(each.name, resolve(each.shape, batch), each.dtype, each.low, each.high, seed)
        for each in spec.inputs
    }
    return inputs, draw("labels", resolve(spec.labels, batch), "int64", 0, spec.classes, seed)


def resolve(shape: tuple[int | str, ...], batch: int) -> tuple[int, ...]:
    return tuple(batch if isinstance(size, str) else size for size in shape)


def draw(name: str, shape: tuple[int, ...], dtype: str, low: float, high: float, seed: int) -> np.ndarray:
    """Draws uniformly from [low, high), the same values on every machine.

    NumPy's uniform numbers are made by integer arithmetic and one multiplication, so they are exact everywhere. Its
    normal numbers call the C library, and PyTorch's depend on the vector instructions of the CPU.
    """
    random = np.random.default_rng([seed, zlib.crc32(name.encode())]).random
    if np.issubdtype(dtype, np.integer):
        return (low + np.floor(random(shape) * (high - low))).astype(dtype)
    return (random(shape, dtype=np.float32) * np.float32(high - low) + np.float32(low)).astype(dtype, copy=False)
