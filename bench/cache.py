"""Where converted models and references lie: `$XBENCH_CACHE`, else `~/.cache/xbench`, every entry named by its content.

An artifact's name is made of everything its content depends on: the network's source, the exporter's and printer's
source, and the versions of the packages that export. All of that can be read without importing a framework.
"""

import contextlib
import fcntl
import hashlib
import mmap
import os
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from xbench import converters, models
from xbench.bench import XBenchError, digest
from xbench.bench.machine import versions
from xbench.bench.source import Source
from xbench.converters import temporary

LOCK = ".lock"  # of all folders beside it
EXPORTERS = ("torch", "onnx", "onnxscript", "onnx-ir")
LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f])", re.DOTALL)  # protobuf's {key: "location", value: ...}


class CacheError(XBenchError):
    """The cache folder cannot be written; one line."""


def root() -> Path:
    return Path(os.environ.get("XBENCH_CACHE") or Path.home() / ".cache" / "xbench")


def places() -> list[Path]:
    """The folders of the cache in which there may be temporary ones (`converters/temporary.py`)."""
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
    network = [_source(each) for each in (family, folder / "_weights.py", folder / "__init__.py")]
    options = source.word.removeprefix(source.place)
    return root() / "models" / f"{source.place}-{digest('zoo', seed, network, made_by, options)}"


def makers() -> list[Any]:
    """What decides how a model is converted and its inputs are drawn: every file that may shape it (which operators a
    table has decides what is written out), and the versions of who exports."""
    ours = map(Path(__file__).with_name, ("convert.py", "write.py"))
    drawing = map(Path(models.__file__).with_name, ("_drawing.py", "_spec.py"))
    files = sorted([*ours, *drawing, *Path(converters.__file__).parent.rglob("*.py")])
    return [*map(_source, files), versions(EXPORTERS)]


def _source(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def file_digest(path: Path) -> str:
    """The digest of a file and of the external data it names beside it, or of all files of a folder."""
    total = hashlib.sha256()
    try:
        if not path.is_file() and not path.is_dir():
            raise XBenchError(f"{path} is no regular file")  # a pipe or a device: reading it may never end
        if path.is_dir():
            files = sorted(each for each in path.rglob("*") if each.is_file())
        else:
            files = [path, *(_external(path) if path.suffix == ".onnx" else [])]
        for each in files:
            with each.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    except OSError as error:
        raise XBenchError(f"cannot read {path}: {error.strerror}") from error
    return total.hexdigest()


def _external(path: Path) -> list[Path]:
    """The files that the bytes of an ONNX file name as external data; nothing is believed, links are not followed.

    Without parsing: this runs before a worker, in the process of the command, and the file may be hostile.
    """
    if not path.stat().st_size:
        return []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = {data[m.end() : m.end() + m[1][0]] for m in islice(LOCATION.finditer(data), 100_000)}
    names = (name.decode(errors="replace") for name in found)
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
    """A temporary folder that becomes `folder` when all went well, and vanishes when not.

    Where another process was faster its folder stays, which equals ours and may be in use.
    """
    with unnamed(folder.parent, folder.name) as made:
        yield made
        settle(made, folder)


@contextlib.contextmanager
def unnamed(parent: Path, stem: str) -> Iterator[Path]:
    """A temporary folder in the cache for what is named when it is made: `settle` gives it its name."""
    with contextlib.ExitStack() as stack:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            made = stack.enter_context(temporary.folder(parent, temporary.HIDDEN)) / stem
            made.mkdir(0o700)
        except OSError as error:
            raise CacheError(f"cannot write the cache {root()}: {error.strerror}; set XBENCH_CACHE") from error
        try:
            yield made
        except OSError as error:
            raise CacheError(f"cannot write {made}: {error.strerror}") from error


def settle(made: Path, folder: Path) -> None:
    """Gives a finished folder its name, unless a whole one has that name already; one that is not whole goes.

    Behind a lock: between looking and renaming, another process may finish the same.
    """
    with (folder.parent / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "model.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
