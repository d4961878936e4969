"""Sweeps over sizes: a word with several sizes of an axis is one word for each.

model.onnx@seq=16,64           model.onnx@seq=16 and model.onnx@seq=64
model.onnx@seq=16;seq=64       the same
model.onnx@x=3,224;x=3,320     two shapes of an input
model.onnx@seq=16,64;h=8,9     four, every combination
"""

import csv
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from xbench.converters.files import opened
from xbench.converters.frontends.graph_inputs import input_names
from xbench.converters.source import LOSS, RULE, WEIGHTS, parted
from xbench.errors import XBenchError

MOST = 1000  # words of one
LARGEST = 64 << 20  # bytes of a file of shapes
WEIGHT = "weight"  # a column of the file of --shapes
Sizes = dict[str, int]


class Weighted(NamedTuple):
    """Sizes of axes, and their share of all calls."""

    sizes: Sizes
    share: float

    @property
    def options(self) -> list[str]:
        """As options of a word."""
        return [f"{name}={size}" for name, size in self.sizes.items()]


def swept(word: str) -> list[str]:
    """The words of a word, the first sizes first; itself if it has one size of everything.

    Raises:
        XBenchError: they are too many.
    """
    place, options = parted(word)
    named: dict[str, list[str]] = {}
    for option in filter(_is_shape, options):
        named.setdefault(_name(option), []).append(option)
    if all(len(each) == 1 and "," not in each[0] for each in named.values()):
        return [word]
    inputs = _inputs(place, options)
    choices = [list(dict.fromkeys(_each(name, given, inputs))) for name, given in named.items()]
    if (count := math.prod(map(len, choices))) > MOST:
        raise XBenchError(f"{place}: {count} shapes are too many: {MOST} at most")
    return [_with(place, options, dict(zip(named, chosen, strict=True))) for chosen in itertools.product(*choices)]


def _with(place: str, options: Iterable[str], chosen: Mapping[str, str]) -> str:
    """The word with one option of each name, where the first of that name was."""
    kept = dict.fromkeys(chosen[_name(each)] if _is_shape(each) else each for each in options)
    return f"{place}@{';'.join(kept)}"


def without_shapes(word: str) -> tuple[str, dict[str, str]]:
    """A word without the options of shapes, and these by the names of the axes and inputs. Looks at no file."""
    place, _, rest = word.rpartition("@")
    options = rest.split(";") if place else []
    shapes = dict(option.split("=", 1) for option in options if _is_shape(option))
    kept = ";".join(option for option in options if not _is_shape(option))
    return (f"{place}@{kept}" if kept else place) if shapes else word, shapes


def read_shapes(path: Path) -> list[Weighted]:
    """The shapes of a file, each once, with their shares of all.

    The file is CSV with a header of names of axes, and `weight` if the lines have weights; without it each line counts
    once, so that a log of requests will do.

    Raises:
        XBenchError: the file cannot be read, or a line holds anything else.
    """
    try:
        with opened(path) as file:
            lines = list(csv.reader(file.read(LARGEST).decode("utf-8-sig").splitlines(), skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise XBenchError(f"--shapes {path}: {getattr(error, 'strerror', None) or error}") from error
    header, *rest = [[*map(str.strip, line)] for line in lines if any(map(str.strip, line))] or [[]]
    if not all(map(str.isidentifier, header)) or not {*header} - {WEIGHT} or not rest:
        raise XBenchError(f"--shapes {path}: write a line of names, such as seq,weight, and under it a line a shape")
    if twice := next((name for name in header if header.count(name) > 1), None):
        raise XBenchError(f"--shapes {path}: it has the name {twice} twice")
    total: dict[tuple[tuple[str, int], ...], float] = {}
    for number, line in enumerate(rest, 1):
        sizes, weight = _line(header, line, f"--shapes {path}, shape {number}")
        total[tuple(sizes.items())] = total.get(tuple(sizes.items()), 0.0) + weight
    if len(total) > MOST:
        raise XBenchError(f"--shapes {path}: {len(total)} shapes are too many: {MOST} at most")
    return [Weighted(dict(sizes), weight / sum(total.values())) for sizes, weight in total.items()]


def _line(header: Sequence[str], line: Sequence[str], where: str) -> tuple[Sizes, float]:
    """The sizes and the weight of a line.

    Raises:
        XBenchError: it is not a positive number under each name.
    """
    if len(line) != len(header):
        raise XBenchError(f"{where}: {len(line)} numbers under {len(header)} names")
    values = dict(zip(header, line, strict=True))
    weight = values.pop(WEIGHT, "1")
    for name, size in values.items():
        if not (size.isdecimal() and 0 < int(size) < 2**63):
            raise XBenchError(f"{where}: {name} must be a positive whole number, not {size!r:.40}")
    try:
        share = float(weight)
    except ValueError:
        share = math.nan
    if not 0 < share < math.inf:
        raise XBenchError(f"{where}: {WEIGHT} must be a positive number, not {weight!r:.40}")
    return {name: int(size) for name, size in values.items()}, share


def _name(option: str) -> str:
    return option.partition("=")[0]


def _is_shape(option: str) -> bool:
    return "=" in option and ":" not in option and not option.startswith((RULE, WEIGHTS, LOSS))


def _each(name: str, given: Iterable[str], inputs: set[str]) -> Iterable[str]:
    """The options that each give one size, or one shape of an input."""
    for option in given:
        sizes = [size.strip() for size in option.partition("=")[2].split(",")]
        one = name in inputs or not all(size.isdecimal() for size in sizes)
        yield from [option] if one else [f"{name}={size}" for size in sizes]


def _inputs(place: str, options: Iterable[str]) -> set[str]:
    """The names that are known to be inputs, not axes: of a module's words, or of a file."""
    given = {option.partition(":")[0] for option in options if ":" in option and "=" not in option}
    return given or input_names(Path(place))
