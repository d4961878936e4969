"""How convolution kernels are stored: in TensorFlow and JAX as (*spatial, in, out), in ONNX as (out, in, *spatial).

The text reads kernels in ONNX's order, and the tables pass them to the frameworks in theirs. Stored in ONNX's, they and
their gradients would be transposed at every step: on a CPU the gradient of ResNet-50 took 1.2 times as long. An adapter
stores them in the framework's order and gives the text transposed views; compilers cancel the pair.
"""

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xbench.converters import Program

Orders = dict[str, tuple[int, ...]]


def kernel_orders(program: Program) -> Orders:
    """Parameter -> ONNX's axes in the frameworks' order, for each convolution kernel in the text."""
    names = {
        ast.literal_eval(call.args[1].slice)
        for call in ast.walk(ast.parse(program.source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in ("Conv", "ConvTranspose")
        and isinstance(call.args[1], ast.Subscript)
    }
    orders = {name: (*range(2, program.params[name].ndim), 1, 0) for name in names & program.params.keys()}
    # The kernel of a depthwise convolution has one input channel; in the frameworks its channels come before that.
    return {n: (*order[:-2], 0, 1) if program.params[n].shape[1] == 1 else order for n, order in orders.items()}


def linear_orders(program: Program) -> Orders:
    """(in, out) for each weight of a linear layer, which PyTorch stores as (out, in), with no other reader.

    On a CPU JAX's GPT-2 takes 1.00 of the time of Flax so, else 1.05, and TensorFlow without oneDNN is slow for few
    rows times a matrix it must transpose; but gradients take longer (JAX's LSTM 0.94 to 1.06).
    """
    linear, other = set[str](), set[str]()
    for call in (node for node in ast.walk(ast.parse(program.source)) if isinstance(node, ast.Call)):
        name, given = ast.unparse(call.func), {k.arg: ast.unparse(k.value) for k in call.keywords}
        for index, value in enumerate(call.args):
            if isinstance(value, ast.Subscript) and ast.unparse(value.value) == "params":
                fits = name == "Gemm" and index == 1 and given.get("transB") == "1"
                fits |= name == "Transpose" and given.get("perm") == "(1, 0)"
                (linear if fits else other).add(ast.literal_eval(value.slice))
    return dict.fromkeys(linear - other, (1, 0))


def inverse(orders: Orders) -> Orders:
    return {name: tuple(np.argsort(order).tolist()) for name, order in orders.items()}


def reordered(
    arrays: Mapping[str, Any], orders: Orders, transpose: Callable[..., Any] = np.transpose
) -> dict[str, Any]:
    """The arrays, those in `orders` transposed to that order by a framework's `transpose`."""
    return {name: transpose(array, orders[name]) if name in orders else array for name, array in arrays.items()}
