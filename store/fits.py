"""Checks that plain data has the types of a `TypedDict`: what mypy assumes of a record is verified when it is read."""

import functools
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[[Any], bool]
NUMBERS = {int, float, type(None)}  # NaN and infinity are written as null
PLAIN: dict[Any, tuple[Test, str]] = {
    Any: (lambda value: True, ""),
    str: (lambda value: type(value) is str, "text"),
    bool: (lambda value: type(value) is bool, "true or false"),
    float: (lambda value: type(value) in NUMBERS, "a number"),
    int: (lambda value: type(value) is int or (type(value) is float and value.is_integer()), "a whole number"),
}


def misfit(value: Any, kind: Any, place: str = "it") -> str | None:
    """Why a value is not of a type, in words; None if it is. Fields may be missing, as an older xbench did not know
    them, and there may be others."""
    if fits(kind)(value):
        return None
    if kind in PLAIN:
        return f"{place} is not {PLAIN[kind][1]}"
    of, arguments = typing.get_origin(kind), typing.get_args(kind)
    if of is types.UnionType:
        return misfit(value, arguments[0], place)
    if of is list:
        items = value if isinstance(value, list) else None
        return f"{place} is not a list" if items is None else _first((each, arguments[0], place) for each in items)
    if not isinstance(value, dict):
        return f"{place} is not an object"
    own = "" if place == "it" else f"{place}."
    kinds = dict.fromkeys(value, arguments[1]) if of is dict else typing.get_type_hints(kind)
    return _first((value[name], each, f"{own}{name}") for name, each in kinds.items() if name in value)


def _first(parts: Iterable[tuple[Any, Any, str]]) -> str | None:
    return next((reason for part in parts if (reason := misfit(*part))), None)


@functools.cache
def fits(kind: Any) -> Test:
    """A test for a type, built once: a store has ten thousand records, and millions of samples."""
    if kind in PLAIN:
        return PLAIN[kind][0]
    if typing.is_typeddict(kind):
        fields = {name: fits(each) for name, each in typing.get_type_hints(kind).items()}
        return lambda value: (
            isinstance(value, dict) and all(fields[name](each) for name, each in value.items() if name in fields)
        )
    of, arguments = typing.get_origin(kind), typing.get_args(kind)
    inner = fits(arguments[-1] if of is dict else arguments[0])
    if of is types.UnionType:
        return lambda value: value is None or inner(value)
    if of is dict:
        return lambda value: isinstance(value, dict) and all(map(inner, value.values()))
    if arguments == (float,):
        return lambda value: isinstance(value, list) and {*map(type, value)} <= NUMBERS
    return lambda value: isinstance(value, list) and all(map(inner, value))
