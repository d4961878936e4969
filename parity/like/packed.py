"""How MatMulNBits rounds, whose weights of a few bits are packed into bytes: a scale for each block of a column."""

from typing import Any

import numpy as np
import onnx_ir as ir

from xbench.converters.codegen.printer import constant
from xbench.parity.like.graph import Graph
from xbench.parity.like.rounding import LIMITS, Rounding

OPERATORS = ("MatMulNBits",)


def own_packed(graph: Graph, node: ir.Node) -> dict[str, Any] | None:
    """The file's own node of a node, if its weights are packed."""
    number = graph.owners.get(node)
    own = None if number is None else graph.nodes[number]
    return own if own is not None and own["op_type"] in OPERATORS else None


def rounding_of(graph: Graph, own: dict[str, Any], shape: tuple[int, ...]) -> Rounding | None:
    """Of the weights, in the shape [rows, columns]; None if the node is written in another way."""
    attributes, stored = own["attributes"], graph.model.graph.initializers
    bits, block = attributes.get("bits", 4), attributes.get("block_size", 0)
    if len(own["inputs"]) < 3 or own["inputs"][2] not in stored or f"uint{bits}" not in LIMITS or not block:
        return None
    scales = constant(stored[own["inputs"][2]])
    rows, columns = shape
    blocks = -(-rows // block)
    if scales is None or scales.size != blocks * columns:
        return None
    scale = np.asarray(scales, np.float64).reshape(columns, blocks).T
    zeros = stored.get(own["inputs"][3]) if len(own["inputs"]) > 3 else None
    zero = np.full(scale.shape, float(2 ** (bits - 1)))
    if zeros is not None and (packed := constant(zeros)) is not None and packed.dtype == np.uint8 and bits < 8:
        zero = _unpacked(packed.reshape(columns, -1), bits)[:, :blocks].T.astype(np.float64)
    return Rounding(scale, zero, *LIMITS[f"uint{bits}"], 0, block)


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in bytes, the first in the lowest bits."""
    parts = [(packed >> (bits * place)) & (2**bits - 1) for place in range(8 // bits)]
    return np.stack(parts, axis=-1).reshape(len(packed), -1)
