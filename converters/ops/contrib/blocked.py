"""Convolutions and pools in blocks of channels, which ONNX Runtime writes with its highest level of optimisation.

In memory a value has its channels in blocks, as many as fill a vector of the CPU: the file is for CPUs with blocks of
this size. Here it is an ordinary value whose channels are filled up with zeros; weights are put in ONNX's own order.
Layouts: ONNX Runtime's core/optimizer/nchwc_transformer.cc and core/mlas/lib/reorder.cpp.
"""

from collections.abc import Iterable

from xbench.converters.ops.contrib.call import Call, NoBody
from xbench.converters.ops.contrib.products import activated, convolved
from xbench.host import machine

SPACE = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
LAST, FIRST = "[0, 3, 1, 2]", "[0, 2, 3, 1]"


def _block() -> int:
    """Channels of a block on this machine.

    Raises:
        NoBody: its CPU has none.
    """
    if size := machine.channel_block():
        return size
    raise NoBody


def reorder_input(call: Call) -> Iterable[str]:
    """Fills up the last block of channels with zeros."""
    last = call.integer("channels_last", 0)
    yield f"image = Transpose <perm = {LAST}> (input)" if last else "image = Identity (input)"
    yield f"block = Constant <value_ints = [{_block()}]> ()"
    yield "one = Constant <value_ints = [1]> ()"
    yield "two = Constant <value_ints = [2]> ()"
    yield "sizes = Shape (image)"
    yield "channels = Slice (sizes, one, two)"
    yield "short = Neg (channels)"
    yield "missing = Mod (short, block)"
    yield "before = Constant <value_ints = [0, 0, 0, 0, 0]> ()"
    yield "after = Constant <value_ints = [0, 0]> ()"
    yield "ends = Concat <axis = 0> (before, missing, after)"
    yield "output = Pad (image, ends)"


def reorder_output(call: Call) -> Iterable[str]:
    """Drops the channels that filled up the last block."""
    if (channels := int(call.attributes["channels"])) < 1:
        raise NoBody
    yield "zero = Constant <value_ints = [0]> ()"
    yield "one = Constant <value_ints = [1]> ()"
    yield f"count = Constant <value_ints = [{channels}]> ()"
    yield "image = Slice (input, zero, count, one)"
    last = call.integer("channels_last", 0)
    yield f"output = Transpose <perm = {FIRST}> (image)" if last else "output = Identity (image)"


def conv(call: Call) -> Iterable[str]:
    shape = call.shapes[1]
    if shape is None or len(shape) != 4 or None in shape:
        raise NoBody
    block, (outputs, inputs, *window) = _block(), [size or 0 for size in shape]
    # With fewer channels than a block, those of an image or one of each group, only the results are in blocks.
    inner = block if inputs >= block else 1
    if outputs % block or inputs % inner:
        raise NoBody  # the file is for another CPU
    parts = [outputs // block, inputs // inner, *window, inner, block]
    yield f"parts = Constant <value_ints = {parts}> ()"
    yield f"sizes = Constant <value_ints = {[outputs, inputs, *window]}> ()"
    yield "blocks = Reshape (weight, parts)"
    yield "ordered = Transpose <perm = [0, 5, 1, 4, 2, 3]> (blocks)"
    yield "kernel = Reshape (ordered, sizes)"
    yield from convolved(call, "kernel")
    if "activation" in call.attributes:
        numbers = call.attributes.get("activation_params", ())
        yield from activated(call, "summed", call.attributes["activation"], numbers)
    else:
        yield "output = Identity (summed)"


def max_pool(call: Call) -> Iterable[str]:
    yield f"output = MaxPool <{call.named(*SPACE)}> (input)"


def average_pool(call: Call) -> Iterable[str]:
    yield f"output = AveragePool <{call.named(*SPACE, 'count_include_pad')}> (input)"


def global_max_pool(call: Call) -> Iterable[str]:
    yield "output = GlobalMaxPool (input)"


def global_average_pool(call: Call) -> Iterable[str]:
    yield "output = GlobalAveragePool (input)"


def upsample(call: Call) -> Iterable[str]:
    words = call.named("mode", "coordinate_transformation_mode")
    scales = [float(scale) for scale in call.attributes["scales"]]
    yield f"scales = Constant <value_floats = {scales}> ()"
    yield f'output = Resize <nearest_mode = "floor", {words}> (input, , scales)'
