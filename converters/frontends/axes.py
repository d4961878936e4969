"""Sizes of a file's dynamic axes: those of `--shape`, and what is asked for where they are missing."""

from collections.abc import Sequence
from typing import Any

import onnx
import onnx_ir as ir

from xbench import models
from xbench.converters.source import BATCH, Source, chosen_size, usual_size
from xbench.errors import XBenchError

_NUMBERS = """
    FLOAT DOUBLE FLOAT16 BFLOAT16 COMPLEX64 COMPLEX128 BOOL INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64
"""
DRAWN = {ir.DataType[name] for name in _NUMBERS.split()}  # the types that inputs may have
INFERRED = "unk__"  # begins the names that ONNX's shape inference gives to axes without one


def fix_axes(proto: onnx.ModelProto, source: Source) -> None:
    """Gives dynamic axes the sizes of `--shape`: by the axis' name, or all of an input by the input's.

    Raises:
        XBenchError: a name that is neither, or a size that contradicts the file.
    """
    constants = {tensor.name for tensor in proto.graph.initializer}
    inputs = {
        value.name: value.type.tensor_type.shape.dim for value in proto.graph.input if value.name not in constants
    }
    axes = {dim.dim_param for dims in inputs.values() for dim in dims if dim.dim_param}
    for name, sizes in source.shapes.items():
        if name in inputs:
            _fix_input(source.place, name, inputs[name], sizes)
        elif name in axes and len(sizes) == 1:
            for dim in (dim for dims in inputs.values() for dim in dims if dim.dim_param == name):
                _fix_axis(dim, sizes[0])
        else:
            known = ", ".join(sorted({*axes, *inputs})) or "none"
            raise XBenchError(f"{source.place} has no axis or input {name!r} of that rank; it has {known}")
    if source.auto:
        _fix_others(inputs.values())
    if source.shapes or source.auto:
        del proto.graph.value_info[:]


def _fix_others(inputs: Any) -> None:
    """Gives every dynamic axis but the batch the size that is usual for its name."""
    for dims in inputs:
        for axis, dim in enumerate(dims):
            if axis and not dim.HasField("dim_value"):
                _fix_axis(dim, chosen_size(dim.dim_param, axis, len(dims)))


def _fix_input(place: str, name: str, dims: Any, sizes: tuple[int | str, ...]) -> None:
    given = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
    agree = len(given) == len(sizes) and all(old in (None, new) for old, new in zip(given, sizes, strict=True))
    if not agree:
        raise XBenchError(f"{place}: --shape {name}={','.join(map(str, sizes))} contradicts the file's {given}")
    for dim, size in zip(dims, sizes, strict=True):
        _fix_axis(dim, size)


def _fix_axis(dim: Any, size: int | str) -> None:
    if isinstance(size, int):
        dim.dim_value = size
    else:
        dim.dim_param = size


def inputs_of(source: Source, values: Sequence[ir.Value]) -> list[models.Input]:
    """The inputs of a file, in no particular range; the first axis of each is the batch where it is symbolic.

    Raises:
        XBenchError: sizes are not known; it names all of them.
    """
    inputs = [_input(source, value) for value in values]
    missing = [
        (each, axis) for each in inputs for axis, size in enumerate(each.shape) if axis and isinstance(size, str)
    ]
    if missing:
        raise XBenchError(f"{source.place}: {_wanted(missing)}")
    return inputs


def input_of(source: Source, value: ir.Value) -> models.Input:
    """One input of a file, as `inputs_of`."""
    return inputs_of(source, [value])[0]


def _input(source: Source, value: ir.Value) -> models.Input:
    """An input as the file declares it: an axis is a size, or a name, "" if it has none.

    Raises:
        XBenchError: it is no tensor of numbers, or nothing is known of its shape.
    """
    what = "a sequence or optional" if value.type is not None and not isinstance(value.type, ir.TensorType) else ""
    if not what and value.dtype is not None and value.dtype not in DRAWN:
        what = f"of type {value.dtype.name.lower()}"
    if what:
        raise XBenchError(f"{source.place}: input {value.name} is {what}; xbench feeds tensors of numbers")
    if value.shape is None or value.dtype is None:
        raise XBenchError(f"{source.place}: the shape of input {value.name} is not known: --shape {value.name}=...")
    names = [size if isinstance(size, int) else str(getattr(size, "value", None) or "") for size in value.shape]
    shape = tuple(BATCH if axis == 0 and isinstance(name, str) else name for axis, name in enumerate(names))
    return models.Input(str(value.name), shape, value.dtype.numpy().name)


def _wanted(missing: Sequence[tuple[models.Input, int]]) -> str:
    """What is asked for: options that would do for axes of the usual names."""
    options: dict[str, None] = {}
    for each, axis in missing:
        name = str(each.shape[axis])
        size = usual_size(name) or "SIZE"
        if name.isidentifier() and not name.startswith(INFERRED):
            options[f"--shape {name}={size}"] = None
        else:
            sizes = (size if isinstance(size, int) or at == 0 else "?" for at, size in enumerate(each.shape))
            options[f"--shape {each.name}={','.join(map(str, sizes))}"] = None
    asked = " ".join(options)
    if len(options) > 1:
        return f"{len(options)} sizes are dynamic; give them: {asked}, or all by --shape auto"
    each, axis = missing[0]
    return f"axis {axis} of input {each.name} is dynamic; give its size: {asked}"
