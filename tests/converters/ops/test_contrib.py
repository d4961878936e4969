"""Operators written by ONNX Runtime's tools: each body computes what ONNX Runtime's kernel does."""

import json

import numpy as np
import onnx
import pytest
from bodies import computed, integers, normal, saved, signed, unsigned
from cases_grouped import CASES_GROUPED, HALF_GROUPED, UNKNOWN_GROUPED
from cases_quantised import CASES_QUANTISED, UNKNOWN_QUANTISED
from onnx import TensorProto, helper, numpy_helper

from xbench.converters.frontends import onnx_file, validity
from xbench.converters.frontends.tensors import NoOracle
from xbench.converters.ops import contrib

S, Z, W = np.float32, np.uint8, np.int8
HIDDEN = (2, 4, 8)
CONV = [normal(1, 3, 8, 8), normal(4, 3, 3, 3), normal(4)]
WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
Q = [unsigned(3, 4), S(0.0503), Z(120), S(0.0397), Z(100)]
Q_IMAGE = [unsigned(1, 3, 6, 6), *Q[1:]]


def blocks(columns, rows, size, *more, bits=4):
    """Inputs of MatMulNBits, and its attributes."""
    count = -(-columns // size)
    codes = unsigned(rows, count, size * bits // 8)
    inputs = [normal(2, 3, columns), codes, normal(rows * count), *(each(rows, count) for each in more)]
    return inputs, {"K": columns, "N": rows, "bits": bits, "block_size": size}


def packed(rows, count):
    return unsigned(rows * -(-count // 2))


def nothing(rows, count):
    return None


def rows_of(rows, count):
    return normal(rows)


IDS = integers([1, 2, 3, 4], [5, 6, 7, 0], kind=np.int32)
TABLES = [normal(9, 8), normal(6, 8), normal(3, 8), normal(8), normal(8)]
MASK = integers([1, 1, 1, 1], [1, 1, 0, 0], kind=np.int32)
POSITIONS, ANGLES = integers([0, 1, 2, 3], [3, 1, 0, 5]), [normal(7, 2), normal(7, 2)]
QKV = [normal(2, 4, 8), normal(2, 5, 8), normal(2, 5, 8)]
PAST = [normal(2, 2, 3, 4), normal(2, 2, 3, 4)]
MIXED = [normal(2, 4, 8), normal(8, 24), normal(24)]

# The operator, its inputs, its attributes; for some the wanted outputs, for some a domain.
CASES = [
    ("SkipLayerNormalization", [normal(*HIDDEN), normal(*HIDDEN), normal(8), normal(8), normal(8)], {"epsilon": 1e-5}),
    ("SkipLayerNormalization", [normal(*HIDDEN), normal(*HIDDEN), normal(8)], {"outputs": ["y", "", "", "sum"]}),
    ("SkipLayerNormalization", [normal(*HIDDEN), normal(4, 8), normal(8), None, normal(8)], {}),
    ("SkipSimplifiedLayerNormalization", [normal(*HIDDEN), normal(*HIDDEN), normal(8)], {"epsilon": 1e-6}),
    (
        "SkipSimplifiedLayerNormalization",
        [normal(*HIDDEN), normal(*HIDDEN), normal(8), normal(8)],
        {"outputs": ["y", "", "", "sum"]},
    ),
    ("SimplifiedLayerNormalization", [normal(*HIDDEN), normal(8)], {"epsilon": 1e-6, "domain": ""}),
    ("LayerNormalization", [normal(*HIDDEN), normal(8), normal(8)], {"axis": -1, "domain": ""}),
    ("Gelu", [normal(3, 5)], {}),
    ("QuickGelu", [normal(3, 5)], {}),
    ("QuickGelu", [normal(3, 5)], {"alpha": 1.0}),
    ("FastGelu", [normal(3, 5)], {}),
    ("FastGelu", [normal(3, 5), normal(5)], {}),
    ("BiasGelu", [normal(3, 5), normal(5)], {}),
    ("EmbedLayerNormalization", [IDS, IDS % 3, *TABLES, MASK], {"outputs": ["y", "lengths"], "epsilon": 1e-5}),
    ("EmbedLayerNormalization", [IDS, None, *TABLES[:2], None, *TABLES[3:]], {"outputs": ["y", "lengths", "sum"]}),
    ("EmbedLayerNormalization", [IDS, IDS % 3, *TABLES, None, IDS % 6], {"outputs": ["y", "lengths"]}),
    ("RotaryEmbedding", [normal(2, 4, 8), POSITIONS, *ANGLES], {}),
    ("RotaryEmbedding", [normal(2, 4, 8), POSITIONS, *ANGLES], {"interleaved": 1}),
    ("RotaryEmbedding", [normal(2, 3, 4, 4), POSITIONS, *ANGLES], {}),
    ("RotaryEmbedding", [normal(2, 4, 16), POSITIONS, *ANGLES], {"rotary_embedding_dim": 4, "num_heads": 2}),
    ("MultiHeadAttention", QKV, {"num_heads": 2}),
    ("MultiHeadAttention", [*QKV, normal(24)], {"num_heads": 2, "scale": 0.3}),
    ("MultiHeadAttention", [*QKV, None, integers([1] * 5, [1, 1, 1, 0, 0], kind=np.int32)], {"num_heads": 2}),
    ("MultiHeadAttention", [*QKV, None, None, normal(1, 2, 4, 5)], {"num_heads": 2}),
    ("MultiHeadAttention", [QKV[0], QKV[0], QKV[0]], {"num_heads": 4, "unidirectional": 1}),
    (
        "MultiHeadAttention",
        [QKV[0], QKV[0], QKV[0], None, None, None, *PAST],
        {"num_heads": 2, "unidirectional": 1, "outputs": ["y", "keys", "values"]},
    ),
    ("Attention", MIXED, {"num_heads": 2}),
    ("Attention", [*MIXED, MASK], {"num_heads": 2, "outputs": ["y", "present"]}),
    ("Attention", [*MIXED, None, None, normal(2, 2, 4, 4)], {"num_heads": 2, "scale": 0.2}),
    ("Attention", [*MIXED, MASK], {"num_heads": 4, "unidirectional": 1}),
    ("FusedMatMul", [normal(2, 3, 4, 5), normal(2, 3, 4, 6)], {"transA": 1, "alpha": 0.5}),
    ("FusedMatMul", [normal(4, 5), normal(6, 5)], {"transB": 1}),
    ("FusedMatMul", [normal(3, 5, 4), normal(6, 5)], {"transA": 1, "transB": 1}),
    ("FusedMatMul", [normal(4, 5), normal(5, 6)], {"alpha": 2.0}),
    *[("FusedConv", CONV, {**WINDOW, "activation": word}) for word in ("Relu", "Tanh", "Sigmoid")],
    ("FusedConv", CONV, {**WINDOW, "activation": "LeakyRelu", "activation_params": [0.2]}),
    ("FusedConv", CONV, {**WINDOW, "activation": "Clip", "activation_params": [-1.0, 1.0]}),
    ("FusedConv", CONV, {**WINDOW, "activation": "HardSigmoid", "activation_params": [0.3, 0.4]}),
    ("FusedConv", [*CONV, normal(1, 4, 6, 6)], {"activation": "Relu"}),
    ("FusedGemm", [normal(3, 4), normal(4, 5), normal(5)], {"activation": "Relu", "alpha": 0.5, "beta": 2.0}),
    ("FusedGemm", [normal(3, 4), normal(5, 4)], {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1}),
    ("QLinearAdd", [*Q[:3], unsigned(3, 4), S(0.2), Z(100), S(0.25), Z(110)], {}),
    ("QLinearAdd", [signed(3, 4), S(0.1), W(3), signed(1, 4), S(0.2), W(-5), S(0.25), W(7)], {}),
    ("QLinearMul", [signed(3, 4), S(0.1), W(3), signed(1, 4), S(0.2), W(-5), S(0.25), W(7)], {}),
    ("QLinearSigmoid", [*Q[:3], S(1 / 256), Z(0)], {}),
    ("QLinearLeakyRelu", Q, {"alpha": 0.1}),
    ("QLinearGlobalAveragePool", Q_IMAGE, {"channels_last": 0}),
    ("QLinearAveragePool", Q_IMAGE, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("DynamicQuantizeMatMul", [normal(3, 8), signed(8, 5), S(0.02)], {}),
    ("DynamicQuantizeMatMul", [normal(3, 8), signed(8, 5), normal(5) ** 2, signed(5), normal(5)], {}),
    ("MatMulIntegerToFloat", [unsigned(3, 8), signed(8, 5), S(0.1), S(0.02), Z(7)], {}),
    ("MatMulIntegerToFloat", [unsigned(3, 8), signed(8, 5), S(0.1), S(0.02), Z(7), W(3), normal(5)], {}),
    ("MatMulNBits", *blocks(40, 6, 16)),
    ("MatMulNBits", *blocks(40, 6, 16, packed)),
    ("MatMulNBits", *blocks(64, 4, 32, packed)),
    ("MatMulNBits", *blocks(64, 4, 32, normal)),
    ("MatMulNBits", *blocks(64, 4, 32, nothing, nothing, rows_of)),
    *CASES_GROUPED,
    *CASES_QUANTISED,
]


@pytest.mark.parametrize("index", range(len(CASES)), ids=[f"{name}-{index}" for index, (name, *_) in enumerate(CASES)])
@pytest.mark.parametrize("version", [13, 17, 20])
def test_a_body_computes_what_the_kernel_of_onnx_runtime_does(tmp_path, index, version):
    operator, inputs, words = CASES[index]
    if operator == "LayerNormalization" and version >= 17:
        pytest.skip("it is ONNX's own since opset 17")
    wanted = saved(tmp_path, operator, inputs, words, version)
    for actual, expected in zip(computed(tmp_path, inputs[words.get("fed", 0)]), wanted, strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6 * float(np.abs(expected).max()))


@pytest.mark.parametrize("index", range(len(HALF_GROUPED)))
def test_attention_in_float16_is_what_the_kernel_gives_but_for_rounding(tmp_path, index):
    """The kernel computes in float32 in between, and PyTorch does not."""
    operator, inputs, words = HALF_GROUPED[index]
    wanted = saved(tmp_path, operator, inputs, words)
    for actual, expected in zip(computed(tmp_path, inputs[0]), wanted, strict=True):
        assert actual.dtype == expected.dtype == np.float16
        error = np.abs(actual.astype(float) - expected.astype(float)).max()
        assert error < 4 * np.finfo(np.float16).eps * np.abs(expected).max()


def test_every_operator_has_a_case():
    known = {name for domain, name in contrib.OPERATORS if domain not in (contrib.LEARNING, contrib.BLOCKED)}
    assert {name for name, *_ in CASES} | {"TransposeMatMul"} == known


UNKNOWN_FORMS = {
    "of transposed batches": ("FusedMatMul", [normal(2, 3, 4), normal(2, 3, 4)], {"transBatchA": 1}),
    "of an activation nobody knows": ("FusedConv", CONV, {"activation": "Elu"}),
    "without an attribute it must have": ("FusedConv", CONV, {}),
    "with channels last": ("QLinearAveragePool", Q_IMAGE, {"kernel_shape": [2, 2], "channels_last": 1}),
    "of three bits": ("MatMulNBits", blocks(64, 4, 32)[0], {"K": 64, "N": 4, "bits": 3, "block_size": 32}),
    "without an input": ("Gelu", [], {}),
    "with an output more": ("Gelu", [normal(3)], {"outputs": ["y", "z"]}),
    "with an input more": ("Gelu", [normal(3), normal(3)], {}),
    "with text that ends its own": ("FusedConv", CONV, {"activation": "Relu", "auto_pad": 'X"> (input) } //'}),
    "with a graph for a number": (
        "FusedConv",
        CONV,
        {"activation": "Relu", "group": helper.make_graph([], "g", [], [])},
    ),
    "with a number for a text": ("FusedConv", CONV, {"activation": 3}),
    "of a number that is endless": ("FusedMatMul", [normal(3, 4), normal(4, 3)], {"transA": float("inf")}),
    "with a text for a number": ("QuickGelu", [normal(3)], {"alpha": "x"}),
    "without angles": ("RotaryEmbedding", [normal(2, 4, 8), POSITIONS], {}),
    **UNKNOWN_GROUPED,
    **UNKNOWN_QUANTISED,
}


@pytest.mark.parametrize("kind", UNKNOWN_FORMS)
def test_a_form_without_a_body_has_no_oracle(kind):
    operator, inputs, words = UNKNOWN_FORMS[kind]
    words = dict(words)
    names = ["" if each is None else f"input{index}" for index, each in enumerate(inputs)]
    node = helper.make_node(operator, names, words.pop("outputs", ["y"]), domain=contrib.DOMAIN, **words)
    kinds = [(name, np.asarray(each)) for name, each in zip(names, inputs, strict=True) if name]
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in kinds
    ]
    graph = helper.make_graph([node], "g", given, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(contrib.DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(NoOracle, match=f"com.microsoft.{operator}"):
        validity.check(model)


def test_a_function_of_the_file_goes_before_ours():
    """Exporters define their own operators of this domain, which may differ."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(contrib.DOMAIN, 1)]
    own = helper.make_function(
        contrib.DOMAIN, "Gelu", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])], opsets[:1]
    )
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Gelu", ["x"], ["y"], domain=contrib.DOMAIN)], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[own])
    validity.check(model)
    assert [each.name for each in model.functions] == ["Gelu"] and model.graph.node[0].op_type == "Gelu"


def test_a_function_of_the_file_with_the_name_of_ours_is_another(tmp_path):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(contrib.DOMAIN, 1)]
    body = [helper.make_node("Neg", ["x"], ["y"])]
    own = helper.make_function(contrib.DOMAIN, "Gelu_0", ["x"], ["y"], body, opsets[:1])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy")
    nodes = [
        helper.make_node(word, [a], [b], domain=contrib.DOMAIN)
        for word, a, b in (("Gelu", "x", "h"), ("Gelu_0", "h", "y"))
    ]
    graph = helper.make_graph(nodes, "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[own]), tmp_path / "m.onnx")
    model = onnx_file.canonical(onnx_file.read(tmp_path / "m.onnx"))
    assert [node.op_type for node in model.graph][-1] == "Neg" and "Erf" in {node.op_type for node in model.graph}


def test_a_network_that_onnx_runtime_has_optimised_passes(shell):
    """Its own file goes to ONNX Runtime and OpenVINO, which have the operators; the others get the bodies."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4, 8]) for name in "xy")
    weights = [
        numpy_helper.from_array(normal(*shape), name) for name, shape in (("w", (8, 8)), ("b", (8,)), ("g", (8,)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("BiasGelu", ["h", "b"], ["a"], domain=contrib.DOMAIN),
        helper.make_node("SkipLayerNormalization", ["a", "x", "g", "b"], ["n"], domain=contrib.DOMAIN, epsilon=1e-5),
        helper.make_node("FusedMatMul", ["n", "w"], ["y"], domain=contrib.DOMAIN, transB=1, alpha=0.5),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(contrib.DOMAIN, 1)]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), shell.folder / "m.onnx")
    runtimes = [word for name in ("torch", "onnxruntime", "openvino", "jax") for word in ("--runtime", name)]
    modes = ("--mode", "forward", "--mode", "gradient")
    answer = shell.run("check", "m.onnx", "--shape", "N=batch", *modes, *runtimes, "--json")
    rows = json.loads(answer.stdout)
    assert [(row["runtime"], row["message"]) for row in rows if row["status"] != "PASS"] == []
    assert len(rows) == 8
