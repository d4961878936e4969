"""Whether plain data has the types of a `TypedDict`: what mypy believes of a record is looked at where one is read."""

import functools
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}
NUMBER = {int, float}


def misfit(value: Any, kind: Any, place: str = "it") -> str | None:
    """What keeps a value from being of a type, in words; None where nothing does. Fields may be missing, as an older
    xbench did not know them, and there may be others."""
    if kind is Any:
        return None
    if typing.is_typeddict(kind):
        if not isinstance(value, dict):
            return f"{place} is not an object"
        own = "" if place == "it" else f"{place}."
        return _first((value[name], each, own + name) for name, each in _fields(kind).items() if name in value)
    of, arguments = typing.get_origin(kind), typing.get_args(kind)
    if of is types.UnionType:
        return None if value is None else misfit(value, arguments[0], place)
    if of is list:
        if not isinstance(value, list):
            return f"{place} is not a list"
        return None if _are_numbers(value, arguments[0]) else _first((each, arguments[0], place) for each in value)
    if of is dict:
        if not isinstance(value, dict):
            return f"{place} is not an object"
        return _first((each, arguments[1], f"{place}.{name}") for name, each in value.items())
    if kind is int and isinstance(value, float):  # JSON knows one kind of number
        return None if value.is_integer() else f"{place} is not {WORDS[int]}"
    fits = type(value) in NUMBER or value is None if kind is float else type(value) is kind  # a NaN is written as null
    return None if fits else f"{place} is not {WORDS[kind]}"


def _first(parts: Iterable[tuple[Any, Any, str]]) -> str | None:
    return next((found for part in parts if (found := misfit(*part))), None)


def _are_numbers(values: list[Any], kind: Any) -> bool:
    """Without a call of Python's for each: a store has millions of samples."""
    return kind is float and {*map(type, values)} <= NUMBER | {type(None)}


@functools.cache
def _fields(kind: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)
