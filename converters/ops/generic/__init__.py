"""Operators written once for all frameworks, in NumPy's vocabulary (`converters/ops/arrays/`).

Each is a function of the vocabulary `xp`, arrays by position and ONNX's attributes by keyword. `operators` binds them
to a framework: arithmetic on what is known while the framework traces (shapes, constants) is done in NumPy at once, and
inputs that decide shapes (`static` in `ops/info.py`) arrive as NumPy arrays or None. A framework's own table
(`converters/<framework>.py`) overrides those with a better kernel.
"""

import functools
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from xbench.converters.ops.arrays import numpy as known
from xbench.converters.ops.generic import (
    control,
    elementwise,
    loss,
    matrix,
    media,
    normalize,
    pool,
    quantize,
    random,
    recurrent,
    reduce,
    region,
    resize,
    sample,
    select,
    sequence,
    shape,
    signal,
    text,
)
from xbench.converters.ops.generic.types import typed
from xbench.converters.ops.info import info

FAMILIES = (
    elementwise,
    loss,
    matrix,
    media,
    normalize,
    pool,
    quantize,
    random,
    recurrent,
    reduce,
    region,
    resize,
    sample,
    select,
    sequence,
    shape,
    signal,
    text,
)


def operators(xp: ModuleType, own: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """A framework's table by ONNX's names: this folder's operators in its arrays, overridden by its `own` kernels."""
    table = {}
    for name, numpy_name in elementwise.RENAMED.items():
        table[name] = bind(functools.partial(_renamed, numpy_name), xp, name)
    for family in FAMILIES:
        table |= {name: bind(f, xp, name) for name, f in _named(vars(family)).items()}
    # What a body reads is not among the operator's inputs, so control flow never runs in NumPy.
    table |= {name: functools.partial(f, xp) for name, f in _named(vars(control)).items()}
    return table | {name: _native(f, xp) for name, f in _named(own).items()}


def _named(namespace: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """The functions of a module that have an operator's name."""
    return {name: f for name, f in namespace.items() if name[0].isupper() and isinstance(f, FunctionType)}


def _renamed(numpy_name: str, xp: ModuleType, *arrays: Any) -> Any:
    return getattr(xp, numpy_name)(*arrays)


def _native(operator: Callable[..., Any], xp: ModuleType) -> Callable[..., Any]:
    """A framework's own kernel, called only with the framework's arrays."""

    @functools.wraps(operator)
    def call(*inputs: Any, **attributes: Any) -> Any:
        return operator(*(xp.asarray(v) if isinstance(v, np.ndarray) else v for v in inputs), **attributes)

    return call


def bind(operator: Callable[..., Any], xp: ModuleType, name: str) -> Callable[..., Any]:
    """The operator in the arrays of `xp`, or in NumPy if no input is an array of `xp`; not with an `rng`, which draws
    again at every step."""
    static = info(name).static

    def call(*inputs: Any, **attributes: Any) -> Any:
        given = [_static(xp, v, name, i) if i in static else v for i, v in enumerate(inputs)]
        traced = [v for i, each in enumerate(given) if i not in static for v in _traced(xp, each)]
        if not traced and attributes.get("rng") is None:
            return operator(known, *(v if i in static else typed(v) for i, v in enumerate(given)), **attributes)
        convert = functools.partial(xp.beside, like=traced[0]) if traced else xp.asarray
        arrays = (convert(v) if isinstance(v, np.ndarray) and i not in static else v for i, v in enumerate(given))
        try:
            return operator(xp, *arrays, **attributes)
        except NotImplementedError as error:
            if str(error).startswith("a shape"):  # of what, the function that was asked for it does not know
                raise NotImplementedError(f"{name} makes {error}") from error
            raise

    return call


def _traced(xp: ModuleType, value: Any) -> list[Any]:
    """The framework's arrays in an input, which may be a sequence."""
    return [v for v in (value if isinstance(value, tuple) else (value,)) if xp.is_array(v)]


def _static(xp: ModuleType, value: Any, name: str, index: int) -> Any:
    if value is None:
        return None
    try:
        return xp.concrete(typed(value))
    except NotImplementedError as error:
        raise NotImplementedError(f"{name} with an input {index} that is only known at run time") from error
