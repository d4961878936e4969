"""Handwritten digits of 8 x 8 pixels from the UCI repository (Alpaydin and Kaynak 1998), which scikit-learn ships.

They are enlarged three times and framed by two pixels of background, so that networks for MNIST take them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xbench.data import BadData, DataSet, _fit

TEST = 360  # a fifth
MEAN, STD = 3.5884, 5.5899  # of the framed images; pixels go from 0 to 16


def read(info: Mapping[str, Any], folder: Path | None) -> DataSet:
    """1,437 images to train with and 360 to test with, cut once and for all.

    Raises:
        BadData: the network takes something else, or scikit-learn is missing.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadData("--data digits needs scikit-learn: pip install scikit-learn") from None
    images, labels = load_digits(return_X_y=True)
    large = np.kron(images.reshape(-1, 8, 8).astype(np.uint8), np.ones((3, 3), np.uint8))
    framed = np.pad(large, ((0, 0), (2, 2), (2, 2)))[:, None]
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = ((framed[part], labels[part].astype(np.int64)) for part in (order[TEST:], order[:TEST]))
    return _fit.images("digits", info, train, test, (MEAN,), (STD,))
