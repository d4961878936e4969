"""The weights a network of the zoo starts with: the same on every machine, which PyTorch's own are not."""

import math
from itertools import chain
from typing import TypeVar

import torch
from torch import nn

from xbench.models import Input, draw

Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)


def rectified(layer: Layer) -> Layer:
    """Marks a layer with a bias as followed by a ReLU: a deep network without norms would fade."""
    layer.gain = 1.4  # type: ignore[assignment] # not 2, as poolings raise their output
    return layer


def fill(network: nn.Module, seed: int) -> None:
    """Overwrites every parameter and every running statistic in place, so that tied parameters stay tied."""
    for prefix, module in network.named_modules():
        parameters = module.named_parameters(prefix, recurse=False)
        for name, tensor in chain(parameters, module.named_buffers(prefix, recurse=False)):
            if tensor.is_floating_point():
                shape = tuple(tensor.shape)
                low, high = bounds(module, name, shape)
                tensor.data.copy_(torch.from_numpy(draw(Input(name, shape, "float32", low, high), 0, seed)))


def bounds(module: nn.Module, name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """The range in which a parameter or statistic of `module` starts.

    None starts constant: an exporter may merge equal tensors, and two that are equal hide that they were swapped. The
    norm that ends a residual branch starts small, after Goyal et al. 2017 (arXiv:1706.02677), who start it at zero. A
    convolution without bias is followed by a norm and often a ReLU: the gain of 2 (He et al. 2015, arXiv:1502.01852)
    keeps the signal alive in evaluation, where the norm does not restore it. A smaller gain does so for a layer that
    `rectified` marks.
    """
    kind = type(module).__name__
    if name.endswith("running_mean"):
        return -0.1, 0.1
    if name.endswith("norm_out.weight"):
        return 0.15, 0.25
    if name.endswith("running_var") or ("Norm" in kind and name.endswith("weight")):
        return 0.75, 1.25
    if "bias" in name:
        return -0.05, 0.05
    if "weight" not in name:  # class token, positions
        return -0.035, 0.035
    gain = 2.0 if kind == "Conv2d" and module.bias is None else getattr(module, "gain", 1.0)
    bound = math.sqrt(3 * gain / math.prod(shape[1:]))
    return -bound, bound
