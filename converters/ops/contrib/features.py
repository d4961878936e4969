"""Operators of `ai.onnx.ml` on single features: codes, choices and gaps."""

import math
from collections.abc import Iterable

import onnx

from xbench.converters.ops.contrib.call import Call, NoBody
from xbench.converters.ops.contrib.linear import floats

LONGEST = 10_000  # keys or categories: each element is compared with all of them
TEXT = onnx.TensorProto.STRING


def integers(name: str, values: Iterable[float]) -> str:
    """Raises:
    NoBody: one is no integer.
    """
    listed = list(values)
    if not all(isinstance(each, int) for each in listed):
        raise NoBody
    return f"{name} = Constant <value = int64[{len(listed)}] {{{', '.join(map(repr, listed))}}}> ()"


def one_hot_encoder(call: Call) -> Iterable[str]:
    """Other numbers than the categories become zeros."""
    known = _distinct(call.attributes["cats_int64s"])
    if not call.integer("zeros", 1) or call.version < 13 or call.types[0] == TEXT:
        raise NoBody
    yield integers("known", known) + "\nwhole = Cast <to = 7> (input)\nlast = Constant <value_ints = [-1]> ()"
    yield "each = Unsqueeze (whole, last)\nsame = Equal (each, known)\noutput = Cast <to = 1> (same)"


def _distinct(values: list[float]) -> list[float]:
    """Raises:
    NoBody: they are none, too many, not finite, or one comes twice: operator versions differ in which counts.
    """
    if not 0 < len(values) <= LONGEST or len({*values}) < len(values) or not all(map(math.isfinite, values)):
        raise NoBody
    return values


def label_encoder(call: Call) -> Iterable[str]:
    """Of numbers to numbers."""
    given = call.attributes
    whole, mapped_whole = "keys_int64s" in given, "values_int64s" in given
    keys = _distinct(given["keys_int64s" if whole else "keys_floats"])
    values = given["values_int64s" if mapped_whole else "values_floats"]
    if call.version < 13 or len(values) != len(keys) or any(word.endswith("_tensor") for word in given):
        raise NoBody
    yield integers("keys", keys) if whole else floats("keys", keys)
    yield integers("values", values) if mapped_whole else floats("values", values)
    if mapped_whole:
        yield integers("other", [given.get("default_int64", -1)])
    else:
        yield floats("other", [given.get("default_float", -0.0)])
    yield "last = Constant <value_ints = [-1]> ()\neach = Unsqueeze (input, last)\nsame = Equal (each, keys)"
    yield "counted = Cast <to = 1> (same)\nplace = ArgMax <axis = -1, keepdims = 0> (counted)"
    yield "hits = ReduceSum <keepdims = 0> (counted, last)\nhit = Cast <to = 9> (hits)"
    yield "value = Gather (values, place)\noutput = Where (hit, value, other)"


def array_feature_extractor(call: Call) -> Iterable[str]:
    if call.rank(0) < 2 or call.types[0] == TEXT:  # an array of one axis gets another in front
        raise NoBody
    yield "line = Constant <value_ints = [-1]> ()\nindices = Reshape (places, line)"
    yield "output = Gather <axis = -1> (input, indices)"


PARTS = 64
VECTORS = " ".join(f"x{part}" for part in range(PARTS))


def feature_vectorizer(call: Call) -> Iterable[str]:
    """Matrices side by side; ONNX Runtime fills or cuts those of another width than is declared."""
    widths = list(call.attributes["inputdimensions"])
    if [shape[1] if shape and len(shape) == 2 else None for shape in call.shapes] != widths or not all(call.inputs):
        raise NoBody
    for part in range(len(widths)):
        yield f"x{part}_float = Cast <to = 1> (x{part})"
    yield f"output = Concat <axis = 1> ({', '.join(f'x{part}_float' for part in range(len(widths)))})"


def imputer(call: Call) -> Iterable[str]:
    """What equals one number is replaced: by a number, or by one for each column."""
    given = call.attributes
    whole = bool(given.get("imputed_value_int64s"))
    values = given["imputed_value_int64s" if whole else "imputed_value_floats"]
    if len(values) > 1 and (call.rank(0) != 2 or (call.shapes[0] or ())[1] != len(values)):
        raise NoBody
    if whole:
        yield integers("values", values) + "\n" + integers("wanted", [given.get("replaced_value_int64", 0)])
        yield "gone = Equal (input, wanted)"
    else:
        wanted = call.number("replaced_value_float", 0.0)
        yield floats("values", values) + "\n" + floats("wanted", [0.0 if math.isnan(wanted) else wanted])
        yield "gone = IsNaN (input)" if math.isnan(wanted) else "gone = Equal (input, wanted)"
    yield "output = Where (gone, values, input)"
