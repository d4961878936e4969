"""A data set on its way to the workers: read once, without trust, and written as one `.npz` file."""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xbench import data
from xbench.data import DataSet, _synthetic
from xbench.errors import XBenchError
from xbench.parity import verdict


@contextlib.contextmanager
def _user_errors() -> Iterator[None]:
    """Turns a fault of a data set into a user's error."""
    try:
        yield
    except data.BadData as error:
        raise XBenchError(str(error)) from error


def parse(word: str) -> tuple[str, Path | None]:
    with _user_errors():
        return data.parse(word)


def load(word: str, info: Mapping[str, Any]) -> DataSet:
    with _user_errors():
        return data.load(word, info)


def draw(word: str, info: Mapping[str, Any], batch: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    with _user_errors():
        return data.draw(word, info, batch, seed)


def is_there(word: str) -> bool:
    """Whether the files of a data set exist."""
    try:
        data.parse(word)
    except data.BadData:
        return False
    return True


def synthetic(info: Mapping[str, Any], count: int) -> DataSet:
    with _user_errors():
        return _synthetic.make(info, count)


def write(given: DataSet, path: Path) -> str:
    """Writes the arrays, and returns a digest of them."""
    verdict.join(path, vars(given))
    total = hashlib.sha256()
    for name, array in vars(given).items():
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()[:16]


def read(path: Path) -> DataSet:
    return DataSet(**verdict.read(path))
