"""MNIST (LeCun, Cortes and Burges 1998) in its IDX files, plain or packed with gzip.

An IDX file is two zero bytes, the type (8: bytes) and the number of axes, the length of each as four bytes, the most
significant first, and the numbers (http://yann.lecun.com/exdb/mnist).
"""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xbench.data import BadData, DataSet, _fit
from xbench.data._files import content

MEAN, STD = 0.1307 * 255, 0.3081 * 255
BYTES = 8


def read(info: Mapping[str, Any], folder: Path | None) -> DataSet:
    assert folder is not None
    train, test = (_part(folder, stem) for stem in ("train", "t10k"))
    return _fit.images("mnist", info, train, test, (MEAN,), (STD,))


def _part(folder: Path, stem: str) -> tuple[np.ndarray, np.ndarray]:
    images, at = _idx(folder / f"{stem}-images-idx3-ubyte", 3)
    labels, labels_at = _idx(folder / f"{stem}-labels-idx1-ubyte", 1)
    if len(images) != len(labels):
        raise BadData(f"{at} has {len(images)} images, {labels_at} {len(labels)} labels")
    if images.shape[1:] != (28, 28):
        raise BadData(f"{at} has images of {images.shape[1]} x {images.shape[2]}, not of 28 x 28")
    return images[:, None], _fit.classes(labels, labels_at)


def _idx(path: Path, axes: int) -> tuple[np.ndarray, Path]:
    """The bytes of an IDX file in its shape, and the path that was read.

    Raises:
        BadData: it is missing, or is not such a file.
    """
    packed = path.with_name(f"{path.name}.gz")
    if not path.exists() and packed.exists():
        path = packed
    data, start = content(path), 4 * (1 + axes)
    if len(data) < start or data[:4] != bytes((0, 0, BYTES, axes)):
        first = data[:4].hex(" ") or "nothing"
        raise BadData(f"{path} is no IDX file of bytes with {axes} axes: it begins with {first}")
    shape = struct.unpack(f">{axes}I", data[4:start])
    if len(data) - start != math.prod(shape):
        claim = " x ".join(map(str, shape))
        raise BadData(f"{path} says it holds {claim} bytes, but {len(data) - start} follow")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape), path
