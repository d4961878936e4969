"""What a folder of samples holds: sets of ONNX tensors, images, or files of arrays and tables."""

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from xbench.data import BadData
from xbench.data.own import arrays, images, protos, tables
from xbench.data.own.opening import listed, shown
from xbench.data.own.slots import Asked, Piece

FILES = (*arrays.SUFFIXES, ".parquet")


def pieces(folder: Path, asked: Asked, label_file: Path | None) -> Iterator[Piece]:
    """The samples of a folder; `label_file` is a file that holds something else, as labels.

    Raises:
        BadData: it has nothing that can be read, or several kinds of it; a file is damaged, or does not fit.
    """
    names = [name for name in listed(folder) if label_file is None or not _same(folder / name, label_file)]
    inside = {name: listed(folder / name) for name in names if os.path.isdir(folder / name)}
    sets = [name for name, held in inside.items() if re.fullmatch(r"test_data_set_[0-9]+", name) and _tensors(held)]
    pictures = [name for name in names if _ends(name, images.SUFFIXES) and name not in inside]
    pictures += [f"{place}/{name}" for place, held in inside.items() for name in held if _ends(name, images.SUFFIXES)]
    files = [name for name in names if _ends(name, FILES) and name not in inside]
    own = _tensors(names)
    kinds = {"sets of ONNX tensors": len(sets) + own, "images": len(pictures), "files of arrays": len(files)}
    there = [f"{kind} ({count})" for kind, count in kinds.items() if count]
    if len(there) > 1:
        raise BadData(f"{shown(folder)} holds {' and '.join(there)}: samples are of one kind")
    if not there:
        raise BadData(f"{shown(folder)} holds no samples: images, test_data_set_0, or files {', '.join(FILES)}")
    if pictures:
        yield from images.pieces(folder, pictures, asked)
        return
    if asked.folders:
        raise BadData(f"--labels folders is for images, and {shown(folder)} holds {there[0]}")
    if asked.options and not any(_ends(name, (".parquet",)) for name in files):
        raise BadData(f"{shown(folder)} has no images, which {shown(asked.options)} is for")
    if sets or own:
        yield from protos.pieces([folder / name for name in sets] or [folder], asked)
    else:
        yield from _files(folder, files, asked)


def _files(folder: Path, names: Sequence[str], asked: Asked) -> Iterator[Piece]:
    for name in names:
        reader = tables if _ends(name, (".parquet",)) else arrays
        for piece in reader.pieces(folder / name, shown(name), asked):
            yield dataclasses.replace(piece, total=None if len(names) > 1 else piece.total)


def _tensors(names: Sequence[str]) -> bool:
    return any(re.fullmatch(r"input_[0-9]+\.pb", name) for name in names)


def _ends(name: str, suffixes: Sequence[str]) -> bool:
    return name.lower().endswith(tuple(suffixes))


def _same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
