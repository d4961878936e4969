"""Which nodes stay in float32 if a network is computed in a lower precision: the option `wide` of a runtime's word.

A node is named by the first tensor that it computes, by its ONNX name. `onnxruntime:wide=conv1+fc` leaves two in
float32. In a word every character of a name that is not a letter, a digit or one of `_ . / - :` is percent-encoded.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import quote, unquote

from xbench.runtimes import Unavailable

BETWEEN, PLAIN = "+", "/:"  # what separates names; what is written as it is besides letters, digits and `_.-~`


def word(tensors: Iterable[str]) -> str:
    """The value of the option for these nodes."""
    return BETWEEN.join(quote(each, safe=PLAIN) for each in tensors)


def option(runtime: str, tensors: Iterable[str]) -> str:
    """A runtime's word with the option for these nodes."""
    return f"{runtime}{',' if ':' in runtime else ':'}wide={word(tensors)}"


def wide(extra: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes in the options of a runtime's word; `wide=` names none."""
    return tuple(dict.fromkeys(unquote(each) for each in extra.get("wide", "").split(BETWEEN) if each))


def check(tensors: Iterable[str], known: Collection[str], precision: str) -> None:
    """
    Raises:
        Unavailable: a tensor is not computed in the lower precision anyway.
    """
    for each in tensors:
        if each not in known:
            near = difflib.get_close_matches(each, known, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise Unavailable(f"wide={quote(each, safe=PLAIN)}: no node in {precision} computes it{hint}")
