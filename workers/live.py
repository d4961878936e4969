"""A network in the caller's memory, with its current weights, and values for its inputs: both are passed to
the workers in a folder of the cache, which is removed afterwards.

The factory of such a network is a name of this module: `xbench.workers.live:network_k3x9` reads the pickle in the
folder `live/network_k3x9` of the cache. No pickle is read from anywhere else.
"""

import contextlib
import copy
import functools
import importlib
import inspect
import json
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xbench import models
from xbench.converters import cache, temporary
from xbench.converters.artifact import Artifact
from xbench.converters.source import BATCH, TYPES, with_options
from xbench.errors import XBenchError
from xbench.parity import verdict
from xbench.workers.prepare import Exporter

FOLDER, PREFIX = "live", temporary.LIVE
PICKLE, PATHS, VALUES = "network.pickle", "paths.json", "given.npz"

# ***** the caller's half *****


@dataclass(frozen=True)
class Live:
    """A network that was handed over: the name of its class, the word of its factory, its folder, and the values of its
    inputs in the order of its arguments."""

    name: str
    word: str
    folder: Path
    values: Mapping[str, np.ndarray]

    @property
    def batch(self) -> int:
        """The size of the first axis of every input."""
        return len(next(iter(self.values.values())))

    def artifact(self, exporter: Exporter) -> Artifact:
        """The converted network; its references are computed of the values.

        Raises:
            XBenchError: it cannot be exported.
        """
        try:
            return with_values(exporter.exported(self.word, made(self.folder / "artifact")), list(self.values.values()))
        except XBenchError as error:
            raise XBenchError(str(error).replace(self.word.rpartition("@")[0], self.name)) from error


def is_module(found: Any) -> bool:
    """Whether it is a `torch.nn.Module`; does not import PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(found, torch.nn.Module)


@contextlib.contextmanager
def handed_over(module: Any, inputs: Any, optimizer: str | None = None) -> Iterator[Live]:
    """The network in a folder of its own, while the context is open. It is not changed.

    `inputs` are arrays or tensors, the first axis of each the batch: one, a sequence in the order of the arguments of
    `forward`, or a mapping by their names. `optimizer` is as on the command line.

    Raises:
        XBenchError: the inputs do not fit, or the network cannot be pickled.
    """
    module = getattr(module, "_orig_mod", module)  # as wrapped by torch.compile
    values, pickled = named(module, inputs), _pickled(module)
    with cache.writing(), temporary.folder(made(cache.root() / FOLDER), PREFIX) as folder:
        (folder / PICKLE).write_bytes(pickled)
        (folder / PATHS).write_text(json.dumps([os.path.abspath(path) for path in sys.path]))
        specs = [f"{name}:{array.dtype}:{BATCH},{_sizes(array)}".rstrip(",") for name, array in values.items()]
        word = with_options(f"{__name__}:{folder.name}", [], specs, optimizer)
        yield Live(type(module).__name__, word, folder, values)


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _sizes(array: np.ndarray) -> str:
    return ",".join(map(str, array.shape[1:]))


def named(module: Any, inputs: Any) -> dict[str, np.ndarray]:
    """The values by the names of the arguments of `forward`, in their order; a mapping may leave out optional ones.

    Raises:
        XBenchError: an unknown name, no common batch, or an unsupported type.
    """
    arguments = _arguments(module)
    if isinstance(inputs, Mapping):
        if unknown := [name for name in inputs if name not in arguments]:
            raise XBenchError(f"forward of {type(module).__name__} has no argument {unknown[0]!r}")
        given = {name: inputs[name] for name in arguments if name in inputs}
    else:
        several = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        arguments += [f"input{number}" for number in range(len(arguments), len(several))]  # after *args
        given = dict(zip(arguments, several))
    values = {name: _array(name, each) for name, each in given.items()}
    if not values:
        raise XBenchError("inputs: give at least one array")
    sizes = {name: array.shape[0] if array.ndim else None for name, array in values.items()}
    if len(set(sizes.values())) > 1 or None in sizes.values() or 0 in sizes.values():
        raise XBenchError(f"inputs: the first axis of each must be the same batch; they have {sizes}")
    taken = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
    return {f"{name}_given" if name in taken else name: array for name, array in values.items()}


def _arguments(module: Any) -> list[str]:
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, each in inspect.signature(module.forward).parameters.items() if each.kind not in stars]


def _array(name: str, given: Any) -> np.ndarray:
    if hasattr(given, "detach"):  # a tensor
        try:
            given = given.detach().cpu().numpy()
        except TypeError as error:
            raise XBenchError(f"inputs: {name} is {given.dtype}, which is none of {', '.join(TYPES)}") from error
    array = np.ascontiguousarray(given) if np.ndim(given) else np.asarray(given)
    if array.dtype.name not in TYPES:
        raise XBenchError(f"inputs: {name} is {array.dtype}, which is none of {', '.join(TYPES)}")
    return array


def _pickled(module: Any) -> bytes:
    """The network on the CPU; classes no other process can import are pickled by value.

    Raises:
        XBenchError: cloudpickle is missing, or something in the network cannot be pickled.
    """
    try:
        import cloudpickle
    except ImportError as error:
        raise XBenchError("handing over a network needs cloudpickle: pip install 'xbench[torch]'") from error
    places = {type(layer).__module__ for layer in module.modules()} - cloudpickle.list_registry_pickle_by_value()
    by_value = [sys.modules[place] for place in places if place in sys.modules and not _importable(place)]
    try:
        for each in by_value:
            cloudpickle.register_pickle_by_value(each)
        if any(p.device.type != "cpu" for p in (*module.parameters(), *module.buffers())):
            module = copy.deepcopy(module).cpu()
        with _parametrized(module):
            pickled: bytes = cloudpickle.dumps(module)
    except Exception as error:  # whatever a user's class raises when it is pickled
        raise XBenchError(f"{type(module).__name__} cannot be handed to another process: {error}") from error
    finally:
        for each in by_value:
            cloudpickle.unregister_pickle_by_value(each)
    return pickled


@contextlib.contextmanager
def _parametrized(module: Any) -> Iterator[None]:
    """While it is open, layers with parametrized weights, such as a weight norm, can be pickled. The class
    that torch makes for each refuses, as no other process can import it; cloudpickle writes it by value."""
    made = {type(layer) for layer in module.modules() if "parametrizations" in vars(layer).get("_modules", ())}
    refusals = {each: vars(each)["__getstate__"] for each in made if "__getstate__" in vars(each)}
    for each in refusals:
        del each.__getstate__
    try:
        yield
    finally:
        for each, refusal in refusals.items():
            each.__getstate__ = refusal


def _importable(place: str) -> bool:
    """Whether another process with these paths can import the module by name; a file that a test runner imported
    may not be."""
    parts, search = place.split("."), None
    for end in range(1, len(parts) + 1):
        spec = _spec(".".join(parts[:end]), search)
        if spec is None:
            return False
        search = spec.submodule_search_locations
    own = getattr(sys.modules[place], "__file__", None)
    return own is None or spec.origin is None or os.path.abspath(spec.origin) == os.path.abspath(own)


def _spec(name: str, search: Any) -> Any:
    specs = (finder.find_spec(name, search) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for spec in specs if spec), None)


def with_values(artifact: Artifact, arrays: Sequence[np.ndarray]) -> Artifact:
    """The same artifact, with the values for its references with `data` given."""
    verdict.join(artifact.folder / VALUES, {f"input/{index}": array for index, array in enumerate(arrays)})
    return artifact


# ***** the workers' half *****


def draw(artifact: Artifact, batch: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Samples of the given values, from number `seed` on and cyclic, and labels."""
    stored = verdict.read(artifact.folder / VALUES)
    arrays = [stored[f"input/{index}"] for index in range(len(stored))]
    rows = (np.arange(batch) + seed) % len(arrays[0])
    labels = artifact.info["labels"]
    drawn = np.zeros(batch, np.int64) if labels is None else models.draw(models.Input(**labels), batch, seed)
    return [np.ascontiguousarray(array[rows]) for array in arrays], drawn


def __getattr__(name: str) -> Callable[[], Any]:
    """The factory of the network in the folder of that name."""
    if not (name.startswith(PREFIX) and name.isidentifier()):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functools.partial(_unpickled, cache.root() / FOLDER / name)


def _unpickled(folder: Path) -> Any:
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} is somebody else's")
    known = {os.path.abspath(path) for path in sys.path}
    sys.path += [path for path in json.loads((folder / PATHS).read_text()) if path not in known]
    importlib.invalidate_caches()
    module = pickle.loads((folder / PICKLE).read_bytes())
    _housed(module)
    return module


def _housed(network: Any) -> None:
    """Gives functions that were pickled by value a Python module of their own. torch.compile reads their globals
    from the module of their name, which in this process is missing, or a different one if it is `__main__`."""
    holders = [holder for layer in network.modules() for holder in (layer, *type(layer).__mro__)]
    todo = [value for holder in holders for value in vars(holder).values()]
    known = {id(vars(place)) for place in [*sys.modules.values()] if isinstance(place, types.ModuleType)}
    while todo:
        item = todo.pop()
        if isinstance(item, property):
            item = item.fget
        elif isinstance(item, staticmethod | classmethod | types.MethodType):
            item = item.__func__
        if not inspect.isfunction(item) or id(item.__globals__) in known:
            continue
        scope = item.__globals__
        known.add(id(scope))
        house = types.ModuleType(f"{PREFIX}scope_{len(known)}")
        scope["__name__"] = house.__name__
        vars(house).update(scope)
        sys.modules[house.__name__] = house
        classes = [each for each in scope.values() if inspect.isclass(each)]
        todo += [*scope.values(), *(value for each in classes for value in vars(each).values())]
