"""Calls an adapter's methods in the worker and checks the types of what they return.

The contract (`runtimes/__init__.py`) defines what each method returns. An adapter that returns something else is at
fault: the error names it, and the value is dropped. Arrays are not checked here: their contents are judged elsewhere.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from xbench.converters.printable import one_line
from xbench.runtimes import Layer, Runtime, Trainer

MOST, LONGEST = 2**63, 1e9  # of integers; of seconds


class BadAnswer(Exception):
    """A method of an adapter returns what the contract does not allow."""

    def __init__(self, method: str, value: object, wanted: str) -> None:
        super().__init__(f"its `{method}` gives {kind(value)} where the contract asks for {wanted}")


class NoAnswer(BadAnswer):
    """The same for computed results: the runtime is wrong, not broken."""


def kind(value: object) -> str:
    """The type of a value, in words."""
    return one_line(f"a value of type {type(value).__name__}", 80)


def versions(runtime: Runtime) -> dict[str, str]:
    answer = runtime.versions()
    pairs = _pairs("versions", answer, "versions by name")
    if not all(isinstance(value, str) for value in pairs.values()):
        raise BadAnswer("versions", answer, "versions by name")
    return {name: one_line(value, 100) for name, value in pairs.items()}


def placed(runtime: Runtime) -> dict[str, int] | None:
    if (answer := runtime.placed()) is None:
        return None
    return {name: _count("placed", value) for name, value in _pairs("placed", answer, "counts by device").items()}


def device_memory(runtime: Runtime) -> int | None:
    answer = runtime.device_memory()
    return None if answer is None else _count("device_memory", answer)


def tuned(runtime: Runtime) -> str | None:
    answer = runtime.tuned()
    if not (answer is None or isinstance(answer, str)):
        raise BadAnswer("tuned", answer, "words or None")
    return None if answer is None else one_line(answer)


def recalled(runtime: Runtime) -> bool:
    return _flag("recalled", runtime.recalled())


def prepared(runtime: Runtime, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
    """Whether anything was compiled; None, from a function that returns nothing, counts as False."""
    answer = runtime.prepare(inputs, labels, dropout)
    return answer is not None and _flag("prepare", answer)


def clock(runtime: Runtime) -> float:
    return _seconds("clock", runtime.clock())


def by_events(runtime: Runtime, step: Callable[[], object]) -> float:
    return _seconds("by_events", runtime.by_events(step))


def held(runtime: Runtime) -> dict[str, Any] | None:
    answer = runtime.held()
    return None if answer is None else _pairs("held", answer, "arrays by name")


def weights(runtime: Trainer) -> dict[str, Any]:
    return _pairs("weights", runtime.weights(), "arrays by name", NoAnswer)


def optimizer_state(runtime: Trainer) -> dict[str, Any] | None:
    answer = runtime.optimizer_state()
    return None if answer is None else _pairs("optimizer_state", answer, "arrays by name", NoAnswer)


def outputs(runtime: Runtime, result: Any) -> list[Any]:
    """All arrays of a result."""
    answer = runtime.get(result)
    if not isinstance(answer, list | tuple):
        raise NoAnswer("get", answer, "a list of arrays")
    return list(answer)


def loss(runtime: Trainer, result: Any) -> float:
    """The loss of a step."""
    arrays = outputs(runtime, result[:1])
    if len(arrays) != 1:
        raise NoAnswer("get", arrays, "the loss of a step")
    return number("get", arrays[0], "the loss of a step")


def fetched(runtime: Trainer, result: Any) -> tuple[float, dict[str, Any]]:
    answer = runtime.fetch(result)
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise NoAnswer("fetch", answer, "a loss and gradients by name")
    value = number("fetch", answer[0], "a loss and gradients by name")
    return value, _pairs("fetch", answer[1], "a loss and gradients by name", NoAnswer)


def number(method: str, value: Any, wanted: str) -> float:
    """A number, alone or in an array of floating point; it need not be finite."""
    if isinstance(value, np.ndarray):
        if value.size == 1 and value.dtype.kind == "f":
            return float(np.asarray(value).reshape(()))
    elif isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        with contextlib.suppress(OverflowError):
            return float(value)
    raise NoAnswer(method, value, wanted)


def layers(runtime: Runtime, inputs: Sequence[Any], count: int) -> list[Layer]:
    answer = runtime.layers(inputs, count)
    if not isinstance(answer, list | tuple) or not all(_is_layer(each) for each in answer):
        raise BadAnswer("layers", answer, "layers with their names, operators and seconds")
    return [Layer(one_line(a), one_line(b), [float(each) for each in times]) for a, b, times in answer]


def _is_layer(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 3 or not isinstance(value[2], list | tuple) or not value[2]:
        return False
    return all(isinstance(text, str) for text in value[:2]) and all(map(_is_time, value[2]))


def widened(runtime: Runtime, tensors: Sequence[str]) -> list[str]:
    """The tensors of all nodes that can compute in the lower precision, after these are left in float32."""
    answer = runtime.widen(tensors)
    if not isinstance(answer, list | tuple) or not all(isinstance(each, str) for each in answer):
        raise BadAnswer("widen", answer, "names of tensors")
    return list(answer)


def saved(runtime: Runtime, folder: Path, name: str) -> list[str]:
    """The names of the files that it wrote; all must be in the folder."""
    answer = runtime.save(folder, name)
    if not isinstance(answer, list | tuple) or not all(_is_file(folder, each) for each in answer):
        raise BadAnswer("save", answer, "the names of the files that it wrote into the folder")
    return [str.__str__(each) for each in answer]


def _is_file(folder: Path, name: Any) -> bool:
    if not isinstance(name, str) or not name.isprintable() or name in ("", ".", ".."):
        return False
    place = folder / name
    return place.exists() and place.resolve().is_relative_to(folder.resolve())


def _pairs(method: str, answer: Any, wanted: str, error: type[BadAnswer] = BadAnswer) -> dict[str, Any]:
    """A mapping with text keys as a plain dictionary."""
    if not isinstance(answer, Mapping):
        raise error(method, answer, wanted)
    pairs = dict(answer)
    names: Iterable[Any] = pairs
    if not all(isinstance(name, str) for name in names):
        raise error(method, answer, wanted)
    return {one_line(name, 1000) if method in ("versions", "placed") else name: each for name, each in pairs.items()}


def _flag(method: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise BadAnswer(method, value, "True or False")
    return bool(value)


def _count(method: str, value: Any) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or not 0 <= int(value) < MOST:
        raise BadAnswer(method, value, "whole numbers of 0 or more")
    return int(value)


def _seconds(method: str, value: Any) -> float:
    if not _is_time(value):
        raise BadAnswer(method, value, "seconds")
    return float(value)


def _is_time(value: Any) -> bool:
    number = isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    return number and bool(0 <= value < LONGEST)
