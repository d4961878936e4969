"""Operators on quantised numbers of a few bits, each with its scale and zero point."""

from collections.abc import Callable, Iterable

import onnx

from xbench.converters.ops.contrib.call import Call, NoBody

BYTE = onnx.TensorProto.UINT8
KNOWN_BEFORE = {BYTE, onnx.TensorProto.INT8, onnx.TensorProto.INT32}


def _dequantised(call: Call, first: int, name: str, target: str) -> str:
    """An input with its scale and zero point, which follow it."""
    zero = f", {name}_zero" if call.has(first + 2) else ""
    return f"{target} = DequantizeLinear ({name}, {name}_scale{zero})"


def _quantised(call: Call, source: str, zero: int, target: str = "output") -> str:
    return f"{target} = QuantizeLinear ({source}, y_scale{', y_zero' if call.has(zero) else ''})"


def between(
    function: str, sides: str = "a", words: Callable[[Call], str] | None = None
) -> Callable[[Call], Iterable[str]]:
    """A float32 operator between dequantised inputs and a quantised output."""

    def body(call: Call) -> Iterable[str]:
        if call.integer("channels_last", 0):
            raise NoBody
        for number, name in enumerate(sides):
            yield _dequantised(call, 3 * number, name, f"{name}_float")
        given = words(call) if words else ""
        arguments = ", ".join(f"{name}_float" for name in sides)
        yield f"result = {function} {f'<{given}> ' if given else ''}({arguments})"
        yield _quantised(call, "result", 3 * len(sides) + 1)

    return body


def slope(call: Call) -> str:
    return f"alpha = {call.number('alpha', 0.01)!r}"


def window(call: Call) -> str:
    return call.named("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def linear(function: str) -> Callable[[Call], Iterable[str]]:
    """ONNX's own QuantizeLinear or DequantizeLinear; before opset 21 those know no numbers of 4 and 16 bits."""

    def body(call: Call) -> Iterable[str]:
        kind = call.types[2] if call.has(2) else call.types[0] if function == "DequantizeLinear" else BYTE
        if call.version < 13 or (call.version < 21 and kind not in KNOWN_BEFORE) or "block_size" in call.attributes:
            raise NoBody
        inputs = f"a, a_scale{', a_zero' if call.has(2) else ''}"
        yield f"output = {function} <axis = {call.integer('axis', 1)}> ({inputs})"

    return body


PARTS = 64  # of a concatenation
JOINED = " ".join(f"x{part} x{part}_scale x{part}_zero" for part in range(PARTS))


def joined(call: Call) -> Iterable[str]:
    """QLinearConcat of any number of parts, each with its scale and zero point, into one scale."""
    count, rest = divmod(len(call.inputs) - 2, 3)
    if rest or not (count and all(call.inputs)):
        raise NoBody
    for part in range(count):
        yield f"x{part}_float = DequantizeLinear (x{part}, x{part}_scale, x{part}_zero)"
    parts = ", ".join(f"x{part}_float" for part in range(count))
    yield f"result = Concat <axis = {int(call.attributes['axis'])}> ({parts})"
    yield _quantised(call, "result", 1)


def chosen(call: Call) -> Iterable[str]:
    yield "a_float = DequantizeLinear (a, a_scale, a_zero)\nb_float = DequantizeLinear (b, b_scale, b_zero)"
    yield "result = Where (condition, a_float, b_float)"
    yield _quantised(call, "result", 8)


def softmax(call: Call) -> Iterable[str]:
    """Before opset 13, which an attribute tells, it is over all axes from one on. The default is the last, as
    ONNX Runtime declares it, at any opset."""
    yield _dequantised(call, 0, "a", "a_float")
    if int(call.attributes["opset"]) >= 13:
        yield f"result = Softmax <axis = {call.integer('axis', -1)}> (a_float)"
    else:
        yield f"flat = Flatten <axis = {call.integer('axis', -1)}> (a_float)\nshares = Softmax <axis = 1> (flat)"
        yield "shape = Shape (a)\nresult = Reshape (shares, shape)"
    yield _quantised(call, "result", 4)


def convolution(call: Call) -> Iterable[str]:
    """ONNX's own QLinearConv, or with the channels of its input and its output last."""
    words = call.named("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    last = call.integer("channels_last", 0)
    axes = [*range(call.rank(3))] if last else []
    source, target = ("turned", "made") if last else ("a", "output")
    if last:
        yield f"turned = Transpose <perm = {[0, *axes[-1:], *axes[1:-1]]}> (a)"
    inputs = f"{source}, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero{', bias' if call.has(8) else ''}"
    yield f"{target} = QLinearConv {f'<{words}> ' if words else ''}({inputs})"
    if last:
        yield f"output = Transpose <perm = {[0, *axes[2:], 1]}> (made)"


def gemm(call: Call) -> Iterable[str]:
    """`c` counts in steps of the scales of `a` and `b`; without a scale the output is float32."""
    for name in "ab":
        turned = call.integer(f"trans{name.upper()}", 0)
        yield f"{name}_turned = Transpose <perm = [1, 0]> ({name})" if turned else f"{name}_turned = Identity ({name})"
    yield f"whole = MatMulInteger (a_turned, b_turned, a_zero{', b_zero' if call.has(5) else ''})"
    yield "summed = Add (whole, c)" if call.has(6) else "summed = Identity (whole)"
    yield call.constant("alpha", call.number("alpha", 1.0), "a_scale")
    yield "step = Mul (a_scale, alpha)\nsteps = Mul (step, b_scale)\nfloated = Cast <to = 1> (summed)"
    yield "result = Mul (floated, steps)"
    yield _quantised(call, "result", 8) if call.has(7) else "output = Identity (result)"


def dynamic_quantize_matmul(call: Call) -> Iterable[str]:
    yield "quantised, scale, zero = DynamicQuantizeLinear (a)"
    yield f"whole = MatMulInteger (quantised, b, zero{', b_zero' if call.has(3) else ''})"
    yield "factor = Mul (scale, b_scale)"
    yield from _floated(call.has(4))


def matmul_integer_to_float(call: Call) -> Iterable[str]:
    if call.has(5) and not call.has(4):
        raise NoBody
    zeros = ", ".join(name for index, name in ((4, "a_zero"), (5, "b_zero")) if call.has(index))
    yield f"whole = MatMulInteger (a, b{', ' + zeros if zeros else ''})"
    yield "factor = Mul (a_scale, b_scale)"
    yield from _floated(call.has(6))


def _floated(biased: bool) -> Iterable[str]:
    yield "product = Cast <to = 1> (whole)"
    yield "scaled = Mul (product, factor)"
    yield "output = Add (scaled, bias)" if biased else "output = Identity (scaled)"


def matmul_nbits(call: Call) -> Iterable[str]:
    """`b` is [n, blocks, bytes]: numbers of a few bits, the first in the lowest of a byte; each block has a scale."""
    bits, size = call.integer("bits", 4), call.integer("block_size", 0)
    columns, rows = call.integer("K", 0), call.integer("N", 0)
    if call.version < 13 or bits not in (2, 4, 8) or call.has(4) or not (size and columns and rows):
        raise NoBody
    blocks = -(-columns // size)
    yield from _unpacked("b", bits, (rows, blocks, size), "numbers", size)
    if not call.has(3):
        yield f"zeros = Constant <value_float = {float(2 ** (bits - 1))}> ()"
    elif call.types[3] == onnx.TensorProto.UINT8:
        yield from _unpacked("b_zeros", bits, (rows, blocks, 1), "zeros", blocks)
    elif call.types[3] == onnx.TensorProto.FLOAT:
        yield f"zeros_shape = Constant <value_ints = [{rows}, {blocks}, 1]> ()\nzeros = Reshape (b_zeros, zeros_shape)"
    else:
        raise NoBody
    yield f"scales_shape = Constant <value_ints = [{rows}, {blocks}, 1]> ()"
    yield "factors = Reshape (b_scales, scales_shape)"
    yield "centred = Sub (numbers, zeros)"
    yield "factors_float = Cast <to = 1> (factors)"
    yield "weights = Mul (centred, factors_float)"
    yield f"matrix_shape = Constant <value_ints = [{rows}, {blocks * size}]> ()"
    yield "padded = Reshape (weights, matrix_shape)"
    yield f"start = Constant <value_ints = [0]> ()\nend = Constant <value_ints = [{columns}]> ()"
    yield "axis = Constant <value_ints = [1]> ()"
    yield "matrix = Slice (padded, start, end, axis)"
    yield "turned = Transpose <perm = [1, 0]> (matrix)"
    yield "like = CastLike (turned, a)" if call.version >= 15 else "like = Identity (turned)"
    yield "product = MatMul (a, like)"
    yield "output = Add (product, bias)" if call.has(5) else "output = Identity (product)"


def _unpacked(name: str, bits: int, shape: tuple[int, int, int], target: str, along: int) -> Iterable[str]:
    """The numbers in the bytes of a value, as float32 of a shape; each row of `along` of them fills whole bytes."""
    parts, rows = 8 // bits, shape[0] * (shape[1] if along == shape[2] else 1)
    row_bytes = -(-along // parts)
    yield f"{name}_whole = Cast <to = 6> ({name})"
    yield f"{name}_rows = Constant <value_ints = [{rows}, {row_bytes}, 1]> ()"
    yield f"{name}_bytes = Reshape ({name}_whole, {name}_rows)"
    yield f"{name}_base = Constant <value = int32 {{{2**bits}}}> ()"
    for part in range(parts):
        yield f"{name}_step{part} = Constant <value = int32 {{{2 ** (bits * part)}}}> ()"
        yield f"{name}_high{part} = Div ({name}_bytes, {name}_step{part})"
        yield f"{name}_part{part} = Mod ({name}_high{part}, {name}_base)"
    yield f"{name}_all = Concat <axis = 2> ({', '.join(f'{name}_part{part}' for part in range(parts))})"
    yield f"{name}_flat = Constant <value_ints = [{rows}, {row_bytes * parts}]> ()"
    yield f"{name}_line = Reshape ({name}_all, {name}_flat)"
    yield f"{name}_start = Constant <value_ints = [0]> ()\n{name}_end = Constant <value_ints = [{along}]> ()"
    yield f"{name}_axis = Constant <value_ints = [1]> ()"
    yield f"{name}_kept = Slice ({name}_line, {name}_start, {name}_end, {name}_axis)"
    yield f"{name}_shape = Constant <value_ints = [{shape[0]}, {shape[1]}, {shape[2]}]> ()"
    yield f"{name}_shaped = Reshape ({name}_kept, {name}_shape)"
    yield f"{target} = Cast <to = 1> ({name}_shaped)"
