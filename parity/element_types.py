"""Checks the element types of a runtime's results: right numbers in another type are not the graph's result."""

from collections.abc import Mapping

import numpy as np

from xbench.converters.printable import one_line
from xbench.parity.verdict import TYPE, Changed, compared

NARROWER = {"float64": "float32", "int64": "int32", "uint64": "uint32"}  # what JAX uses instead
HALVES = ("float16", "bfloat16")


def refuse_others(candidate: Mapping[str, object], reference: Mapping[str, np.ndarray], asked: str = "fp32") -> None:
    """Refuses results whose types differ from the graph's; a loss may be any number.

    What has 64 bits in the graph may have 32 of the same kind: JAX has no other type, and the values are the same. A
    float may have 16 bits only if a precision below float32 was requested.

    Raises:
        Changed: a type differs; the message names the tensor.
    """
    for name in compared(reference, candidate):
        if name in candidate and not name.startswith("loss"):
            given, expected = candidate[name], type_in_graph(name, reference)
            if not isinstance(given, np.ndarray | np.generic):
                raise Changed(f"{name} is a {one_line(type(given).__name__)}, not an array")
            allowed = {expected, NARROWER.get(expected)} | (set(HALVES) if asked != "fp32" else set())
            if given.dtype.name not in allowed:
                raise Changed(f"{name} is {one_line(given.dtype.name)} where the graph says {expected}")


def type_in_graph(name: str, reference: Mapping[str, np.ndarray]) -> str:
    """The type of a tensor in the graph: a reference stores everything floating in float64."""
    dtype = str(reference.get(TYPE + name, reference[name].dtype.name))
    return "float32" if dtype == "float64" and TYPE + name not in reference else dtype
