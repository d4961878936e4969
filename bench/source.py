"""What the word for a model means: a network of the zoo, a file, or a factory, and how its inputs are shaped.

    resnet50                                      a network of the zoo
    model.onnx, model.onnx@sequence=128           an ONNX file; named axes and whole inputs are given sizes behind the @
    model.keras, saved_model/                     a TensorFlow model, read through tf2onnx
    package.module:factory@x:float32:batch,3,8,8  any PyTorch module: a callable that makes it, and its inputs

The options behind the @ are those of `--shape` and `--input`, so that one word says all that a record needs.
"""

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xbench import models
from xbench.bench import XBenchError

BATCH = "batch"
TYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")


@dataclass(frozen=True)
class Source:
    """A parsed word. `kind` is zoo, onnx, tensorflow or module; `place` a name, a path or module:factory.

    `shapes` maps names of axes to one size and names of inputs to all their sizes; `inputs` are those of a module.
    """

    word: str
    kind: str
    place: str
    shapes: dict[str, tuple[int | str, ...]]
    inputs: tuple[models.Input, ...]

    @property
    def stem(self) -> str:
        """A name for a folder."""
        return "".join(c if c.isalnum() or c in "._-" else "_" for c in Path(self.place.rstrip("/")).stem)


def parse(word: str) -> Source:
    """Reads the word.

    Raises:
        UnknownModel: neither a network of the zoo nor anything else.
        XBenchError: no such file, or an option that cannot be read.
    """
    place, at, rest = (word, "", "") if Path(word).exists() else word.rpartition("@")
    if not at:
        place, rest = word, ""
    kind = _kind(place)
    options = [option for option in rest.split(";") if option]
    shapes = dict(_shape(option) for option in options if "=" in option)
    inputs = tuple(_input(option) for option in options if "=" not in option)
    if inputs and kind != "module":
        raise XBenchError(f"{place}: --input is for module:factory; this model has inputs of its own, see --shape")
    if kind == "module" and not inputs:
        raise XBenchError(f"{place}: name its inputs in order, such as --input x:float32:batch,3,224,224")
    if shapes and kind in ("zoo", "module"):
        raise XBenchError(f"{place}: --shape is for files with dynamic axes")
    return Source(word, kind, place, shapes, inputs)


def _kind(place: str) -> str:
    if place in models.MODELS:
        return "zoo"
    path = Path(place)
    if path.suffix in (".keras", ".h5") or (path / "saved_model.pb").exists():
        found = "tensorflow"
    elif path.suffix == ".onnx" or path.exists() or ("/" in place and ":" not in place):
        found = "onnx"
    elif ":" in place:
        return "module"
    else:
        models.find(place)  # which raises, with the nearest name
        raise AssertionError
    if not path.exists():
        raise XBenchError(f"no such file: {place}")
    if path.is_dir() and found == "onnx":
        raise XBenchError(f"{place} is a folder, not an ONNX file, and no SavedModel: it has no saved_model.pb")
    return found


def _shape(option: str) -> tuple[str, tuple[int | str, ...]]:
    name, _, sizes = option.partition("=")
    return name, _sizes(sizes, f"--shape {option}")


def _sizes(text: str, option: str) -> tuple[int | str, ...]:
    sizes = [size.strip() for size in text.split(",")] if text.strip() else []
    if bad := [size for size in sizes if size != BATCH and not (size.isdecimal() and int(size) > 0)]:
        raise XBenchError(f"{option}: {bad[0]!r} is neither a positive number nor the word {BATCH}")
    return tuple(size if size == BATCH else int(size) for size in sizes)


def _input(option: str) -> models.Input:
    name, dtype, sizes, *more = [*option.split(":"), "", ""][: max(3, option.count(":") + 1)]
    if more or not name.isidentifier() or not dtype:
        raise XBenchError(f"--input {option}: write name:type:sizes, such as x:float32:batch,3,224,224")
    if dtype not in TYPES:
        near = difflib.get_close_matches(dtype, TYPES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the types are {', '.join(TYPES)}"
        raise XBenchError(f"--input {option}: unknown type {dtype!r}: {hint}")
    shape = _sizes(sizes, f"--input {option}")
    if not shape or shape[0] != BATCH or BATCH in shape[1:]:
        raise XBenchError(f"--input {option}: the first size, and no other, is the word {BATCH}")
    low, high = (0, 2) if np.dtype(dtype).kind in "iub" else (models.Input.low, models.Input.high)
    return models.Input(name, shape, dtype, low, high)


def with_options(word: str, shapes: list[str], inputs: list[str]) -> str:
    """The word with the options of `--shape` and `--input`; a network of the zoo has none to give."""
    options = [*inputs, *shapes]
    if not options or word in models.MODELS:
        return word
    return f"{word}{';' if '@' in word and not os.path.exists(word) else '@'}{';'.join(options)}"
