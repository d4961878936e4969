"""A small network of a team's own: 24 hours of five readings of a weather station -> rain in the next hour, or none."""

import torch
from torch import nn


class Rain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.smooth = nn.Conv1d(5, 16, 3, padding=1)
        self.norm = nn.BatchNorm1d(16)
        self.hours = nn.GRU(16, 24, batch_first=True)
        self.last = nn.Linear(24, 2)

    def forward(self, readings: torch.Tensor) -> torch.Tensor:
        """Readings (batch, 5, 24) -> logits (batch, 2)."""
        smooth = torch.relu(self.norm(self.smooth(readings)))
        states, _ = self.hours(smooth.transpose(1, 2))
        return self.last(states[:, -1])


def export(network: nn.Module, path: str) -> None:
    """The network as the team's server runs it."""
    example, batch = torch.zeros(2, 5, 24), torch.export.Dim("batch")
    torch.onnx.export(network.eval(), (example,), path, dynamo=True, dynamic_shapes=({0: batch},), verbose=False)
