"""Finds damage in a converted model in the cache, and in files added to it (`converters/seals.py`)."""

import contextlib
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

from xbench.converters import cache, seals
from xbench.converters.artifact import Artifact

Seals = Mapping[Path, seals.Facts]


def look(artifact: Artifact) -> dict[Path, str]:
    """What is damaged, and how: the folder, and files that were added to it. Every file is read, unless it was read
    before and has not changed since."""
    if not cache.holds(artifact.folder):
        return {}
    entry, damaged = artifact.folder / cache.ENTRY, dict[Path, str]()
    if reason := cache.broken(artifact.folder, thorough=True):
        damaged[artifact.folder] = reason
    for path in (place.with_suffix("") for place in sealed(artifact) if place != entry):
        if reason := seals.broken(cache.seal_of(path), _named(artifact, path), thorough=True):
            damaged[path] = reason
    return damaged


def sealed(artifact: Artifact) -> Seals:
    """The seals as they are now."""
    return {path: seals.facts(path) for path in artifact.folder.glob(f"*{seals.SUFFIX}")}


def suspect(artifact: Artifact, before: Seals) -> bool:
    """Whether something is damaged, or was made again since the seals were `before`."""
    return any(seals.facts(path) != facts for path, facts in before.items()) or bool(look(artifact))


def of_added(artifact: Artifact, path: Path) -> str | None:
    """What is wrong with an added file, by a cheap check."""
    if not cache.holds(artifact.folder):
        return None if path.exists() else f"{path.name} is missing"
    return seals.broken(cache.seal_of(path), _named(artifact, path))


def added(artifact: Artifact, path: Path) -> contextlib.AbstractContextManager[Path]:
    """Where to write a file to be added."""
    return cache.added(path, _named(artifact, path)) if cache.holds(artifact.folder) else contextlib.nullcontext(path)


def say(place: Path, reason: str) -> None:
    """Reports that something is made again, if it existed."""
    if os.path.lexists(place):
        warnings.warn(seals.Damaged(f"{place} was damaged ({reason}): it is made again"), stacklevel=2)


def _named(artifact: Artifact, path: Path) -> str:
    return f"{artifact.digest} {path.name}"
