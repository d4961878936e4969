"""How kernels of convolutions are kept: in TensorFlow and JAX as (*spatial, in, out), in ONNX as (out, in, *spatial).

The text reads kernels in ONNX's order, and the tables hand them to the frameworks in theirs. Were they kept in ONNX's,
they would be turned around at every step, and their gradients too: on a CPU the gradient of ResNet-50 took 1.2 times as
long. An adapter keeps them in the framework's order and gives the text transposed views; compilers cancel the pair.
"""

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xbench.converters import Program


def kernel_orders(program: Program) -> dict[str, tuple[int, ...]]:
    """Parameter -> the axes of ONNX's order in that of the frameworks, for each kernel of a convolution in the text."""
    names = {
        ast.literal_eval(call.args[1].slice)
        for call in ast.walk(ast.parse(program.source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in ("Conv", "ConvTranspose")
        and isinstance(call.args[1], ast.Subscript)
    }
    orders = {name: (*range(2, program.params[name].ndim), 1, 0) for name in names & program.params.keys()}
    # The kernel of a depthwise convolution has one channel in, and the frameworks count its channels in front of it.
    return {n: (*order[:-2], 0, 1) if program.params[n].shape[1] == 1 else order for n, order in orders.items()}


def inverse(orders: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(np.argsort(order).tolist()) for name, order in orders.items()}


def reordered(
    arrays: Mapping[str, Any], orders: Mapping[str, tuple[int, ...]], transpose: Callable[..., Any] = np.transpose
) -> dict[str, Any]:
    """The arrays with the axes of those that `orders` names in that order, by a framework's `transpose`."""
    return {name: transpose(array, orders[name]) if name in orders else array for name, array in arrays.items()}
