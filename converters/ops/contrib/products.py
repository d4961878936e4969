"""Products that end in an activation, and products of transposed matrices."""

from collections.abc import Iterable
from typing import Any

from xbench.converters.ops.contrib.call import Call, NoBody

# The activations that may follow a product, and the names of their parameters.
ACTIVATIONS = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}


def activated(call: Call, source: str, word: Any, parameters: Iterable[float]) -> Iterable[str]:
    """`output`, the activation of a value.

    Raises:
        NoBody: it is another one.
    """
    name = word.decode() if isinstance(word, bytes) else str(word)
    if name not in ACTIVATIONS:
        raise NoBody
    given = dict(zip(ACTIVATIONS[name], parameters, strict=False))
    if name == "Clip":
        yield from (call.constant(end, float(given[end]), source) for end in ("min", "max"))
        yield f"output = Clip ({source}, min, max)"
    else:
        words = ", ".join(f"{key} = {float(value)!r}" for key, value in given.items())
        yield f"output = {name} <{words}> ({source})" if words else f"output = {name} ({source})"


def convolved(call: Call, kernel: str) -> Iterable[str]:
    """`summed`, a convolution with its bias and the value that is added."""
    words = call.named("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    inputs = f"input, {kernel}, bias" if call.has(2) else f"input, {kernel}"
    yield f"product = Conv <{words}> ({inputs})" if words else f"product = Conv ({inputs})"
    yield "summed = Add (product, other)" if call.has(3) else "summed = Identity (product)"


def fused_conv(call: Call) -> Iterable[str]:
    yield from convolved(call, "weight")
    yield from activated(call, "summed", call.attributes["activation"], call.attributes.get("activation_params", ()))


def fused_gemm(call: Call) -> Iterable[str]:
    settings = call.named("alpha", "beta", "transA", "transB")
    inputs = "a, b, c" if call.has(2) else "a, b"
    yield f"product = Gemm <{settings}> ({inputs})" if settings else f"product = Gemm ({inputs})"
    usual = {"LeakyRelu": (0.01,), "HardSigmoid": (0.2, 0.5)}.get(call.attributes["activation"].decode(), ())
    words = [f"activation_{word}" for word in ("alpha", "beta")]
    own = [call.attributes[word] for word in words if word in call.attributes]
    yield from activated(call, "product", call.attributes["activation"], own or usual)


def fused_matmul(call: Call) -> Iterable[str]:
    if call.integer("transBatchA", 0) or call.integer("transBatchB", 0):
        raise NoBody
    for index, name in enumerate(("a", "b")):
        shape = call.shapes[index]
        rank = None if shape is None else len(shape)
        if not call.integer(f"trans{name.upper()}", 0) or rank == 1:
            yield f"{name}_turned = Identity ({name})"
        elif rank is None:
            yield f'{name}_turned = Einsum <equation = "...ij->...ji"> ({name})'
        else:
            axes = [*range(rank - 2), rank - 1, rank - 2]
            yield f"{name}_turned = Transpose <perm = {axes}> ({name})"
    yield "product = MatMul (a_turned, b_turned)"
    yield call.constant("alpha", call.number("alpha", 1.0), "product")
    yield "output = Mul (product, alpha)"
