"""An OpenVINO model in int8 or int4, by the tool of its makers, NNCF: after training weights and activations are
quantised, or weights alone."""

import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import openvino

from xbench.runtimes import Unavailable
from xbench.runtimes.support import wide as nodes

os.environ["NNCF_CI"] = "1"  # or it reports its use over the network
ROUNDING, SOURCES = "FakeQuantize", ("Parameter", "ReadValue")
MOVES = ("Reshape", "Transpose", "Squeeze", "Unsqueeze")
SCALING, FOUR_BITS = ("Convert", "Subtract", "Multiply"), (openvino.Type.i4, openvino.Type.u4)
FEW_BITS = (openvino.Type.i8, openvino.Type.u8, *FOUR_BITS)


def quantised(
    model: openvino.Model, places: Sequence[int], batches: Sequence[Sequence[np.ndarray]], wide: Collection[str] = ()
) -> openvino.Model:
    """The model with the ranges of activations as they are on the batches; each has an array for every one of `places`
    among the model's inputs. The nodes that compute the tensors `wide` stay in float32.

    Raises:
        Unavailable: NNCF is not installed, or there is no node of `wide`.
    """
    nncf, given = _nncf("int8"), [dict(zip(places, batch, strict=True)) for batch in batches]
    how = {"model_type": nncf.ModelType.TRANSFORMER} if has_attention(model) else {}
    how["ignored_scope"] = _ignored(model, wide, "int8")
    made: Any = nncf.quantize(model, nncf.Dataset(given), subset_size=len(given), **how)
    assert isinstance(made, openvino.Model)
    return made


def has_attention(model: openvino.Model) -> bool:
    """Whether it is a transformer, for which NNCF has a scheme of its own: without it a ViT was off by 0.24 of its
    output, with it by 0.03."""
    kinds = {op.get_type_name() for op in model.get_ops()}
    softmax = (op for op in model.get_ops() if op.get_type_name() == "Softmax")
    readers = (each.get_node().get_type_name() for op in softmax for each in op.output(0).get_target_inputs())
    return "ScaledDotProductAttention" in kinds or "MatMul" in readers


def compressed(model: openvino.Model, wide: Collection[str] = ()) -> openvino.Model:
    """The model with weights of four bits, asymmetric in groups of 128, or of fewer where that does not divide a row;
    embeddings and the last product have eight bits, as NNCF has it. The nodes that compute the tensors `wide` stay in
    float32.

    Raises:
        Unavailable: as `quantised`; no weight has four bits then.
    """
    nncf = _nncf("int4")
    adjusted = nncf.AdvancedCompressionParameters(group_size_fallback_mode=nncf.GroupSizeFallbackMode.ADJUST)
    how = {"mode": nncf.CompressWeightsMode.INT4_ASYM, "advanced_parameters": adjusted}
    made: Any = nncf.compress_weights(model.clone(), ignored_scope=_ignored(model, wide, "int4"), **how)
    assert isinstance(made, openvino.Model)
    constants = [op.get_element_type() for op in made.get_ops() if op.get_type_name() == "Constant"]
    if not (wide or any(each in FOUR_BITS for each in constants)):
        raise Unavailable("openvino has nothing to compute in int4: NNCF gave no weight four bits")
    return made


def _nncf(precision: str) -> Any:
    """
    Raises:
        Unavailable: it is not installed.
    """
    try:
        import nncf
    except ImportError as error:
        raise Unavailable(f"openvino needs NNCF for {precision}: pip install 'xbench[int8]'") from error
    return nncf


def _ignored(model: openvino.Model, wide: Collection[str], precision: str) -> Any:
    """NNCF's name for the nodes of the model that compute these tensors; None if there are none.

    Raises:
        Unavailable: the model has no such node.
    """
    nodes.check(wide, [_tensor(op) for op in _operators(model)], precision)
    names = [op.get_friendly_name() for op in _operators(model) if _tensor(op) in wide]
    return _nncf(precision).IgnoredScope(names=names, validate=False) if names else None


def narrow_tensors(model: openvino.Model, plain: openvino.Model) -> list[str]:
    """The tensors of the plain model that operators compute in int8 or int4 in another, in its order."""
    low = {op.get_friendly_name() for op in _operators(model) if any(map(_is_rounded, _sources(op)))}
    return list(dict.fromkeys(_tensor(op) for op in _operators(plain) if op.get_friendly_name() in low))


def widened(model: openvino.Model, plain: openvino.Model, wide: Collection[str]) -> openvino.Model:
    """A quantised model in which the nodes that compute these tensors are those of the plain one.

    It is the model that `quantised` makes with these tensors but for the biases, which NNCF corrects for the errors of
    all nodes: quick enough to try many sets.
    """
    made, given = model.clone(), plain.clone()
    own = {op.get_friendly_name(): op for op in given.get_ops()}
    names = {op.get_friendly_name() for op in _operators(given) if _tensor(op) in wide}
    for op in [each for each in made.get_ordered_ops() if each.get_friendly_name() in names]:
        for place, port in enumerate(op.inputs()):
            source = port.get_source_output()
            if _is_constant(source.get_node()):
                port.replace_source_output(own[op.get_friendly_name()].input_value(place))
                continue
            while source.get_node().get_friendly_name() not in own:  # NNCF's: rounds, or makes channels alike
                source = source.get_node().input_value(0)
            port.replace_source_output(source)
    return made


def _operators(model: openvino.Model) -> Iterator[openvino.Node]:
    return (op for op in model.get_ordered_ops() if op.get_type_name() not in ("Constant", "Result", *SOURCES))


def _sources(op: openvino.Node) -> list[openvino.Node]:
    """The operators whose results it reads, before others that only move numbers."""
    sources = [port.get_source_output().get_node() for port in op.inputs()]
    while moves := [each for each in sources if each.get_type_name() in MOVES]:
        moved = [each.input_value(0).get_node() for each in moves]
        sources = [*(each for each in sources if each.get_type_name() not in MOVES), *moved]
    return sources


def _is_rounded(source: openvino.Node) -> bool:
    """Whether it rounds an activation, or gives a weight of few bits its scale."""
    kind = source.get_type_name()
    if kind in (*SCALING, *MOVES):
        return any(_is_rounded(port.get_source_output().get_node()) for port in source.inputs()[:1])
    return kind == ROUNDING or (kind == "Constant" and source.get_element_type() in FEW_BITS)


def _tensor(op: openvino.Node) -> str:
    """The ONNX tensor that an operator computes, or the first that is computed of it alone: an ONNX node may become
    several operators, and several may be fused into one. What only moves numbers goes with its reader."""
    while True:
        names = sorted(name for port in op.outputs() for name in port.get_names())
        readers = {each.get_node() for port in op.outputs() for each in port.get_target_inputs()}
        ends = len(readers) != 1 or next(iter(readers)).get_type_name() == "Result"
        if ends or (names and op.get_type_name() not in MOVES):
            return names[0] if names else str(op.get_friendly_name())
        op = readers.pop()


def _is_constant(op: openvino.Node) -> bool:
    """Whether nothing it depends on is an input of the model."""
    if op.get_type_name() in SOURCES:
        return False
    return all(_is_constant(port.get_source_output().get_node()) for port in op.inputs())
