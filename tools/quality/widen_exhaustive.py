"""Is the set that `xbench widen` finds the smallest? Compared with all 4,096 sets of a network of twelve nodes.

    python tools/quality/widen_exhaustive.py

A network of twelve nodes that ONNX Runtime computes in int8 is trained on half of scikit-learn's digits. Channels of it
are grown, by factors that the next layer undoes, so that int8 costs much. Every set of nodes in float32 is quantised by
ONNX Runtime's tool and answers the other half. For many bounds the search gets the same verdicts from this table, in at
most 30 trials. Takes half an hour.

Bounds below 1 % are left out: with 787 samples a loss of 0.49 % is not excluded even if no answer changes, and little
above it chance decides which sets are good.
"""

import copy
import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from sklearn.datasets import load_digits
from torch import nn

from xbench.experiments.widen.search import smallest
from xbench.runtimes.support import onnxruntime_narrow as narrow
from xbench.stats import paired

NODES, TRIALS, ASIDE = 12, 30, 8  # of 1 / ASIDE of the images come the ranges
DROPS = (0.01, 0.0125, 0.015, 0.0175, 0.02, 0.025, 0.03, 0.04)
NETWORKS = 4  # with other factors


class Network(nn.Module):
    """Six convolutions, two sums, pooling and four products: of these twelve are off in int8."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (1, *[16] * 6)
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(sizes))
        self.products = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise((256, 64, 48, 32, 10)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, third, fourth, fifth, sixth = self.convolutions
        x = torch.relu(second(torch.relu(first(x))))
        x = torch.relu(third(x)) + x
        y = torch.relu(fifth(torch.relu(fourth(x))))
        x = nn.functional.max_pool2d(torch.relu(sixth(y)) + x, 2).flatten(1)
        for each in self.products[:-1]:
            x = torch.relu(each(x))
        return torch.as_tensor(self.products[-1](x))


def trained(images: torch.Tensor, labels: torch.Tensor) -> Network:
    torch.manual_seed(0)
    net = Network()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(12):
        for part in torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch)).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[part]), labels[part]).backward()
            optimizer.step()
    return net.eval()


def grow(net: Network, rng: np.random.Generator) -> None:
    """Makes channels larger, and undoes that in the layer that alone reads them."""
    with torch.no_grad():
        for layer, reader in ((0, 1), (3, 4)):  # whose results go nowhere else
            channel, factor = int(rng.integers(16)), float(np.exp(rng.uniform(2, 6)))
            net.convolutions[layer].weight[channel] *= factor
            net.convolutions[layer].bias[channel] *= factor
            net.convolutions[reader].weight[:, channel] /= factor
        for layer in range(len(net.products) - 1):
            unit, factor = int(rng.integers(len(net.products[layer].bias))), float(np.exp(rng.uniform(1, 5)))
            net.products[layer].weight[unit] *= factor
            net.products[layer].bias[unit] *= factor
            net.products[layer + 1].weight[:, unit] /= factor


class Table:
    """What every set of nodes answers: right or wrong for each image."""

    def __init__(self, net: Network, images: np.ndarray, labels: np.ndarray, folder: str) -> None:
        path = str(Path(folder) / "network.onnx")
        batch = {0: torch.export.Dim("batch")}
        program = torch.onnx.export(net, (torch.zeros(2, 1, 8, 8),), dynamic_shapes=[batch], verbose=False)
        assert program is not None
        program.save(path)
        self.name = onnxruntime.InferenceSession(path).get_inputs()[0].name
        self.path, self.folder, self.aside = path, folder, [{self.name: images[::ASIDE]}]
        kept = np.arange(len(images)) % ASIDE != 0
        self.images, self.labels = images[kept], labels[kept]
        self.exact = self._answers(path)
        self._narrowed(())
        self.nodes = self._off()
        self.hits = {wide: self.outputs(wide).argmax(1) == self.labels for wide in self._sets()}

    def _sets(self) -> list[frozenset[str]]:
        sizes = range(len(self.nodes) + 1)
        return [frozenset(each) for size in sizes for each in itertools.combinations(self.nodes, size)]

    def _off(self) -> dict[str, float]:
        """How far the scores are off if one node alone is in int8; nodes that only move numbers are left out."""
        known = narrow.known(self.folder)
        exact = self.outputs(known)
        off = {name: np.linalg.norm(self.outputs([e for e in known if e != name]) - exact) for name in known}
        return {name: float(each / np.linalg.norm(exact)) for name, each in off.items() if each > 0}

    def _narrowed(self, wide: Collection[str]) -> str:
        return narrow.narrowed(self.path, "int8", self.aside[0], self.folder, self.aside, tuple(wide))

    def outputs(self, wide: Collection[str]) -> np.ndarray:
        return self._answers(self._narrowed(wide))

    def _answers(self, path: str) -> np.ndarray:
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        return np.asarray(onnxruntime.InferenceSession(path, settings).run(None, {self.name: self.images})[0])

    def is_good(self, wide: frozenset[str], drop: float) -> bool:
        found = paired.of_hits(self.hits[wide], self.exact.argmax(1) == self.labels)
        return paired.judged(found, drop) == "no worse"


def main() -> int:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images = images[order].reshape(-1, 1, 8, 8).astype(np.float32) / 16
    labels, half = labels[order].astype(np.int64), len(labels) // 2
    net, excess = trained(torch.tensor(images[:half]), torch.tensor(labels[:half])), Counter[int]()
    for number in range(NETWORKS):
        own = copy.deepcopy(net)
        grow(own, np.random.default_rng(number))
        with tempfile.TemporaryDirectory() as folder:
            table = Table(own, images[half:], labels[half:], folder)
        full, exact = table.hits[frozenset()].mean(), (table.exact.argmax(1) == table.labels).mean()
        print(f"network {number}: {len(table.nodes)} nodes, top1 {exact:.2%}, all in int8 {full:.2%}", flush=True)
        for drop in DROPS:
            found = smallest(table.nodes, lambda wide: table.is_good(wide, drop), TRIALS)  # noqa: B023
            best = min((len(wide) for wide in table.hits if table.is_good(wide, drop)), default=None)
            if best is None or found.nodes is None:
                print(f"  --max-drop {drop:.2%}: {'no set is good' if best is None else 'none found, one is good'}")
                excess[99] += best is not None
                continue
            excess[len(found.nodes) - best] += 1
            words = f"{len(found.nodes)} of {len(table.nodes)} nodes in {found.trials} trials, the fewest are {best}"
            print(f"  --max-drop {drop:.2%}: {words}", flush=True)
    print(f"nodes too many: {dict(sorted(excess.items()))}")
    return int(max(excess) > 1)


if __name__ == "__main__":
    sys.exit(main())
