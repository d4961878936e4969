"""Real data: scikit-learn's handwritten digits, which its package ships."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xbench.bench import XBenchError

SETS = ("synthetic", "digits")


def digits(info: Mapping[str, Any], batch: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Images of shape (batch, 1, 28, 28), mean 0 and variance 1 over the set, and their labels 0 to 9.

    The 8 x 8 images are enlarged three times and framed by two pixels of background.

    Raises:
        XBenchError: the network takes something else, or scikit-learn is missing.
    """
    if info["classes"] != 10 or [item["shape"] for item in info["inputs"]] != [["batch", 1, 28, 28]]:
        raise XBenchError(f"--data digits needs a network of 1 x 28 x 28 images and 10 classes, not {info['name']}")
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise XBenchError("--data digits needs scikit-learn: pip install scikit-learn") from None
    images, labels = load_digits(return_X_y=True)
    chosen = np.random.default_rng(seed).permutation(len(images))
    chosen = np.resize(chosen, batch)
    large = np.kron(images.reshape(-1, 8, 8), np.ones((3, 3)))
    framed = np.pad(large, ((0, 0), (2, 2), (2, 2)))
    scaled = ((framed - framed.mean()) / framed.std()).astype(np.float32)
    return [scaled[chosen][:, None]], labels[chosen].astype(np.int64)
