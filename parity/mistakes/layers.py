"""Mistakes of particular layers: normalisations, recurrent layers, convolutions, poolings, activations."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from xbench.parity.mistakes import Changes, Operator, argument, attribute, instead, result

NORMS = (
    "BatchNormalization",
    "LayerNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "RMSNormalization",
)
EPSILONS = {1e-3: "Keras's default", 1e-5: "PyTorch's default", 1e-6: "Flax's default", 1e-12: "BERT's", 0.0: "none"}
LEAST = 2.0**-126  # in place of an epsilon of zero, which PyTorch refuses in training


def of(operator: str, arguments: Sequence[Any], attributes: Mapping[str, Any]) -> Changes:
    """The mistakes of one kind of layer; none for all others."""
    if operator in NORMS:
        yield from _norms(operator, attributes)
    if operator in ("LSTM", "GRU"):
        yield from _gates(operator)
    if operator == "GRU":
        yield "gru_update", "the update gate keeps what it should replace", instead(_gru_inverted)
    if operator == "LSTM":
        yield "lstm_forget_bias", "1 is added to the bias of the forget gate", argument(3, _forgetting)
    if operator in ("Conv", "ConvTranspose"):
        flipped = argument(1, lambda w: w.flip(tuple(range(2, w.ndim))))
        yield "kernel_flipped", "the kernel is turned around, as in a true convolution", flipped
        yield "kernel_transposed", "height and width of the kernel are exchanged", argument(1, _transposed)
        yield "image_transposed", "height and width of the image are exchanged", argument(0, _transposed)
    if operator == "MaxPool":
        yield "pool_kind", "the average is taken, not the maximum", instead(_averaged)
        yield "pool_zero_padding", "padding is zero, not below every number", instead(_zero_padded)
    if operator == "AveragePool":
        yield "pool_kind", "the maximum is taken, not the average", instead(_maximum)
    if operator == "Gelu":
        yield "gelu_sigmoid", "x * sigmoid(1.702 x) in its place", instead(lambda x, **_: x * torch.sigmoid(1.702 * x))
    if operator == "Relu":
        yield "relu6", "it is cut at 6", result(lambda y: y.clamp(max=6))
    if operator == "LogSoftmax":
        yield "no_logarithm", "the logarithm is missing", result(torch.exp)
    if operator in ("Flatten", "Reshape") and getattr(arguments[0], "ndim", 0) == 4:
        last = argument(0, lambda x: x.permute(0, 2, 3, 1).contiguous())
        yield "flatten_order", "the image is flattened with its channels last", last
    if operator == "Sum":
        yield "missing_operand", "only the first operand arrives", instead(lambda x, *_: x)


def _norms(operator: str, attributes: Mapping[str, Any]) -> Changes:
    outside = functools.partial(_norm, operator, lambda v, n, e: torch.sqrt(v) + e)
    yield "epsilon_outside", "epsilon is added outside of the square root", outside
    bessel = functools.partial(_norm, operator, lambda v, n, e: torch.sqrt(v * n / (n - 1) + e))
    yield "norm_unbiased", "it divides by the unbiased variance", bessel
    own = attributes.get("epsilon", 1e-5)
    for value, whose in EPSILONS.items():
        if value != own:
            says = f"epsilon is {value:g} ({whose}), not {own:g}"
            yield "epsilon_value", says, attribute("epsilon", max(value, LEAST))
    if operator == "BatchNormalization":
        yield "norm_mode", "it uses the statistics of the batch, not the running ones", attribute("training_mode", 1)
        yield "norm_mode", "it uses the running statistics, not those of the batch", frozen
        says = "it uses the running statistics, which it still updates, not those of the batch"
        yield "norm_mode", says, functools.partial(frozen, still=False)


def frozen(operator: Operator, still: bool = True) -> Operator:
    """BatchNormalization in evaluation; its statistics stay if `still`."""

    def call(x: Any, scale: Any, bias: Any, mean: Any, var: Any, **named: Any) -> Any:
        copies = mean.clone(), var.clone()  # the backward pass needs what the next step overwrites
        made = operator(x, scale, bias, *copies, **{**named, "training_mode": 0})
        return made if still else (made[0], *operator(x, scale, bias, mean, var, **named)[1:])

    return call


def _norm(kind: str, root: Callable[[Any, int, float], Any], operator: Operator) -> Operator:
    """A normalisation with another divisor: `root` of the variance, the count of numbers in it, epsilon."""

    def standard(x: Any, axes: Sequence[int], epsilon: float, centre: bool = True) -> Any:
        rest = x - x.mean(axes, keepdim=True) if centre else x
        count = int(np.prod([x.shape[axis] for axis in axes]))
        return rest / root((rest * rest).mean(axes, keepdim=True), count, epsilon)

    def column(x: Any, v: Any) -> Any:
        return v.reshape(1, -1, *(1,) * (x.ndim - 2))

    def batch(x: Any, scale: Any, bias: Any, mean: Any, var: Any, *, epsilon: float = 1e-5, **named: Any) -> Any:
        _, *kept = operator(x, scale, bias, mean, var, epsilon=epsilon, **named)
        axes = (0, *range(2, x.ndim))
        if named.get("training_mode"):
            h = standard(x, axes, epsilon)
        else:
            h = (x - column(x, mean)) / root(column(x, var), x.numel() // x.shape[1], epsilon)
        return h * column(x, scale) + column(x, bias), *kept

    def layer(x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5, **_: Any) -> Any:
        h = standard(x, tuple(range(axis % x.ndim, x.ndim)), epsilon, kind == "LayerNormalization") * scale
        return h if bias is None else h + bias

    def instance(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5, **_: Any) -> Any:
        return standard(x, tuple(range(2, x.ndim)), epsilon) * column(x, scale) + column(x, bias)

    def group(x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5, **_: Any) -> Any:
        h = standard(x.reshape(x.shape[0], num_groups, -1), (2,), epsilon).reshape(x.shape)
        return h * column(x, scale) + column(x, bias)

    kinds: dict[str, Operator] = {
        "BatchNormalization": batch,
        "InstanceNormalization": instance,
        "GroupNormalization": group,
    }
    return kinds.get(kind) or layer


def _gates(operator: str) -> Changes:
    """The gates of a recurrent layer's weights taken in another order."""
    letters, count = ("iofc", 4) if operator == "LSTM" else ("zrh", 3)

    def changed(order: tuple[int, ...], inner: Operator) -> Operator:
        def permuted(array: Any, axis: int) -> Any:
            parts = array.chunk(count, axis)
            return torch.cat([parts[i] for i in order], axis)

        def call(x: Any, w: Any, r: Any, b: Any = None, *rest: Any, **named: Any) -> Any:
            halves = None if b is None else torch.cat([permuted(half, 1) for half in b.chunk(2, 1)], 1)
            return inner(x, permuted(w, 1), permuted(r, 1), halves, *rest, **named)

        return call

    for order in itertools.permutations(range(count)):
        if order != tuple(range(count)):
            taken = ", ".join(letters[i] for i in order)
            says = f"the gates are taken in the order {taken}, not {', '.join(letters)}"
            yield f"{operator.lower()}_gates", says, functools.partial(changed, order)


def _gru_inverted(x: Any, w: Any, r: Any, b: Any = None, *rest: Any, **named: Any) -> Any:
    """1 - sigmoid(a) is sigmoid(-a): negates the rows of the update gate, which are ONNX's first."""
    from xbench.converters.ops.torch import TABLE

    sign = torch.ones(3, dtype=w.dtype).repeat_interleave(w.shape[1] // 3)
    sign[: w.shape[1] // 3] = -1
    turned = None if b is None else b * torch.cat([sign, sign])
    return TABLE["GRU"](x, w * sign[:, None], r * sign[:, None], turned, *rest, **named)


def _forgetting(b: Any) -> Any:
    more, size = torch.zeros_like(b), b.shape[1] // 8
    more[:, 2 * size : 3 * size] = 1
    return b + more


def _transposed(x: Any) -> Any:
    return x.transpose(-1, -2) if x.ndim > 3 else x


def _averaged(x: Any, **named: Any) -> Any:
    from xbench.converters.ops.torch import TABLE

    return TABLE["AveragePool"](x, **{k: v for k, v in named.items() if k not in ("outputs", "storage_order")})


def _maximum(x: Any, **named: Any) -> Any:
    from xbench.converters.ops.torch import TABLE

    return TABLE["MaxPool"](x, **{k: v for k, v in named.items() if k != "count_include_pad"})


def _zero_padded(x: Any, *, pads: Sequence[int] = (), **named: Any) -> Any:
    from xbench.converters.ops.torch import TABLE

    sides = [(pads[i], pads[i + len(pads) // 2]) for i in range(len(pads) // 2)]
    flat = [n for pair in reversed(sides) for n in pair]
    return TABLE["MaxPool"](torch.nn.functional.pad(x, flat), **named)
