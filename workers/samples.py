"""A data set on its way to the workers: read once, without trust, and written as one `.npz` file."""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xbench import data
from xbench.case import OWN
from xbench.data import DataSet, _synthetic, own
from xbench.errors import XBenchError
from xbench.parity import verdict
from xbench.parity.candidate import inputs_of


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Turns a fault of a data set into a user's error."""
    try:
        yield
    except data.BadData as error:
        raise XBenchError(str(error)) from error


def parse(word: str) -> tuple[str, Path | None]:
    with user_errors():
        return data.parse(word)


def load(word: str, info: Mapping[str, Any]) -> DataSet:
    with user_errors():
        return data.load(word, info)


def draw(word: str, info: Mapping[str, Any], batch: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    with user_errors():
        return data.draw(word, info, batch, seed)


def is_there(word: str) -> bool:
    """Whether the files of a data set exist."""
    try:
        data.parse(word)
    except data.BadData:
        return False
    return True


def synthetic(info: Mapping[str, Any], count: int) -> DataSet:
    with user_errors():
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


# ***** samples that a user brings *****


@dataclass(frozen=True)
class Calibration:
    """A user's samples on which the ranges of activations are found: `files` are batches of them, `samples` is their
    number, `content` the digest of their inputs. They are among those of `word`."""

    word: str
    files: Sequence[str]
    samples: int
    content: str


@dataclass(frozen=True)
class OwnSamples:
    """A user's samples as files of a folder, `batches`, each an `.npz` with the inputs of some samples of the same
    shapes, `names`, and perhaps `labels`; `samples` is their number, `inputs` the digest of their inputs, `size` the
    samples of a batch. `batched` says of each input whether its first axis is the samples. `aside` are the batches that
    are set aside for calibration; `content` is the digest of all samples, the word of which is `word`. `calibration`
    are those in `aside`, or others; None if there are none."""

    word: str
    folder: Path
    batches: Sequence[str]
    aside: Sequence[str]
    samples: int
    content: str
    size: int
    batched: Sequence[bool]
    inputs: str = ""
    calibration: Calibration | None = None

    @property
    def data(self) -> str:
        """The field of a case that names them."""
        return f"{OWN}{self.word}#{self.content}"

    @property
    def name(self) -> str:
        """Their name in the name of a file."""
        return f"own{self.content}{'-aside' if self.aside else ''}"

    def paths(self, most: int | None = None) -> list[str]:
        """The files, or the first ones, which have at least as many samples as their number."""
        return [str(self.folder / name) for name in self.batches[:most]]


def batched(info: Mapping[str, Any]) -> list[bool]:
    """Of each input of a network, whether its first axis is the samples."""
    fixed = own.fixed_batch(info) is not None
    return [fixed or each["shape"][:1] == ["batch"] for each in info["inputs"]]


def rows_of(info: Mapping[str, Any], batched: Sequence[bool]) -> list[bool]:
    """Of each output of a network, whether its first axis is the samples; `batched` says so of its inputs. If it takes
    one sample at once that is an axis of one."""
    shapes = info.get("output_shapes") or [None] * len(info["outputs"])
    one = own.fixed_batch(info) == 1
    if any(batched) and not one:
        return [True] * len(shapes)
    return [one if shape is None or shape[:1] == [None] else shape[:1] == [1] for shape in shapes]


def kind(inputs: Sequence[np.ndarray], batched: Sequence[bool]) -> list[Any]:
    """What samples that may be in one batch have in common: their shapes, and the inputs that are one for all."""
    return [a.shape[1:] if of_sample else a.tobytes() for a, of_sample in zip(inputs, batched, strict=True)]


def drawn(
    paths: Sequence[str], info: Mapping[str, Any], batch: int, seed: int
) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Consecutive samples of a user's, with the shapes of the first, from another place with each seed; a smaller set
    is repeated. Labels are None if there are none."""
    if not any(batched := is_batched(paths[0])):  # one sample at once
        path = paths[seed % len(paths)]
        return inputs_of(given := verdict.read(Path(path))), given.get("labels")
    batch, files = own.fixed_batch(info) or batch, [verdict.read(Path(path)) for path in paths]
    inputs = [inputs_of(each) for each in files]
    alike = [n for n, given in enumerate(inputs) if kind(given, batched) == kind(inputs[0], batched)]
    count = sum(len(files[n]["names"]) for n in alike)
    chosen = np.arange(seed * batch, (seed + 1) * batch) % count
    arrays = [
        np.concatenate([inputs[n][place] for n in alike])[chosen] if of_sample else inputs[0][place]
        for place, of_sample in enumerate(batched)
    ]
    labels = np.concatenate([files[n]["labels"] for n in alike])[chosen] if "labels" in files[0] else None
    return arrays, labels


def is_batched(path: str) -> list[bool]:
    """Of each input in a file of samples, whether its first axis is the samples."""
    return [bool(each) for each in verdict.read(Path(path), "batched")["batched"]]
