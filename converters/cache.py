"""The cache of converted models and references: `$XBENCH_CACHE`, else `~/.cache/xbench`; entries are named by content.

An artifact's name is made of everything its content depends on: the network's source, the exporter's and printer's
source, and the versions of the packages that export. All of that can be read without importing a framework.
"""

import contextlib
import fcntl
import hashlib
import mmap
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from xbench import converters, models
from xbench.case import digest
from xbench.converters import files, seals, temporary
from xbench.converters.source import Source
from xbench.errors import XBenchError
from xbench.host.machine import channel_block, versions

LOCK = ".lock"  # for everything in its folder
ENTRY = f"entry{seals.SUFFIX}"  # the seal of a converted model
EXPORTERS = ("torch", "onnx", "onnxscript", "onnx-ir")
LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f])", re.DOTALL)  # protobuf's {key: "location", value: ...}


class CacheError(XBenchError):
    """The cache folder cannot be written; one line."""


def root() -> Path:
    return Path(os.environ.get("XBENCH_CACHE") or Path.home() / ".cache" / "xbench")


def places() -> list[Path]:
    """The folders of the cache that may contain temporary ones (`converters/temporary.py`)."""
    models = root() / "models"
    return [models, *models.glob("*/"), root() / "live", root() / "peaks"]


def artifact_folder(source: Source, seed: int = 0) -> Path:
    """The folder a network of the zoo or a file has, or will have, in the cache.

    Raises:
        XBenchError: the file cannot be read.
    """
    made_by = makers()
    if source.kind != "zoo":
        content = digest("file", file_digest(Path(source.place)), source.word.removeprefix(source.place), made_by)
        return root() / "models" / f"{source.stem}-{content}"
    spec, folder = models.find(source.place), Path(models.__file__).parent
    family = folder / f"{spec.factory.partition(':')[0].rpartition('.')[2]}.py"
    network = [
        _source(each) for each in (family, *(folder / each for each in ("_weights.py", "_factory.py", "__init__.py")))
    ]
    options = source.word.removeprefix(source.place)
    return root() / "models" / f"{source.place}-{digest('zoo', seed, network, made_by, options)}"


def makers() -> list[Any]:
    """What decides how a model is converted and its inputs are drawn: every file that affects it (the operators of a
    table decide what is expanded), the versions of the packages that export, and how a file in blocks is read here."""
    drawing = map(Path(models.__file__).with_name, ("_drawing.py", "_spec.py"))
    files = sorted([*drawing, *Path(converters.__file__).parent.rglob("*.py")])
    return [*map(_source, files), versions(EXPORTERS), channel_block()]


def _source(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def file_digest(path: Path) -> str:
    """The digest of a file and of its external data, or of all files of a folder."""
    total = hashlib.sha256()
    try:
        if not path.is_file() and not path.is_dir():
            raise XBenchError(f"{path} is no regular file")  # a pipe or a device: reading it may never end
        if path.is_dir():
            every = sorted(each for each in path.rglob("*") if each.is_file())
        else:
            every = [path, *(external(path) if path.suffix == ".onnx" else [])]
        for each in every:
            with files.opened(each) as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    except OSError as error:
        raise XBenchError(f"cannot read {path}: {error.strerror}") from error
    return total.hexdigest()


def external(path: Path) -> list[Path]:
    """The files that the bytes of an ONNX file name as external data; nothing is trusted, links are not followed.

    Without parsing: this runs before a worker, in the process of the command, and the file may be hostile.
    """
    if not path.stat().st_size:
        return []
    with files.opened(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        locations = {data[m.end() : m.end() + m[1][0]] for m in islice(LOCATION.finditer(data), 100_000)}
    names = (name.decode(errors="replace") for name in locations)
    inside = [
        name for name in names if "\0" not in name and not Path(name).is_absolute() and ".." not in Path(name).parts
    ]
    places = (path.parent / name for name in sorted(inside))
    return [
        place
        for place in places
        if place.is_file() and place.resolve() == path.parent.resolve() / place.relative_to(path.parent)
    ]


@contextlib.contextmanager
def written(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` on success, and is removed on failure.

    If another process was faster, its folder stays: it is equal and may be in use.
    """
    with unnamed(folder.parent, folder.name) as made:
        yield made
        settle(made, folder)


@contextlib.contextmanager
def unnamed(parent: Path, stem: str) -> Iterator[Path]:
    """A temporary folder in the cache for contents that are named when complete: `settle` names it."""
    with contextlib.ExitStack() as stack:
        with writing():
            parent.mkdir(parents=True, exist_ok=True)
            made = stack.enter_context(temporary.folder(parent, temporary.HIDDEN)) / stem
            made.mkdir(0o700)
        with writing():
            yield made


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """
    Raises:
        CacheError: the code inside raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise CacheError(f"cannot write the cache {root()}: {error.strerror or error}; set XBENCH_CACHE") from error


def settle(made: Path, folder: Path) -> None:
    """Seals a finished folder and names it, unless an intact one has that name; a damaged one is removed.

    Under a lock: between checking and renaming, another process may finish the same.
    """
    seals.seal(made / ENTRY, folder.name, _files(made))
    with _locked(folder.parent):
        if broken(folder, thorough=True):
            _swept_aside(folder, made.parent)
            made.rename(folder)


def _files(folder: Path) -> list[str]:
    return [each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()]


def broken(folder: Path, thorough: bool = False) -> str | None:
    """What is wrong with a converted model in the cache (`seals.broken`)."""
    return seals.broken(folder / ENTRY, folder.name, thorough)


@contextlib.contextmanager
def added(path: Path, of: str) -> Iterator[Path]:
    """As `written`, for a file added to a converted model, such as a reference. `of` says what it is."""
    with writing(), temporary.folder(path.parent, temporary.HIDDEN) as place:
        made = place / path.name
        yield made
        with _locked(path.parent):
            if seals.broken(seal_of(path), of, thorough=True):
                _swept_aside(path, place)
                made.rename(path)
                seals.seal(seal_of(path), of, [path.name])


def remove(path: Path) -> None:
    """Removes an added file and its seal."""
    with writing(), temporary.folder(path.parent, temporary.HIDDEN) as place, _locked(path.parent):
        _swept_aside(path, place)
        seal_of(path).unlink(missing_ok=True)


def seal_of(path: Path) -> Path:
    """The path of the seal of an added file."""
    return path.with_name(path.name + seals.SUFFIX)


def holds(folder: Path) -> bool:
    """Whether a converted model is in the cache, and not in a caller's temporary folder."""
    return folder.parent == root() / "models"


def _swept_aside(path: Path, place: Path) -> None:
    """Moves whatever has this name, a folder, a file or a link, to a temporary folder, which is removed with it."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)  # else it could not be moved
        path.rename(place / "damaged")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder of the cache. If the lock's path is not a file, raises and does not wait."""
    lock = files.descriptor(folder / LOCK, os.O_RDWR | os.O_CREAT, links=False)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
