"""An ONNX file whose products have weights of four bits, by the tool of ONNX Runtime's makers: `MatMulNBits`, blocks of
32 weights, each with a scale and a zero point. Activations stay in float32, so there are no ranges to find."""

from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

from xbench.runtimes import Unavailable

BLOCK, OPERATOR, SUFFIX = 32, "MatMulNBits", "_Q4"  # SUFFIX ends the names of nodes that the tool makes


def compressed(ready: Path, excluded: Collection[str]) -> onnx.ModelProto:
    """The model of a file, whose nodes have names, in which all products but those of these names have such weights.

    Raises:
        Unavailable: no product has a constant weight.
    """
    model = onnx.load(str(ready))
    _write_products(model.graph)
    quantizer = MatMulNBitsQuantizer(model, block_size=BLOCK, nodes_to_exclude=list(excluded))
    quantizer.process()
    made: onnx.ModelProto = quantizer.model.model
    if not excluded and not any(True for _ in compressed_nodes(made.graph)):
        words = "no product of the network (MatMul, Gemm) has constant weights"
        raise Unavailable(f"onnxruntime has nothing to compute in int4: {words}")
    _keep_one_of_each(made.graph)
    return made


def compressed_nodes(graph: onnx.GraphProto) -> Iterator[str]:
    """The names that the nodes with weights of four bits had before."""
    return (node.name.removesuffix(SUFFIX) for node in graph.node if node.op_type == OPERATOR)


def _write_products(graph: onnx.GraphProto) -> None:
    """Writes a Gemm with constant weights as a product and a sum, which is all that the tool knows. ONNX Runtime's own
    function for it turns the weights in place, wrong where they are read twice."""
    weights = {each.name: each for each in graph.initializer}
    taken = {name for node in graph.node for name in (*node.input, *node.output)} | set(weights)
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        facts = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        plain = (facts.get("alpha", 1.0), facts.get("beta", 1.0), facts.get("transA", 0)) == (1.0, 1.0, 0)
        if node.op_type != "Gemm" or not plain or node.input[1] not in weights:
            kept.append(node)
            continue
        weight, added = node.input[1], node.input[2] if len(node.input) > 2 else ""
        if facts.get("transB", 0):
            turned = _new(f"{weight}_turned", taken)
            array = np.ascontiguousarray(numpy_helper.to_array(weights[weight]).T)
            graph.initializer.append(numpy_helper.from_array(array, turned))
            weight = turned
        product = _new(f"{node.output[0]}_product", taken) if added else node.output[0]
        kept.append(helper.make_node("MatMul", [node.input[0], weight], [product], name=node.name))
        if added:
            kept.append(helper.make_node("Add", [product, added], [node.output[0]], name=_new("sum", taken)))
    del graph.node[:]
    graph.node.extend(kept)


def _new(name: str, taken: set[str]) -> str:
    """A name that is not taken; it is taken now."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _keep_one_of_each(graph: onnx.GraphProto) -> None:
    """Weights that several products read are written once for each of them, under one name."""
    once = {each.name: each for each in graph.initializer}
    if len(once) < len(graph.initializer):
        del graph.initializer[:]
        graph.initializer.extend(once.values())
