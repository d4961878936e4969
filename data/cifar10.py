"""CIFAR-10 (Krizhevsky 2009) in its binary version: records of a label and 3 x 32 x 32 bytes, red, green, blue
(https://www.cs.toronto.edu/~kriz/cifar.html)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xbench.data import BadData, DataSet, _fit
from xbench.data._files import content

RECORD = 1 + 3 * 32 * 32
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
MEAN = tuple(255 * share for share in (0.4914, 0.4822, 0.4465))
STD = tuple(255 * share for share in (0.2470, 0.2435, 0.2616))


def read(info: Mapping[str, Any], folder: Path | None) -> DataSet:
    assert folder is not None
    train, test = (_part([folder / name for name in names]) for names in (TRAIN, ("test_batch.bin",)))
    return _fit.images("cifar10", info, train, test, MEAN, STD)


def _part(paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    images, labels = zip(*map(_records, paths), strict=True)
    return np.concatenate(images), np.concatenate(labels)


def _records(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of a file.

    Raises:
        BadData: it is missing, or is not such a file.
    """
    data = content(path)
    if not data or len(data) % RECORD:
        raise BadData(f"{path} has {len(data)} bytes, which are no records of {RECORD}")
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    return records[:, 1:].reshape(-1, 3, 32, 32), _fit.classes(records[:, 0], path)
