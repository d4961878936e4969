"""Trains a small LeNet on half of scikit-learn's handwritten digits, in seconds, and writes

digits.onnx     the network
digits.npz      the other half: 899 images of 8 x 8, `image` from 0 to 1, and their `label`
inverted.npz    the same with black and white swapped, as a careless loader may give them

python digits.py [FOLDER]
"""

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


def main(folder: Path) -> None:
    net, (images, labels) = network(), samples()
    half = len(labels) // 2
    train(net, torch.tensor(images[:half] / 16), torch.tensor(labels[:half]))
    batch = {0: torch.export.Dim("batch")}
    program = torch.onnx.export(
        net.eval(), (torch.zeros(2, 1, 8, 8),), input_names=["image"], output_names=["score"], dynamic_shapes=[batch],
        verbose=False,
    )  # fmt: skip
    assert program is not None
    program.save(str(folder / "digits.onnx"))
    np.savez(folder / "digits.npz", image=images[half:] / 16, label=labels[half:])
    np.savez(folder / "inverted.npz", image=1 - images[half:] / 16, label=labels[half:])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
