"""Trains a small LeNet on half of scikit-learn's handwritten digits, in seconds, and writes

digits.onnx     the network
outlier.onnx    the same network, one of whose 16 channels is 300 times as large: in int8 it takes all levels
digits.npz      the other half: 899 images of 8 x 8, `image` from 0 to 1, and their `label`
inverted.npz    the same with black and white swapped, as a careless loader may give them

python digits.py [FOLDER]
"""

import copy
import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn


def network() -> nn.Sequential:
    torch.manual_seed(0)
    features = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU()]
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def samples() -> tuple[np.ndarray, np.ndarray]:
    """All images, float32 (1797, 1, 8, 8) from 0 to 16, and labels, int64, in a fixed random order."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return images[order].reshape(-1, 1, 8, 8).astype(np.float32), labels[order].astype(np.int64)


def train(net: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int = 8) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(epochs):
        for part in torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch)).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[part]), labels[part]).backward()
            optimizer.step()


def grown(net: nn.Sequential, channel: int, factor: float) -> nn.Sequential:
    """The same network with a larger channel between its two convolutions, the second of which makes up for it."""
    net = copy.deepcopy(net)
    first, second = net[0], net[3]
    assert isinstance(first, nn.Conv2d) and isinstance(second, nn.Conv2d) and first.bias is not None
    with torch.no_grad():
        first.weight[channel] *= factor
        first.bias[channel] *= factor
        second.weight[:, channel] /= factor
    return net


def write(net: nn.Module, path: Path) -> None:
    batch = {0: torch.export.Dim("batch")}
    program = torch.onnx.export(
        net.eval(), (torch.zeros(2, 1, 8, 8),), input_names=["image"], output_names=["score"], dynamic_shapes=[batch],
        verbose=False,
    )  # fmt: skip
    assert program is not None
    program.save(str(path))


def main(folder: Path) -> None:
    net, (images, labels) = network(), samples()
    half = len(labels) // 2
    train(net, torch.tensor(images[:half] / 16), torch.tensor(labels[:half]))
    write(net, folder / "digits.onnx")
    write(grown(net, 3, 300), folder / "outlier.onnx")
    np.savez(folder / "digits.npz", image=images[half:] / 16, label=labels[half:])
    np.savez(folder / "inverted.npz", image=1 - images[half:] / 16, label=labels[half:])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
