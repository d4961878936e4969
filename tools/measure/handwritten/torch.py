"""PyTorch: the zoo's own modules, which are hand-written networks, eager or under `torch.compile`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from handwritten import Arrays, Network
from xbench import models


class Torch(Network):
    def __init__(self, network: str, source: Arrays, compiled: bool) -> None:
        self.module = models.build(models.find(network))
        with torch.no_grad():
            for name, value in (*self.module.named_parameters(), *self.module.named_buffers()):
                if name in source:
                    value.copy_(torch.from_numpy(source[name]))
        for layer in self.module.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0
        self.names = [name for name, _ in self.module.named_parameters()]
        wrap = (lambda function: torch.compile(function, dynamic=False)) if compiled else (lambda function: function)
        self.call, self.loss = wrap(self.module), wrap(self._loss)

    def _loss(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.module(x)
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten())

    def put(self, inputs: Sequence[np.ndarray], labels: np.ndarray) -> tuple[tuple[Any, ...], Any]:
        return tuple(map(torch.from_numpy, inputs)), torch.from_numpy(labels)

    def forward(self, *inputs: Any) -> Any:
        if self.module.training:
            self.module.eval()
        with torch.inference_mode():
            return self.call(*inputs)

    def gradients(self, inputs: Sequence[Any], labels: Any) -> Any:
        if not self.module.training:
            self.module.train()
        self.module.zero_grad(set_to_none=True)
        loss = self.loss(*inputs, labels)
        loss.backward()
        return loss.detach(), [p.grad for p in self.module.parameters()]

    def pairs(self, result: Any, gradients: Arrays) -> list[tuple[str, np.ndarray, np.ndarray]]:
        return [(name, grad.numpy(), gradients[name]) for name, grad in zip(self.names, result[1], strict=True)]

    def parameters(self) -> int:
        return sum(p.numel() for p in self.module.parameters())
