"""The fields of a network in the table, as plain data."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Input:
    """One array that goes into a network: values are drawn from [low, high), uniformly or as `quantiles` say.

    `shape` holds numbers and the symbol `"batch"`. `dtype` is numpy's name. For integers `high` is exclusive.
    `quantiles` are values at equal steps of probability, from the least to the largest.

    `within` is a second bound that grows with the batch: values stay below `within[0] * batch + within[1]`. `special`
    are values that the network compares the input with: each is put in some places. `mask` is not 0 if every value is
    0 or 1 and says what counts: 1 if a 1 keeps its place, -1 if a 0 does. `why` says in words how the range was
    chosen.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str = "float32"
    low: float = -1.7320508  # uniform with mean 0 and variance 1
    high: float = 1.7320508
    quantiles: tuple[float, ...] = ()
    within: tuple[int, int] | None = None
    special: tuple[float, ...] = ()
    mask: int = 0
    why: str = ""


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
class Loss:
    """The training loss: `cross_entropy` of logits, `mean_squared_error`, `binary_cross_entropy` of logits, or
    `own_loss`, an output that is a loss; the mean. The first outputs, one for each of `weights`, are compared with the
    labels, and the losses added."""

    name: str = "cross_entropy"
    weights: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class ModelSpec:
    """A reference network: where it is defined, what goes in, how it is trained, and the counts it must have.

    `factory` is `module:callable` and makes an `nn.Module`. `labels` is what its loss compares with: integers below the
    number of classes, or numbers; if it has an input's name and range, it is that input. A network without labels
    has no loss and is only run. `parameters` counts trainable scalars, each once even when tied; `macs` counts the
    forward multiply-accumulates of one sample (convolutions, matrix products, recurrent layers). `batch` is the default
    batch size.
    """

    name: str
    study: str
    factory: str
    inputs: tuple[Input, ...]
    labels: Input | None
    parameters: int
    macs: int
    batch: int
    optimizer: Optimizer = field(default_factory=Optimizer)
    loss: Loss | None = field(default_factory=Loss)


def image(*shape: int) -> tuple[Input, ...]:
    return (Input("x", ("batch", *shape)),)


def tokens(length: int, vocabulary: int) -> tuple[Input, ...]:
    return (Input("x", ("batch", length), "int64", 0, vocabulary),)


def classes(count: int, *shape: int) -> Input:
    """Labels, one per sample, or one per position."""
    return Input("labels", ("batch", *shape), "int64", 0, count)


def plain(each: Input) -> dict[str, Any]:
    """An input as JSON values."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(each).items()}
