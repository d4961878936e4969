"""Operators of ONNX Runtime's own tools and of `ai.onnx.ml`, as functions of ONNX's own operators.

A node of such an operator becomes a call of a function in its file, made for its attributes and its inputs. Like any
function of a file, `reader.canonical` inlines it. Definitions: ONNX Runtime's docs/ContribOperators.md, and
ONNX's docs/Operators-ml.md.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import count

import onnx
from onnx import checker, parser

from xbench.converters.ops.contrib import (
    activations,
    attention,
    blocked,
    features,
    grouped,
    linear,
    norms,
    products,
    quantised,
    trees,
    vectors,
)
from xbench.converters.ops.contrib.call import Call, NoBody, Shape

NOT_FLOAT32 = {onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16}
DOMAIN, LEARNING, BLOCKED = "com.microsoft", "ai.onnx.ml", "com.microsoft.nchwc"
Key = tuple[str, str]  # domain and name


@dataclass(frozen=True)
class Operator:
    """The names of its inputs and outputs, and the statements of its body."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    body: Callable[[Call], Iterable[str]]


def _operator(inputs: str, body: Callable[[Call], Iterable[str]], outputs: str = "output") -> Operator:
    return Operator(tuple(inputs.split()), tuple(outputs.split()), body)


BETWEEN = "a a_scale a_zero y_scale y_zero"
TWO = "a a_scale a_zero b b_scale b_zero y_scale y_zero"
NORMED = "output mean inverse total"
OPERATORS: dict[Key, Operator] = {
    (DOMAIN, "SkipLayerNormalization"): _operator("input skip gamma beta bias", norms.skip_layer_normalization, NORMED),
    (DOMAIN, "SkipSimplifiedLayerNormalization"): _operator(
        "input skip gamma bias", norms.skip_simplified_layer_normalization, NORMED
    ),
    ("", "SimplifiedLayerNormalization"): _operator(
        "input gamma", norms.simplified_layer_normalization, "output inverse"
    ),
    ("", "LayerNormalization"): _operator("input gamma beta", norms.layer_normalization, "output mean inverse"),
    (DOMAIN, "Gelu"): _operator("input", activations.gelu),
    (DOMAIN, "BiasGelu"): _operator("input bias", activations.bias_gelu),
    (DOMAIN, "FastGelu"): _operator("input bias", activations.fast_gelu),
    (DOMAIN, "QuickGelu"): _operator("input", activations.quick_gelu),
    (DOMAIN, "EmbedLayerNormalization"): _operator(
        "ids kinds words places segments gamma beta mask positions",
        attention.embed_layer_normalization,
        "output lengths total",
    ),
    (DOMAIN, "RotaryEmbedding"): _operator("input positions cosines sines", attention.rotary_embedding),
    (DOMAIN, "MultiHeadAttention"): _operator(
        "query key value bias mask added past_key past_value", attention.multi_head_attention, "output keys values"
    ),
    (DOMAIN, "GroupQueryAttention"): _operator(
        "query key value past_key past_value lengths total cosines sines positions added sink key_scale value_scale"
        " query_gain key_gain",
        grouped.group_query_attention,
        "output keys values",
    ),
    (DOMAIN, "Attention"): _operator("input weights bias mask past added", attention.attention, "output present"),
    (LEARNING, "Scaler"): _operator("input", linear.scaler),
    (LEARNING, "Binarizer"): _operator("input", linear.binarizer),
    (LEARNING, "Normalizer"): _operator("input", linear.normalizer),
    (LEARNING, "LinearRegressor"): _operator("input", linear.regressor),
    (LEARNING, "LinearClassifier"): _operator("input", linear.classifier, "label scores"),
    (LEARNING, "OneHotEncoder"): _operator("input", features.one_hot_encoder),
    (LEARNING, "LabelEncoder"): _operator("input", features.label_encoder),
    (LEARNING, "ArrayFeatureExtractor"): _operator("input places", features.array_feature_extractor),
    (LEARNING, "FeatureVectorizer"): _operator(features.VECTORS, features.feature_vectorizer),
    (LEARNING, "Imputer"): _operator("input", features.imputer),
    (LEARNING, "SVMClassifier"): _operator("input", vectors.classifier, "label scores"),
    (LEARNING, "SVMRegressor"): _operator("input", vectors.regressor),
    (LEARNING, "TreeEnsembleRegressor"): _operator("input", trees.regressor),
    (LEARNING, "TreeEnsembleClassifier"): _operator("input", trees.classifier, "label scores"),
    (DOMAIN, "FusedConv"): _operator("input weight bias other", products.fused_conv),
    (DOMAIN, "FusedGemm"): _operator("a b c", products.fused_gemm),
    (DOMAIN, "FusedMatMul"): _operator("a b", products.fused_matmul),
    (DOMAIN, "TransposeMatMul"): _operator("a b", products.fused_matmul),
    (DOMAIN, "QLinearAdd"): _operator(TWO, quantised.between("Add", "ab")),
    (DOMAIN, "QLinearMul"): _operator(TWO, quantised.between("Mul", "ab")),
    (DOMAIN, "QLinearSigmoid"): _operator(BETWEEN, quantised.between("Sigmoid")),
    (DOMAIN, "QLinearLeakyRelu"): _operator(BETWEEN, quantised.between("LeakyRelu", words=quantised.slope)),
    (DOMAIN, "QLinearGlobalAveragePool"): _operator(BETWEEN, quantised.between("GlobalAveragePool")),
    (DOMAIN, "QLinearAveragePool"): _operator(BETWEEN, quantised.between("AveragePool", words=quantised.window)),
    (DOMAIN, "QuantizeLinear"): _operator("a a_scale a_zero", quantised.linear("QuantizeLinear")),
    (DOMAIN, "DequantizeLinear"): _operator("a a_scale a_zero", quantised.linear("DequantizeLinear")),
    (DOMAIN, "QLinearConcat"): _operator("y_scale y_zero " + quantised.JOINED, quantised.joined),
    (DOMAIN, "QLinearWhere"): _operator("condition " + TWO, quantised.chosen),
    (DOMAIN, "QLinearSoftmax"): _operator(BETWEEN, quantised.softmax),
    (DOMAIN, "QLinearConv"): _operator(TWO + " bias", quantised.convolution),
    (DOMAIN, "QGemm"): _operator("a a_scale a_zero b b_scale b_zero c y_scale y_zero", quantised.gemm),
    (DOMAIN, "QAttention"): _operator(
        "input weights bias input_scale weights_scale mask input_zero weights_zero past",
        attention.quantised_attention,
        "output present",
    ),
    (DOMAIN, "QEmbedLayerNormalization"): _operator(
        "ids kinds words_whole places_whole segments_whole gamma_whole beta_whole mask"
        " words_scale places_scale segments_scale gamma_scale beta_scale"
        " words_zero places_zero segments_zero gamma_zero beta_zero",
        attention.quantised_embed_layer_normalization,
        "output lengths",
    ),
    (DOMAIN, "DynamicQuantizeMatMul"): _operator("a b b_scale b_zero bias", quantised.dynamic_quantize_matmul),
    (DOMAIN, "MatMulIntegerToFloat"): _operator(
        "a b a_scale b_scale a_zero b_zero bias", quantised.matmul_integer_to_float
    ),
    (BLOCKED, "ReorderInput"): _operator("input", blocked.reorder_input),
    (BLOCKED, "ReorderOutput"): _operator("input", blocked.reorder_output),
    (BLOCKED, "Conv"): _operator("input weight bias other", blocked.conv),
    (BLOCKED, "MaxPool"): _operator("input", blocked.max_pool),
    (BLOCKED, "AveragePool"): _operator("input", blocked.average_pool),
    (BLOCKED, "GlobalMaxPool"): _operator("input", blocked.global_max_pool),
    (BLOCKED, "GlobalAveragePool"): _operator("input", blocked.global_average_pool),
    (BLOCKED, "Upsample"): _operator("input", blocked.upsample),
    (DOMAIN, "MatMulNBits"): _operator("a b b_scales b_zeros group bias", quantised.matmul_nbits),
}


def define(model: onnx.ModelProto) -> None:
    """Adds the functions of its operators that are known here to a checked model; the nodes call them. Functions that
    a file defines itself stay."""
    version = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)
    own = {(each.domain, each.name) for each in model.functions}
    known = _known(model.graph)
    made: dict[str, onnx.FunctionProto] = {}
    for node in _nodes(model.graph):
        key = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
        if key not in OPERATORS or key in own or (not key[0] and onnx.defs.has(node.op_type, version, "")):
            continue
        try:
            text = _text(OPERATORS[key], node, version, known)
            if text not in made:
                function = parser.parse_function(text.replace("NAME", _unused(node.op_type, own), 1))
                checker.check_function(function)  # a node may lack inputs that its operator must have
                own.add((DOMAIN, function.name))
                made[text] = function
        except (NoBody, parser.ParseError, checker.ValidationError):
            continue
        node.ClearField("attribute")
        node.domain, node.op_type = DOMAIN, made[text].name
        node.input[:], node.output[:] = filter(None, [*node.input]), filter(None, [*node.output])
    model.functions.extend(made.values())
    if made and not any(each.domain == DOMAIN for each in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))


def _unused(name: str, taken: Collection[Key]) -> str:
    return next(candidate for number in count() if (DOMAIN, candidate := f"{name}_{number}") not in taken)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def _known(graph: onnx.GraphProto) -> dict[str, tuple[int, Shape | None]]:
    """The element types of values and their shapes, as far as a graph declares them."""
    kinds = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.input)}
    known = {name: (kind.elem_type, _shape(kind)) for name, kind in kinds.items()}
    return known | {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer}


def _shape(kind: onnx.TypeProto.Tensor) -> Shape | None:
    if not kind.HasField("shape"):
        return None
    return tuple(axis.dim_value if axis.HasField("dim_value") else None for axis in kind.shape.dim)


def _text(operator: Operator, node: onnx.NodeProto, version: int, known: dict[str, tuple[int, Shape | None]]) -> str:
    """The function that a node calls, for its inputs and the outputs that are used.

    Raises:
        NoBody: it has no body for this node.
    """
    if not node.input or len(node.input) > len(operator.inputs) or len(node.output) > len(operator.outputs):
        raise NoBody
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    types, shapes = zip(*(known.get(name, (None, None)) for name in node.input), strict=True)
    if version < 15 and {*types} & NOT_FLOAT32:  # constants are float32 if there is no CastLike
        raise NoBody
    call = Call(attributes, tuple(map(bool, node.input)), types, shapes, version)
    taken = [formal for formal, name in zip(operator.inputs, node.input, strict=False) if name]
    given = [formal for formal, name in zip(operator.outputs, node.output, strict=False) if name]
    try:
        body = "\n".join(operator.body(call))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # of an attribute
        raise NoBody from error
    if not set(given) <= {word for line in body.splitlines() for word in re.findall(r"\w+", line.partition("=")[0])}:
        raise NoBody
    head = f'<domain: "{DOMAIN}", opset_import: ["" : {version}]>\nNAME ({", ".join(taken)}) => ({", ".join(given)})'
    return f"{head} {{\n{body}\n}}"
