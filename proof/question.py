"""A question: a folder with a network, inputs, and what float64 makes of them. Answers of any other program
are judged by it (`judge.py`).

Its layout is that of ONNX's own tests (`model.onnx`, `test_data_set_0/input_0.pb`). `reference/` is for the judge.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

import numpy as np

from xbench.converters import files
from xbench.converters.printable import one_line, visible
from xbench.errors import XBenchError
from xbench.parity.arrays_file import read
from xbench.parity.verdict import ALLOWED, SHARES
from xbench.store.fits import misfit

FORMAT = 1  # of the folder
FACTS, MODEL, EVERY, TENSORS = "question.json", "model.onnx", "every_tensor.onnx", "tensors"
LONGEST = 1 << 26  # bytes of the facts: a graph may have many tensors
SETS = 2  # of inputs


class Tensor(TypedDict):
    """An input or output. `file` begins the name of its own files, `key` is its name in an `.npz`. The type is the
    graph's, and there is a shape for every set."""

    name: str
    key: str
    file: str
    dtype: str
    shapes: list[list[int]]


class Facts(TypedDict):
    """The content of `question.json`. `data` is what the inputs are, as in a cell; older questions lack it."""

    format: int
    xbench: str
    model: str
    digest: str
    precision: str
    data: NotRequired[str]
    batches: list[int]
    inputs: list[Tensor]
    outputs: list[Tensor]
    tensors: list[str]
    references: dict[str, str]


@dataclass(frozen=True)
class Question:
    """A question that was read from its folder."""

    folder: Path
    facts: Facts

    def reference(self, name: str) -> dict[str, np.ndarray]:
        """What float64 makes of a set, by its number, or of every tensor of the first, by `tensors`.

        Raises:
            XBenchError: it is missing or was changed.
        """
        path = reference_file(self.folder, name)
        try:
            with files.opened(path) as file:
                if digest(file.read()) != self.facts["references"].get(name):
                    raise XBenchError(f"{path} was changed since `xbench ask` wrote it: ask again")
            return self._sound(name, read(path))
        except XBenchError:
            raise
        except Exception as error:  # whatever the reader of a damaged archive raises
            raise XBenchError(f"{path} cannot be read ({one_line(error)}): ask again") from error

    def _sound(self, name: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays, if they are those of the facts.

        Raises:
            XBenchError: they are not.
        """
        for each in self.facts["outputs"] if name != TENSORS else ():
            own = f"output/{each['name']}"
            if f"floor/{own}" not in arrays or list(arrays[own].shape) != each["shapes"][int(name)]:
                raise XBenchError(f"{reference_file(self.folder, name)} is not what {FACTS} says: ask again")
        return arrays


def reference_file(folder: Path, name: str) -> Path:
    return folder / "reference" / f"{name}.npz"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def set_name(number: int) -> str:
    """The folder of a set of inputs, in a question and in answers."""
    return f"test_data_set_{number}"


def in_words(shape: Sequence[int]) -> str:
    """A shape, as people write it."""
    return " x ".join(map(str, shape)) or "one number"


def check_folder(folder: Path, option: str) -> None:
    """
    Raises:
        XBenchError: the folder cannot be written, or is not empty.
    """
    try:
        if folder.is_symlink() or folder.resolve() == Path.cwd():
            raise XBenchError(f"{option} {folder}: name a new folder")
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise XBenchError(f"{option} {folder}: it is no empty folder; name another")
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise XBenchError(f"{option} {folder}: {error.strerror}") from error


def read_question(folder: Path) -> Question:
    """
    Raises:
        XBenchError: it is no question, or was written by a newer xbench.
    """
    path = folder / FACTS
    try:
        with files.opened(path) as file:
            facts: Any = json.loads(file.read(LONGEST))
    except OSError as error:
        raise XBenchError(f"{folder} is no question: {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise XBenchError(f"{path} is damaged: {visible(error)}") from error
    if not isinstance(facts, dict) or not facts.keys() >= Facts.__required_keys__ or misfit(facts, Facts):
        raise XBenchError(f"{path} is damaged: {misfit(facts, Facts) or 'facts are missing'}")
    if facts["format"] != FORMAT:
        raise XBenchError(f"{path} has format {one_line(facts['format'], 20)}, this xbench reads {FORMAT}: ask again")
    if facts["precision"] not in {*ALLOWED, *SHARES}:
        raise XBenchError(f"{path} is damaged: there is no precision {one_line(facts['precision'], 20)}")
    tensors: list[Tensor] = [*facts["inputs"], *facts["outputs"]]
    complete = all(each.keys() >= Tensor.__annotations__.keys() and len(each["shapes"]) == SETS for each in tensors)
    if not facts["outputs"] or not complete or [type(batch) for batch in facts["batches"]] != [int] * SETS:
        raise XBenchError(f"{path} is damaged: facts are missing")
    if not all(
        type(axis) is int and 0 <= axis < 2**31 for each in tensors for shape in each["shapes"] for axis in shape
    ):
        raise XBenchError(f"{path} is damaged: a shape is none")
    return Question(folder, cast(Facts, facts))
