"""Where converted models and references lie: `$XBENCH_CACHE`, else `~/.cache/xbench`, every entry named by its content.

An artifact's name is made of everything its content depends on: the network's source, the exporter's and printer's
source, and the versions of the packages that export. All of that can be read without importing a framework.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from xbench import converters, models
from xbench.bench import XBenchError, digest
from xbench.bench.machine import versions

EXPORTERS = ("torch", "onnx", "onnxscript", "onnx-ir")


class CacheError(XBenchError):
    """The cache folder cannot be written; one line."""


def root() -> Path:
    return Path(os.environ.get("XBENCH_CACHE") or Path.home() / ".cache" / "xbench")


def is_file(model: str) -> bool:
    """Whether the word the user typed means an ONNX file and not a network of the zoo."""
    return model not in models.MODELS and (model.endswith(".onnx") or "/" in model or Path(model).is_file())


def artifact_folder(model: str, seed: int = 0) -> Path:
    """The folder a model has, or will have, in the cache.

    Raises:
        UnknownModel: neither a network of the zoo nor a file.
        XBenchError: the file cannot be read.
    """
    sources = [_source(Path(converters.__file__).with_name(name)) for name in ("__init__.py", "onnx.py", "macs.py")]
    sources.append(_source(Path(__file__).with_name("convert.py")))
    if is_file(model):
        return (
            root() / "models" / f"{Path(model).stem}-{digest('file', _file(Path(model)), sources, versions(EXPORTERS))}"
        )
    spec = models.find(model)
    folder = Path(models.__file__).parent
    family = folder / f"{spec.factory.partition(':')[0].rpartition('.')[2]}.py"
    network = [_source(family), _source(folder / "_weights.py"), _source(folder / "__init__.py")]
    return root() / "models" / f"{model}-{digest('zoo', seed, network, sources, versions(EXPORTERS))}"


def _source(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _file(path: Path) -> str:
    """The digest of a file and of the external data beside it."""
    total = hashlib.sha256()
    try:
        for each in (path, *sorted(path.parent.glob(f"{path.name}*data*"))):
            with each.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    except IsADirectoryError:
        raise XBenchError(f"{path} is a folder, not an ONNX file") from None
    except OSError as error:
        raise XBenchError(f"cannot read {path}: {error.strerror}") from error
    return total.hexdigest()


@contextlib.contextmanager
def written(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` when all went well, and vanishes when not."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    except OSError as error:
        raise CacheError(f"cannot write the cache {root()}: {error.strerror}; set XBENCH_CACHE") from error
    try:
        yield temporary
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    except OSError as error:
        raise CacheError(f"cannot write {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
