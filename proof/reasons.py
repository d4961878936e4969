"""Why answers of another program are wrong, where that can be seen: they are right as something else."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xbench.converters.printable import visible
from xbench.parity.verdict import ALLOWED, narrow_of, off
from xbench.proof.question import in_words, set_name

AXES = 5  # of a tensor whose orders are tried
Arrays = Mapping[str, np.ndarray]


def reasons(given: Arrays, number: int, references: Sequence[Arrays], precision: str) -> Iterator[str]:
    """What makes the wrong outputs of a set right, in words, the likeliest first: they belong to another output or set,
    or are laid out in another way. Else what is odd about them."""
    reference, odd = references[number], list[str]()
    for name, array in given.items():
        if is_right(array, name, reference, precision):
            continue
        for other in given:
            if other != name and is_right(array, other, reference, precision):
                yield f"{own(name)} holds what is {own(other)}: the outputs are in another order"
        for place, another in enumerate(references):
            if place != number and is_right(array, name, another, precision):
                yield f"{own(name)} is right for the inputs of {set_name(place)}"
        yield from _layouts(array, name, reference, precision)
        odd += _oddities(array, name, number, references)
    yield from odd


def is_right(array: np.ndarray, name: str, reference: Arrays, precision: str) -> bool:
    """Whether values could be the tensor's, whatever their type."""
    if array.shape != reference[name].shape or (array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16"):
        return False
    least = precision if precision in ALLOWED and precision != "fp32" else narrow_of(reference)
    with np.errstate(all="ignore"):
        return off(array, name, reference) <= ALLOWED[least]


def own(name: str) -> str:
    return visible(name.removeprefix("output/"))


def _layouts(array: np.ndarray, name: str, reference: Arrays, precision: str) -> Iterator[str]:
    shape = reference[name].shape
    if array.size != math.prod(shape):
        return
    if array.shape != shape and is_right(array.reshape(shape), name, reference, precision):
        yield f"{own(name)} is right in the shape {in_words(shape)}"
    if array.dtype.itemsize > 1 and is_right(array.byteswap(), name, reference, precision):
        yield f"the bytes of {own(name)} are in the other order (big-endian)"
    for order in itertools.permutations(range(len(shape))) if 1 < len(shape) <= AXES else ():
        back = tuple(map(int, np.argsort(order)))
        turned = np.ascontiguousarray(array).reshape([shape[axis] for axis in order]).transpose(back)
        if order != tuple(range(len(shape))) and is_right(turned, name, reference, precision):
            yield f"the axes of {own(name)} are in another order: transposed by {back} it is right"


def _oddities(array: np.ndarray, name: str, number: int, references: Sequence[Arrays]) -> Iterator[str]:
    """What is odd about the shape or the values of an output."""
    shape = references[number][name].shape
    if array.shape != shape:
        like = [set_name(place) for place, each in enumerate(references) if each[name].shape == array.shape]
        hint = f", as that of {like[0]} is: is the model of one batch size? Then ask with --same-batch" if like else ""
        yield f"{own(name)} is {in_words(array.shape)}, where the graph gives {in_words(shape)}{hint}"
    elif array.dtype.kind == "f" and (bad := int((~np.isfinite(array)).sum())):
        yield f"{bad} of {array.size} values of {own(name)} are not finite"
    elif array.size and not array.any():
        yield f"{own(name)} is zero"
