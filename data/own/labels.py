"""Reads labels from a file of their own."""

import csv
import difflib
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from xbench.data import BadData
from xbench.data.own import arrays, tables
from xbench.data.own.opening import readable, shown, text
from xbench.data.own.slots import plain, some, usual_label

FOLDERS = "folders"  # the word for the names of subfolders
FORMS = (".npy", ".npz", ".safetensors", ".csv", ".parquet", ".txt", ".json")
PARTED = re.compile(r"(.+?\.(?:npz|safetensors|csv|parquet)):(.+)", re.DOTALL | re.IGNORECASE)
INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|inf|nan)", re.IGNORECASE)
Labels = np.ndarray | list[Any]


def place(word: str) -> tuple[Path, str]:
    """The file of `y.csv:column`, and the array or column in it, "" if it names none."""
    match = None if os.path.lexists(word) else PARTED.fullmatch(word)
    return (Path(match[1]), match[2]) if match else (Path(word), "")


def read(word: str) -> Labels:
    """The labels of a file, one for each sample.

    Raises:
        BadData: it cannot be read, has none, or does not say which they are.
    """
    path, key = place(word)
    suffix = path.suffix.lower()
    if suffix in arrays.SUFFIXES:
        labels = plain(arrays.label_array(path, key))
    elif suffix == ".parquet":
        labels = tables.label_column(path, key)
    elif suffix == ".csv":
        labels = typed(_column(path, key), path)
    elif suffix == ".txt":
        labels = typed(text(path).rstrip("\r\n").replace("\r\n", "\n").split("\n"), path)
    elif suffix == ".json":
        labels = _list(path)
    else:
        raise BadData(f"--labels {shown(word)}: labels are a file {', '.join(FORMS)}, or {FOLDERS}")
    if not len(labels):
        raise BadData(f"{shown(path)} has no labels")
    return labels


def typed(cells: list[str], path: Path) -> Labels:
    """Texts as int64 if all are integers, as float64 if all are numbers.

    Raises:
        BadData: one is empty.
    """
    cells = [cell.strip() for cell in cells]
    if "" in cells:
        raise BadData(f"{shown(path)}: label {cells.index('')} is empty")
    if cells and all(map(INTEGER.fullmatch, cells)):
        integers = _integers([int(cell) for cell in cells])
        return cells if integers is None else integers
    return np.array([float(cell) for cell in cells]) if all(map(NUMBER.fullmatch, cells)) else cells


def _column(path: Path, key: str) -> list[str]:
    """A column of CSV, without its header."""
    with readable(path):
        rows = [row for row in csv.reader(io.StringIO(text(path), newline=""), strict=True) if row]
    if not rows:
        return []
    header = [cell.strip() for cell in rows[0]]
    if not key and len(header) == 1:
        cells = _cells(rows, 0, path)
        first, rest = cells[0], cells[1:]
        headed = bool(rest) and not _is_number(first) and all(map(_is_number, rest))
        return rest if headed else cells
    if not key:
        key = usual_label(header, path)
    if key not in header:
        near = difflib.get_close_matches(key, header, n=1)
        hint = f"did you mean {shown(near[0])}?" if near else f"it has {some(header)}"
        raise BadData(f"{shown(path)} has no column {shown(key)}: {hint}")
    return _cells(rows[1:], header.index(key), path)


def _cells(rows: list[list[str]], column: int, path: Path) -> list[str]:
    if (short := next((n for n, row in enumerate(rows) if len(row) <= column), None)) is not None:
        raise BadData(f"{shown(path)}: label {short} is missing in its row")
    return [row[column] for row in rows]


def _is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell.strip()) is not None


def _list(path: Path) -> Labels:
    """A list of JSON."""
    data = text(path)
    with readable(path):
        labels = json.loads(data)
    if not isinstance(labels, list):
        raise BadData(f"{shown(path)} holds no list of labels")
    kinds = {type(label) for label in labels}
    if kinds == {int}:
        integers = _integers(labels)
        return labels if integers is None else integers
    if kinds == {bool} or (kinds and kinds <= {int, float}):
        return np.array(labels, bool if kinds == {bool} else np.float64)
    return labels


def _integers(labels: list[int]) -> np.ndarray | None:
    """As int64; None if one does not fit."""
    limits = np.iinfo(np.int64)
    return np.array(labels, np.int64) if limits.min <= min(labels) and max(labels) <= limits.max else None
