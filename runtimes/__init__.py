"""The contract of a runtime and the table of all runtimes. Imports no framework.

A runtime makes one converted model ready on one device. The life of an object: construct (load), `prepare` (compile),
then any number of `forward`, `gradients` or `step`; `prepare` may be called again, for arrays of other shapes. Their
results are read before the next call, so they may be in reused buffers. Every other file of the folder is one runtime,
named by the word you type; `_rows.py` is the table. Third parties add rows through the entry-point group
`xbench.runtimes` (see CONTRIBUTING.md).
"""

import dataclasses
import functools
import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.runtimes import _plugins
from xbench.runtimes._rows import LAYOUTS, RUNTIMES, UNCLOCKED
from xbench.runtimes.support.options import Options
from xbench.runtimes.support.row import Lower, Row

__all__ = [
    "LAYOUTS",
    "RUNTIMES",
    "UNCLOCKED",
    "Killed",
    "Layer",
    "Lower",
    "Options",
    "Row",
    "Runtime",
    "Trainer",
    "Unavailable",
]


class Unavailable(Exception):
    """The request cannot be met: no such device, or a package built without it. One line, with the remedy."""


class Killed(Exception):
    """A process that a runtime has started ended by SIGKILL; the message names it, as in "the process of x"."""


class Layer(NamedTuple):
    """The times of one layer: the runtime's own name for it, its operator, and its seconds in every pass."""

    name: str
    operator: str
    seconds: list[float]


class Runtime(ABC):
    """A model made ready on one device. Arrays are NumPy outside and the framework's own inside."""

    @abstractmethod
    def __init__(self, artifact: Artifact, options: Options) -> None:
        """Loads the model and its weights.

        Raises:
            UnsupportedOps: the framework lacks operators; all of them are named.
        """

    @abstractmethod
    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        """Compiles for the shapes of these arrays; `dropout` says whether dropout is active in training.

        Returns whether anything was compiled; False if that happens inside the first call.
        """

    def read(self) -> bool:
        """Makes the runtime read the graph, to check that it is supported, if loading has not done so; returns whether
        there was anything left to do.

        Raises:
            UnsupportedOps: the framework lacks operators.
        """
        return False

    @abstractmethod
    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """Copies arrays to the device."""

    @abstractmethod
    def forward(self, *inputs: Any) -> Any:
        """Outputs of the network in evaluation mode, in every mode it was made for, with the current weights; may
        return before they are computed."""

    @abstractmethod
    def wait(self, result: Any) -> None:
        """Blocks until a result of this runtime is complete on the device."""

    @abstractmethod
    def get(self, outputs: Any) -> list[np.ndarray]:
        """Copies the outputs of `forward` to the host, in the order of the ONNX graph."""

    # Computes in another process, whose clock times the steps: `clock`. Only for xbench's own runtimes.
    remote: bool = False

    def clock(self) -> float:
        """Seconds that the other process has worked so far, by its own clock, if there is one."""
        raise NotImplementedError

    def round_trip(self) -> float:
        """Seconds of an empty request to the other process, by this one's clock, if there is one."""
        return 0.0

    def versions(self) -> Mapping[str, str]:
        """The versions of packages that compute in another process, by name; empty if there is none."""
        return {}

    def held(self) -> Mapping[str, np.ndarray] | None:
        """The parameters it holds, by ONNX name in ONNX's layout; None if not reported. Called after `prepare`."""
        return None

    def placed(self) -> Mapping[str, int] | None:
        """Where the compiled model runs: `cpu`, `cuda` or another name of a device -> the number of its nodes, or
        of its arrays if the runtime does not report nodes. None if it reports nothing.

        Called after a step.
        """
        return None

    def device_memory(self) -> int | None:
        """Bytes of the device's own memory that its arrays used at the peak, since the process began; None if the
        device has no memory of its own, or the runtime does not report it."""
        return None

    def tuned(self) -> str | None:
        """Words beside the runtime's name: what a tuning search for this model cost, or that it is not compiled.

        Called after `prepare`.
        """
        return None

    def recalled(self) -> bool:
        """Whether it loaded code from disk that another process had compiled, all of it or a part.

        Called after a step. A runtime that keeps nothing compiles again in every process.
        """
        return False

    def by_events(self, step: Callable[[], object]) -> float:
        """Runs a step between two events of the device, and returns the seconds between them by its own clock. Called
        only on devices that the runtime's row names in `events`."""
        raise NotImplementedError

    def layers(self, inputs: Sequence[Any], count: int) -> list[Layer]:
        """Seconds of every layer in each of `count` forward passes, as the runtime itself reports them, in the order in
        which they run. Called if the runtime's row names `layers`."""
        raise NotImplementedError

    def widen(self, tensors: Sequence[str]) -> Sequence[str]:
        """Leaves the nodes that compute these tensors in float32 (a node is named by its first tensor), with the ranges
        that `prepare` found. Returns the tensors of all nodes that can compute in the requested precision, in the order
        of the graph. Called after `prepare`, if the row says that the precision `widens`."""
        raise NotImplementedError

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        """Writes the model in the runtime's own form, to be used without xbench, and returns the names of the files.

        Called after `prepare`; a runtime without such a form writes nothing.
        """
        return ()


class Trainer(Runtime):
    """A runtime that trains. A runtime that cannot train lacks these methods rather than raising from them."""

    @abstractmethod
    def gradients(self, inputs: Sequence[Any], labels: Any) -> tuple[Any, Any]:
        """Mean cross entropy and its gradients, in training mode; changes nothing."""

    @abstractmethod
    def step(self, inputs: Sequence[Any], labels: Any) -> Any:
        """One training step: gradient, optimizer update, new statistics. Returns the loss before the update."""

    @abstractmethod
    def fetch(self, result: Any) -> tuple[float, dict[str, np.ndarray]]:
        """The loss and gradients of `gradients`, by parameter name, on the host."""

    @abstractmethod
    def weights(self) -> dict[str, np.ndarray]:
        """Parameters and running statistics by name, on the host."""

    def optimizer_state(self) -> dict[str, np.ndarray] | None:
        """The arrays the update rule keeps, by `<slot>.<parameter>` (`converters/autodiff/optimizer.py`), on the
        host; None if the runtime does not report them. Called in mode step only."""
        return None

    def held(self) -> dict[str, np.ndarray] | None:
        return self.weights()

    @abstractmethod
    def reset(self) -> None:
        """Puts back the initial parameters, statistics and optimizer memory."""


def table() -> dict[str, Row]:
    """All runtimes by name: xbench's, and the rows that installed packages add to the group `xbench.runtimes`."""
    return {**_others(tuple(sys.path)), **RUNTIMES}


def row_of(word: str) -> Row:
    """The row of the runtime that a word names. No module of another plug-in is imported for it: a worker would load
    that besides the code it times.

    Raises:
        KeyError: there is no such runtime.
    """
    if row := find_row(word):
        return row
    raise KeyError(parse(word)[0])


def find_row(word: str) -> Row | None:
    """As `row_of`; None if there is no such runtime."""
    name = parse(word)[0]
    return RUNTIMES[name] if name in RUNTIMES else _others(tuple(sys.path), name).get(name)


@functools.cache
def _others(_: tuple[str, ...], only: str | None = None) -> dict[str, Row]:
    """The rows of packages on a path; to search all installed packages takes 10 ms."""
    return _plugins.rows(RUNTIMES, only)


def is_ours(word: str) -> bool:
    """Whether a word names a runtime of xbench itself, whose row is trusted."""
    return parse(word)[0] in RUNTIMES


def adapter_digest(word: str) -> str:
    """A digest of a plug-in's adapter, which may be in development; xbench's own have its version."""
    return "" if is_ours(word) else _plugins.source_digest(row_of(word).entry)


def parse(word: str) -> tuple[str, dict[str, str]]:
    """Splits `name==version:option,key=value` into the name and its options; an option without value means 1."""
    name, _, rest = word.partition(":")
    pairs = [item.partition("=") for item in rest.split(",") if item]
    return name.partition("==")[0], {key: value if equals else "1" for key, equals, value in pairs}


def layouts(word: str, artifact: Artifact) -> list[str]:
    """The layouts in which a runtime can compute a model."""
    return [layout for layout in row_of(word).layouts if layout in artifact.layouts]


def version(row: Row, word: str = "") -> str | None:
    """The installed version of a runtime's package, or None; imports nothing. `word` names the runtime if another
    interpreter may be meant, by the word itself, by the settings or by an environment.

    Raises:
        Misconfigured: the settings cannot be read.
    """
    from xbench.runtimes import _configuration, _environments

    python = _configuration.interpreter(word) if word else None
    if python or row.environment:
        return _environments.version_in(python, row.packages) if python else None
    for package in row.packages:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def load(word: str, artifact: Artifact, options: Options) -> Runtime:
    """Imports a runtime and makes it read a converted model."""
    name, extra = parse(word)
    module, _, attribute = row_of(word).entry.partition(":")
    make = getattr(importlib.import_module(module), attribute)
    ready = make(artifact, dataclasses.replace(options, extra=extra))
    lacks = [each for each in sorted(Runtime.__abstractmethods__) if not callable(getattr(ready, each, None))]
    if lacks or (options.trains and not isinstance(ready, Trainer)):
        words = f"it has no `{lacks[0]}`" if lacks else "it is no Trainer"
        raise TypeError(f"what {name} makes is a {type(ready).__name__}, which cannot do {options.mode}: {words}")
    return ready
