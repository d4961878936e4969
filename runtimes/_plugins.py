"""Rows that other distributions add through the entry-point group `xbench.runtimes`, all validated here.

A row controls the audit, so a plug-in may not set fields that would weaken it: that a device's own clock counts
(`events`), that modules are imported before the clock starts (`ours`) or before a fork (`preload`), that another
process computes (`environment`). A row that sets one, or is no row, or has a name that is taken, is left out with one
line, and the others stay.
"""

import contextlib
import functools
import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from xbench.case import digest
from xbench.converters.printable import one_line
from xbench.runtimes._rows import LAYOUTS
from xbench.runtimes.support.row import EngineRow, Lower, Row

GROUP = "xbench.runtimes"
NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}", re.ASCII)  # options follow a colon, a comma separates names
ENTRY, MODULE = re.compile(r"[\w.]+:[\w.]+"), re.compile(r"[\w.]+")
MODES, DEVICES = ("forward", "gradient", "step"), ("cpu", "cuda")
PRECISIONS = ("tf32", "bf16", "fp16", "int8", "int4")
TABLES = ("torch", "tensorflow", "jax")
OURS_ALONE = ("events", "ours", "environment", "preload", "copies")


class LeftOut(UserWarning):
    """A row of a plug-in is not taken; one line that says why."""


def points() -> Sequence[metadata.EntryPoint]:
    """The entry points of the group; if the metadata of one package is damaged, those of the others."""
    return _points(tuple(sys.path))


@functools.cache
def _points(path: tuple[str, ...]) -> Sequence[metadata.EntryPoint]:
    """As `points`, for modules on this path: every installed package is searched."""
    try:
        return list(metadata.entry_points(group=GROUP))
    except Exception:
        members = []
        for package in metadata.distributions():
            with contextlib.suppress(Exception):  # pip itself cannot read such a package's metadata
                members += [point for point in package.entry_points if point.group == GROUP]
        return members


def rows(taken: Collection[str], only: str | None = None) -> dict[str, Row]:
    """The rows of plug-ins by name, or only the one named `only`, without importing the modules of the others; names in
    `taken` are refused."""
    accepted: dict[str, Row] = {}
    for point in points():
        if only not in (None, point.name):
            continue
        name = one_line(point.name, 100)
        try:
            if name in taken or name in accepted:
                raise ValueError(f"{'xbench' if name in taken else 'another plug-in'} has a runtime of this name")
            if not NAME.fullmatch(point.name):
                raise ValueError("a name has letters, digits, dots, hyphens and underscores")
            with contextlib.redirect_stdout(sys.stderr):  # a module's prints are no part of xbench's output
                loaded = point.load()
            accepted[name] = admitted(loaded)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an error in one plug-in must not stop the others
            warnings.warn(f"runtime {name} of a plug-in is left out: {one_line(error)}", LeftOut, stacklevel=2)
    return accepted


def admitted(loaded: Any) -> Row:
    """A copy of the row, of plain values.

    Raises:
        ValueError: it is no row, or one that only xbench itself may have.
    """
    if type(loaded) is not Row:  # a subclass may return other values at every access
        raise ValueError(f"it is a {type(loaded).__name__}, not a Row")
    given: dict[str, Any] = {name: getattr(loaded, name, None) for name in Row.__dataclass_fields__}
    for name in OURS_ALONE:
        if given[name]:
            raise ValueError(f"`{name}` is for runtimes of xbench alone: it would excuse them from a part of the audit")
        del given[name]
    for name, value in given.items():
        if not FIELDS[name](value):
            raise ValueError(f"its `{name}` is {one_line(ascii(value), 60)}")
    given |= {name: dict(given[name]) for name in ("lower", "effort", "options") if given[name] is not None}
    return Row(**given)


def _text(value: Any) -> bool:
    return type(value) is str and value.isprintable() and len(value) <= 200


def _flag(value: Any) -> bool:
    return type(value) is bool


def _texts(value: Any) -> bool:
    return type(value) is tuple and all(map(_text, value))


def _maybe(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or test(value)


def _some(known: Collection[str]) -> Callable[[Any], bool]:
    """Known names only."""
    return lambda value: _texts(value) and set(value) <= set(known)


def _entry(value: Any) -> bool:
    return _text(value) and bool(ENTRY.fullmatch(value))


def _engine(value: Any) -> bool:
    from xbench.runtimes.distributed import LAUNCHERS

    known = type(value) is EngineRow and _entry(value.entry) and _text(value.words) and _text(value.launcher)
    return known and value.launcher in LAUNCHERS


def _named(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_text, value))


def _named_texts(value: Any) -> bool:
    return _named(value) and all(map(_texts, value.values()))


def _lower(value: Any) -> bool:
    return _named(value) and set(value) <= set(PRECISIONS) and all(map(_is_lower, value.values()))


def _is_lower(value: Any) -> bool:
    known = type(value) is Lower and _text(value.switch) and _some(DEVICES)(value.devices) and _some(MODES)(value.modes)
    return known and isinstance(value.widens, bool)


FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "entry": _entry,
    "packages": lambda value: _texts(value) and all(value),
    "extra": _text,
    "autodiff": lambda value: value in (None, "native", "graph"),
    "note": _maybe(_text),
    "operators": lambda value: value is None or (_text(value) and value in TABLES),
    "layouts": lambda value: _some(LAYOUTS)(value) and "nchw" in value,
    "hidden": _flag,
    "on_request": _some(MODES),
    "lower": _lower,
    "effort": _named_texts,
    "keeps": _flag,
    "layers": _maybe(_text),
    "options": _maybe(_named_texts),
    "engine": _maybe(_engine),
    "named": _flag,
    "reads_onnx": _flag,
    "without": lambda value: _texts(value) and all(map(str.isidentifier, value)),
    "scripts": lambda value: value is None or (_text(value) and bool(MODULE.fullmatch(value))),
}


def source_digest(entry: str) -> str:
    """A digest of an adapter's Python files: its module, or the entire package around it. Nothing is imported. Empty if
    they are not found, as within an archive."""
    place = PathFinder.find_spec(entry.partition(":")[0].partition(".")[0])
    if place is None or not place.origin:
        return ""
    folders = place.submodule_search_locations or ()
    files = sorted(path for folder in folders for path in Path(folder).rglob("*.py")) or [Path(place.origin)]
    with contextlib.suppress(OSError):
        return digest([(path.name, path.read_text(errors="replace")) for path in files])
    return ""
