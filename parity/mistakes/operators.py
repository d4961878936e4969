"""Mistakes of one operator. `of(operator, arguments, attributes)` lists those possible in a call of it.

Each is a change of the operator in PyTorch's table; the caller skips one that changes nothing for a call.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
import torch

from xbench.parity.mistakes import Change, Changes, Mistake, Operator, argument, attribute, layers, result

Arguments = Sequence[Any]
Attributes = Mapping[str, Any]
# Attributes with a fixed set of words, and the words.
WORDS = {
    "approximate": ("none", "tanh"),
    "auto_pad": ("SAME_UPPER", "SAME_LOWER", "VALID"),
    "coordinate_transformation_mode": (
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
    ),
    "direction": ("forward", "reverse"),
    "mode": ("nearest", "linear", "cubic", "bilinear", "bicubic", "DCR", "CRD", "constant", "reflect", "edge", "wrap"),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "padding_mode": ("zeros", "border", "reflection"),
}
NAMED = {  # common names of switches: operator's attribute -> name, and in words its state without and with it
    "ceil_mode": ("ceil_mode", "the size of the output is rounded down, not up", "it is rounded up, not down"),
    "linear_before_reset": (
        "gru_reset",
        "the reset gate acts before the product with the recurrent weights, not after it",
        "the reset gate acts after the product with the recurrent weights, not before it",
    ),
    "count_include_pad": ("count_include_pad", "padding is not counted in the average", "padding is counted"),
}


def of(operator: str, arguments: Arguments, attributes: Attributes) -> Iterator[Mistake]:
    """The mistakes possible in a call, the most specific first."""

    def mistake(name: str, says: str, change: Change) -> Mistake:
        return Mistake(name, f"{operator}: {says}", {operator: change})

    for kind in KINDS:
        for name, says, change in kind(operator, arguments, attributes):
            yield mistake(name, says, change)


BROADCAST = ("PRelu", "Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Sum", "Mean")


def _broadcast(operator: str, arguments: Arguments, attributes: Attributes) -> Changes:
    """An operand of one axis placed along another axis of the same size: the last instead of the channels, as with
    channels last, or the channels instead of the last."""
    arrays = {i: a for i, a in enumerate(arguments) if isinstance(a, torch.Tensor)}
    if operator not in BROADCAST or len(arrays) < 2:
        return
    for index, a in arrays.items():
        others = [other for i, other in arrays.items() if i != index]
        sizes, long = torch.broadcast_shapes(*(other.shape for other in others)), [n != 1 for n in a.shape]
        if sum(long) != 1 or len(sizes) < a.ndim:
            continue
        own = long.index(True) + len(sizes) - a.ndim
        for axis, size in enumerate(sizes):
            if axis != own and size == a.numel():
                says = f"its operand {index}, of {size} numbers, lies along axis {axis}, not {own}"
                shape = [size if i == axis else 1 for i in range(len(sizes))]
                yield "broadcast_axis", says, argument(index, functools.partial(torch.reshape, shape=shape))


BIASES = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2, "LSTM": 3, "GRU": 3, "RNN": 3, "LayerNormalization": 2}
ZEROED = {"BatchNormalization": 2, "InstanceNormalization": 2, "GroupNormalization": 2}


def _biases(operator: str, arguments: Arguments, attributes: Attributes) -> Changes:
    index = {**BIASES, **ZEROED}.get(operator, len(arguments))
    if index < len(arguments) and arguments[index] is not None:
        yield "missing_bias", "its bias is missing", argument(index, lambda b: torch.zeros_like(b))
    if operator in ("LSTM", "GRU", "RNN") and len(arguments) > 3 and arguments[3] is not None:
        half = {"input": lambda b: _halved(b, 1), "recurrent": lambda b: _halved(b, 0)}
        for which, change in half.items():
            yield "missing_bias", f"the {which} half of its bias is missing", argument(3, change)


def _halved(b: Any, keep: int) -> Any:
    first, second = b.chunk(2, 1)
    return torch.cat([first * (keep == 0), second * (keep == 1)], 1)


def _paddings(operator: str, arguments: Arguments, attributes: Attributes) -> Changes:
    """The same total padding distributed differently; or none."""
    pads = attributes.get("pads")
    if not pads or not any(pads) or operator == "Pad":
        return
    half = len(pads) // 2
    total = [low + high for low, high in zip(pads[:half], pads[half:], strict=True)]
    spreads = {
        "all of it is at the end": [0] * half + total,
        "all of it is at the beginning": total + [0] * half,
        "more of it is at the end": [t // 2 for t in total] + [t - t // 2 for t in total],
        "more of it is at the beginning": [t - t // 2 for t in total] + [t // 2 for t in total],
        "one less at the beginning, one more at the end": [p - 1 for p in pads[:half]] + [p + 1 for p in pads[half:]],
        "one more at the beginning, one less at the end": [p + 1 for p in pads[:half]] + [p - 1 for p in pads[half:]],
        "there is none": [0] * len(pads),
    }
    for says, spread in spreads.items():
        if tuple(spread) != tuple(pads) and min(spread) >= 0:
            yield "padding", f"its padding is {tuple(spread)}, not {tuple(pads)}: {says}", attribute("pads", spread)


# Integers that count or name something, and switches whose results cannot be distinguished or that others decide.
NO_SWITCH = {"batch_axis", "block_size", "dtype", "group", "num_outputs", "offset_group", "output_dtype", "precision"}
NO_SWITCH |= {"sorted", "stash_type", "storage_order", "time_axis", "training_mode", "unbiased", "value_int"}


def _switches(operator: str, arguments: Arguments, attributes: Attributes) -> Changes:
    """Attributes that are 0 or 1 inverted; strides and dilations of another size."""
    for name, default in _defaults(operator).items():
        value = attributes.get(name, default)
        if name in NO_SWITCH or value not in (0, 1):
            continue
        slug, without, with_ = NAMED.get(name, (name, f"{name} is 0, not 1", f"{name} is 1, not 0"))
        yield slug, without if value else with_, attribute(name, 1 - int(value))
    rank = getattr(arguments[0], "ndim", 2) - 2 if arguments else 0
    for name in ("strides", "dilations") if rank > 0 and "strides" in _known(operator) else ():
        own = tuple(attributes.get(name) or (1,) * rank)
        for step in (1, 2, 3):
            if own != (step,) * rank:
                yield name, f"its {name} are {step}, not {own}", attribute(name, (step,) * rank)


def _known(operator: str) -> Mapping[str, Any]:
    try:
        return dict(onnx.defs.get_schema(operator).attributes)
    except onnx.defs.SchemaError:
        return {}


def _defaults(operator: str) -> dict[str, int]:
    """The integer attributes of an operator, and their defaults."""
    integer = onnx.defs.OpSchema.AttrType.INT
    return {name: a.default_value.i for name, a in _known(operator).items() if a.type == integer and not a.required}


def _words(operator: str, arguments: Arguments, attributes: Attributes) -> Changes:
    for name in _known(operator).keys() & WORDS.keys():
        for word in WORDS[name]:
            if word != attributes.get(name):
                yield name, f"{name} is {word}", attribute(name, word)
    axis = attributes.get("axis")
    if "axis" in _known(operator) and arguments and hasattr(arguments[0], "ndim"):
        for other in range(arguments[0].ndim):
            if other != axis:
                yield "axis", f"it works along axis {other}", attribute("axis", other)


def _everywhere(operator: str, arguments: Arguments, attributes: Attributes) -> Changes:
    """Mistakes possible in any operator."""
    arrays = [i for i, a in enumerate(arguments) if isinstance(a, torch.Tensor)]
    for index in arrays:
        which = "it is missing" if len(arrays) == 1 or operator in layers.NORMS else f"only its operand {index} arrives"
        yield f"missing_{operator.lower()}", which, functools.partial(_passed, index)
    yield "softmax_twice", "a Softmax is applied to what it gives", result(lambda y: torch.softmax(y, -1))
    yield "extra_relu", "a Relu is applied to what it gives", result(torch.relu)
    yield "transposed", "its last two axes are exchanged", result(lambda y: y.transpose(-1, -2))
    yield "sign", "it has the other sign", result(torch.neg)
    for index in arrays[:2]:
        says = f"height and width of its operand {index} are exchanged"
        yield "swapped_axes", says, argument(index, lambda x: x.transpose(-1, -2))


def _passed(index: int, operator: Operator) -> Operator:
    """Returns an operand in place of the first result; further results stay."""

    def call(*given: Any, **named: Any) -> Any:
        made = operator(*given, **named)
        return (given[index], *made[1:]) if isinstance(made, tuple) else given[index]

    return call


KINDS = (layers.of, _broadcast, _biases, _paddings, _switches, _words, _everywhere)
