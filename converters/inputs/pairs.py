"""Pairs the inputs and the outputs of two converted models, of which one was made of the other: a quantiser keeps
their names, or at least their order."""

from collections.abc import Mapping, Sequence
from typing import Any

from xbench.converters.printable import visible
from xbench.errors import XBenchError

FLOATS = ("float32", "float64", "float16", "bfloat16")  # one may stand for another
NAMED = 4  # names in a message
Info = Mapping[str, Any]  # the facts of a converted model
Shape = Sequence[int | str | None] | None


def paired_inputs(own: Info, other: Info, words: tuple[str, str]) -> list[int]:
    """The place among a model's inputs of each input of another: by name, or by position if no name is the same.
    `words` name the two models in messages.

    Raises:
        XBenchError: they take different inputs.
    """
    pairs = _paired([each["name"] for each in own["inputs"]], [each["name"] for each in other["inputs"]])
    if pairs is None:
        raise XBenchError(_differ("inputs", own["inputs"], other["inputs"], words))
    for place, each in zip(pairs, other["inputs"], strict=True):
        mine = own["inputs"][place]
        alike = mine["dtype"] == each["dtype"] or {mine["dtype"], each["dtype"]} <= {*FLOATS}
        if not (alike and _fits(mine["shape"], each["shape"])):
            raise XBenchError(_unlike("input", mine, each, words))
    return pairs


def paired_outputs(own: Info, other: Info, words: tuple[str, str]) -> list[int]:
    """The place among a model's outputs of each output of another, as `paired_inputs`.

    Raises:
        XBenchError: they give different outputs.
    """
    ours, theirs = (
        [{"name": n, "shape": s} for n, s in zip(each["outputs"], each["output_shapes"], strict=True)]
        for each in (own, other)
    )
    pairs = _paired([each["name"] for each in ours], [each["name"] for each in theirs])
    if pairs is None:
        raise XBenchError(_differ("outputs", ours, theirs, words))
    for place, each in zip(pairs, theirs, strict=True):
        if not _fits(ours[place]["shape"], each["shape"]):
            raise XBenchError(_unlike("output", ours[place], each, words))
    return pairs


def _paired(own: Sequence[str], other: Sequence[str]) -> list[int] | None:
    """None if their numbers differ, or some names are the same and others are not."""
    if len(own) != len(other):
        return None
    if {*own} == {*other}:
        return [own.index(name) for name in other]
    return None if {*own} & {*other} else [*range(len(own))]


def _fits(one: Shape, other: Shape) -> bool:
    """Whether two shapes may be of the same array; an axis without a number has any size."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(
        a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in zip(one, other, strict=True)
    )


def _differ(what: str, own: Sequence[Info], other: Sequence[Info], words: tuple[str, str]) -> str:
    one, two = (_names([each["name"] for each in listed]) for listed in (own, other))
    return f"{words[0]} and {words[1]} have different {what}: {one}, and {two}"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(visible(name)[:80] for name in names[:NAMED])
    return f"{shown or 'none'}{f' and {len(names) - NAMED} more' if len(names) > NAMED else ''}"


def _unlike(what: str, own: Info, other: Info, words: tuple[str, str]) -> str:
    one, two = (f"{each.get('dtype', '')} {_sizes(each['shape'])}".strip() for each in (own, other))
    name = visible(own["name"])[:80]
    return f"{what} {name} is {one} in {words[0]}, and {two} in {words[1]}"


def _sizes(shape: Shape) -> str:
    """As in Python: (batch, 10)."""
    sizes = ["?" if size is None else str(size) for size in shape or ()]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
