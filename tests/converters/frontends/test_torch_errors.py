"""Errors of PyTorch's exporter name the line and the layer of the user's code, and what to write instead."""

import pytest

from xbench.converters import build
from xbench.converters.source import parse
from xbench.errors import XBenchError

NETS = """
import torch
from torch import nn

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return self.linear(x).mode(-1).values  # 11

class Layered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), Inner()])

    def forward(self, x):
        return self.layers[1](self.layers[0](x))

class Branching(Inner):
    def forward(self, x):
        if x.sum() > 0:  # 23
            return self.linear(x)
        return self.linear(-x)

class Packing(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 5, batch_first=True)

    def forward(self, x):
        lengths = torch.full((x.shape[0],), 4)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)  # 34
        return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]

class Wrong(nn.Module):
    def forward(self, x):
        return nn.functional.interpolate(x, size={}) if torch.compiler.is_exporting() else x
"""
EXPECTED = {
    "Layered": "PyTorch's exporter has no form of mode: write it in other operations, at nets.py:11 in forward, "
    "layer layers.1",
    "Branching": "Could not guard on data-dependent expression: it branches on a value; write torch.where, or leave "
    "the check out of forward, at nets.py:23 in Branching.forward",
    "Packing": "packed sequences cannot be exported: give the padded sequence to the layer, at nets.py:3",
}


@pytest.mark.parametrize("net", EXPECTED)
def test_an_error_names_the_line_and_what_to_write(tmp_path, net):
    (tmp_path / "nets.py").write_text(NETS)
    with pytest.raises(XBenchError) as raised:
        build.export_module(parse(f"{tmp_path}/nets.py:{net}@x:float32:batch,4,6"), tmp_path / "out")
    assert f"nets.py:{net} cannot be exported: {EXPECTED[net]}" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_error_of_programming_names_the_line_of_pytorch(tmp_path):
    (tmp_path / "nets.py").write_text(NETS)
    with pytest.raises(XBenchError, match=r", at nets\.py:39 in Wrong\.forward, from torch/nn/functional\.py:\d+$"):
        build.export_module(parse(f"{tmp_path}/nets.py:Wrong@x:float32:batch,4,6"), tmp_path / "out")
