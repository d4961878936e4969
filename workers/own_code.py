"""The part of xbench that a worker runs, for a Python in which xbench is not installed."""

import contextlib
import importlib.util
import os
from pathlib import Path

from xbench.converters import temporary

MODULES = ("__init__", "case", "errors")  # of the package itself
PACKAGES = ("models", "data", "stats", "host", "store", "converters", "runtimes", "parity", "workers")
NEEDS = ("numpy", "onnx", "ml_dtypes", "safetensors")  # what these import


def variables(place: Path) -> dict[str, str]:
    """The variable by which another Python finds our code, in a folder of links that is made in `place`."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(_linked(place)), os.environ.get("PYTHONPATH"))))}


def _linked(place: Path) -> Path:
    folder = place.absolute() / "own-code"
    if not folder.exists():
        with temporary.folder(place, temporary.HIDDEN) as scratch:
            made = scratch / "own-code"
            (made / "xbench").mkdir(parents=True)
            for name in MODULES:
                (made / "xbench" / f"{name}.py").symlink_to(_file(name))
            for name in PACKAGES:
                (made / "xbench" / name).symlink_to(_file(name).parent)
            with contextlib.suppress(OSError):  # another thread was faster
                made.rename(folder)
    return folder


def _file(name: str) -> Path:
    """The file of a module, or that of a package's own code."""
    spec = importlib.util.find_spec("xbench" if name == "__init__" else f"xbench.{name}")
    assert spec and spec.origin
    return Path(spec.origin)
