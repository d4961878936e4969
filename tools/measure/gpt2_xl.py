"""GPT-2 XL (1.56 billion parameters, 6.2 GB), and a quarter of it, with random weights, for `module:factory`."""

import torch

from xbench.models.gpt2 import GPT2


def make(layers: int = 48) -> GPT2:
    """GPT-2 XL; weights are drawn once, without PyTorch's prior initialisation."""
    with torch.device("meta"):
        module = GPT2(width=1600, heads=25, layers=layers)
    module.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.uniform_(-0.03, 0.03, generator=generator)
            if "norm" in name and name.endswith("weight"):
                p.add_(1)
    return module


def quarter() -> GPT2:
    """Twelve of its 48 layers: 450 million parameters, 1.8 GB."""
    return make(layers=12)
