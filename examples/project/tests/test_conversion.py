"""Is what the server runs the network that was trained?"""

import pytest
import torch
from weather import Rain, export

from xbench.testing import assert_same_network

RUNTIMES = ["onnxruntime"]


@pytest.fixture
def network():
    """As trained: here with random weights and statistics."""
    torch.manual_seed(0)
    network = Rain()
    for _ in range(3):
        network(torch.randn(8, 5, 24))
    return network.eval()


@pytest.fixture
def readings():
    return torch.randn(4, 5, 24, generator=torch.Generator().manual_seed(1))


def test_the_network_is_the_same_on_the_runtime_we_serve_with(network, readings):
    assert_same_network(network, readings, runtimes=RUNTIMES)


def test_the_file_we_ship_is_the_network(network, readings, tmp_path):
    export(network, str(tmp_path / "rain.onnx"))
    assert_same_network(network, readings, runtimes=RUNTIMES, converted=tmp_path / "rain.onnx")
