"""Releases of ONNX Runtime as environments, some of them with a planted fault: the installed package, slower or wrong.

Each environment is a virtual environment that finds the installed packages, with a hook that changes ONNX Runtime's
sessions once it is imported, and with the version that the release is to have.
"""

import json
import sys
import sysconfig
import venv
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path

HOOK = '''
import importlib.abc
import importlib.machinery
import sys
import time

SLOWER, WRONG, BROKEN = {slower!r}, {wrong!r}, {broken!r}


class Session:
    """Changes ONNX Runtime when it has been imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "onnxruntime":
            return None
        if BROKEN:
            raise ImportError("planted: libfoo.so.1: cannot open shared object file")
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (execute(module), change(module))
        return spec


def change(module):
    kind = module.InferenceSession
    for name in ("run", "run_with_iobinding"):
        setattr(kind, name, slowed(getattr(kind, name)))
    make = kind.__init__
    if WRONG:
        kind.__init__ = lambda self, model, *given, **more: make(self, changed(model), *given, **more)


def slowed(call):
    def slow(*given, **more):
        start = time.perf_counter()
        result = call(*given, **more)
        until = time.perf_counter() + SLOWER * (time.perf_counter() - start)
        while time.perf_counter() < until:
            pass
        return result

    return slow


def changed(model):
    """The network with its largest weight 1 % larger."""
    import onnx
    from onnx import numpy_helper

    loaded = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    largest = max(loaded.graph.initializer, key=lambda each: len(numpy_helper.to_array(each).ravel()))
    largest.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(largest) * 1.01, largest.name))
    return loaded.SerializeToString()


sys.meta_path.insert(0, Session())
'''


def plant(
    root: Path,
    releases: Collection[str],
    slower: Mapping[str, float] = {},
    wrong: Collection[str] = (),
    broken: Collection[str] = (),
) -> None:
    """Makes the environments of the releases: `slower` by a share, such as 0.15, with `wrong` results, or `broken`."""
    for release in releases:
        folder = root / f"onnxruntime=={release}"
        venv.create(folder, with_pip=False, symlinks=True)
        site = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        text = HOOK.format(slower=slower.get(release, 0.0), wrong=release in wrong, broken=release in broken)
        (site / "planted_release.py").write_text(text)
        (site / "a.pth").write_text(f"{sysconfig.get_path('purelib')}\nimport planted_release\n")
        about = site / f"onnxruntime-{release}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: onnxruntime\nVersion: {release}\n")
        versions = {"onnxruntime": release, "numpy": metadata.version("numpy")}
        (folder / "ready.json").write_text(json.dumps({"versions": versions, "variables": {}}))
