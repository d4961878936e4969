"""Packages that are absent in a worker, though they are installed.

TVM imports PyTorch wherever that is installed, TensorFlow imports JAX and scikit-learn. Their time and memory would be
counted as TVM's and TensorFlow's, but only an environment that compares runtimes has them all. OpenVINO reports every
import over the network if its package for that is there.
"""

import sys
from collections.abc import Collection
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any


def hide(names: Collection[str]) -> None:
    """Lets imports of these packages fail in this process, as if they were not installed."""
    if not names:
        return

    class Rest(PathFinder):
        @classmethod
        def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            return None if name in names else super().find_spec(name, path, target)

    sys.meta_path[:] = [Rest if finder is PathFinder else finder for finder in sys.meta_path]
