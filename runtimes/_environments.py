"""Separate environments for frameworks that cannot be installed with current ones: their recipes as plain data, and
their folders. `workers/environment.py` builds them; nothing here starts a process."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

READY = "ready.json"  # written last: a folder without it is half-built


@dataclass(frozen=True)
class Library:
    """A shared library that a framework loads by a name systems no longer have: old name -> current name, and the
    system's package that has it."""

    names: Mapping[str, str]
    package: str


@dataclass(frozen=True)
class Recipe:
    """How an environment is made. `pythons` are the versions it works with, the best first; `installs` are the
    arguments of one `pip install` each, in order; `package` is the distribution whose version is the runtime's;
    `check` is a statement of Python that proves the import; where it fails, `otherwise` is installed, too, and it is
    tried again. `programs` must be on the PATH."""

    framework: str
    pythons: tuple[str, ...]
    installs: tuple[tuple[str, ...], ...]
    package: str
    check: str
    programs: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    library: Library | None = None
    remark: str = ""


# setup.py of the oldest uses features that setuptools dropped, and must find the NumPy it is to work with.
BUILD = ("setuptools==65.7.0", "wheel==0.42.0")
OPEN_MPI = Library({"libmpi.so.12": "libmpi.so.40", "libmpi_cxx.so.1": "libmpi_cxx.so.40"}, "libopenmpi3")

RECIPES: dict[str, Recipe] = {
    "mxnet": Recipe(
        "Apache MXNet 1.9.1",
        ("3.8", "3.9", "3.10", "3.11"),
        (("mxnet==1.9.1", "numpy==1.23.5"),),
        "mxnet",
        "import mxnet",
        remark="its wheels bring oneDNN and OpenBLAS",
    ),
    "chainer": Recipe(
        "Chainer 7.8.1",
        ("3.8", "3.9", "3.10", "3.11"),
        ((*BUILD, "numpy==1.23.5"), ("--no-build-isolation", "chainer==7.8.1", "protobuf==3.20.3", "six==1.16.0")),
        "chainer",
        "import chainer",
        remark="it computes by NumPy, whose wheel brings OpenBLAS",
    ),
    "theano": Recipe(
        "Theano 1.0.5",
        ("3.7",),
        (
            (*BUILD, "numpy==1.20.3", "scipy==1.7.3"),
            ("--no-build-isolation", "theano==1.0.5", "six==1.16.0"),
        ),
        "theano",
        "import theano",
        programs=("g++",),
        remark="it compiles with g++, and links the OpenBLAS in NumPy's wheel",
    ),
    "cntk": Recipe(
        "CNTK 2.7",
        ("3.6",),
        (("cntk==2.7.post2", "numpy==1.16.6", "scipy==1.5.4", "protobuf==3.19.6"),),
        "cntk",
        "import cntk",
        library=OPEN_MPI,
        remark="it brings Intel's MKL-ML, and wants Open MPI under an old name",
    ),
    "caffe2": Recipe(
        "Caffe2, as PyTorch 1.8.1 has it",
        ("3.8",),
        (("torch==1.8.1", "numpy==1.19.5", "protobuf==3.19.6", "future==0.18.3", "six==1.16.0"),),
        "torch",
        "import caffe2.python.workspace",
        remark="it shares the wheel of PyTorch",
    ),
}


@dataclass(frozen=True)
class Environment:
    """A ready environment, from its `ready.json`."""

    name: str
    folder: Path
    versions: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


def root() -> Path:
    """`$XBENCH_ENVIRONMENTS`, else a folder of the user's data: it is no cache, which anybody may empty."""
    if folder := os.environ.get("XBENCH_ENVIRONMENTS"):
        return Path(folder).absolute()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "xbench" / "environments"


def find(name: str) -> Environment | None:
    """An environment that is ready; None if there is none, or a half-built one."""
    folder = root() / name
    if folder.parent != root():
        return None
    try:
        record: dict[str, Any] = json.loads((folder / READY).read_text())
        made = Environment(name, folder, dict(record["versions"]), dict(record["variables"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return made if made.python.exists() else None


def version_in(python: Path | str, packages: tuple[str, ...]) -> str | None:
    """The version of the first of these packages installed for an interpreter, which is not started."""
    for folder in sorted(Path(python).parent.parent.glob("lib/python3*/site-packages")):
        for package in packages:
            for distribution in metadata.distributions(name=package, path=[str(folder)]):
                return distribution.version
    return None
