"""Channels last: the same values and gradients as in ONNX's order, and transposes at the borders only.

Every row of `cases.py` that `converters/passes/layout.py` knows is put after a pooling of one pixel, which changes
no value but wants channels last, and must still compute what ONNX says.
"""

import functools
import json
import re

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import test_operators as operators
from cases import CASES
from fault_kit import records

from xbench.converters import Program
from xbench.converters.codegen.program import convert
from xbench.converters.ops.info import info, where
from xbench.converters.passes.kernels import inverse, kernel_orders, linear_orders, reordered
from xbench.converters.passes.layout import FORMS, channels_last

FRAMEWORKS = ("jax", "tensorflow")
QUICK = ("--budget", "0.1", "--timeout", "60")


def rank(op, index):
    first = CASES[op][index].inputs[0]
    return first.ndim if first is not None and first.dtype == np.float32 else 0


@functools.cache
def pooled(op: str, index: int) -> ir.Model:
    """The graph of a row; an input image first passes a pooling that changes nothing."""
    model = ir.from_proto(CASES[op][index].model(op))
    node, image = model.graph[0], model.graph[0].inputs[0]
    if not info(op).image:
        same = ir.node("AveragePool", [image], {"kernel_shape": [1] * (rank(op, index) - 2)}, version=20)
        same.outputs[0].name, same.outputs[0].shape, same.outputs[0].dtype = "same", image.shape, image.dtype
        model.graph.insert_before(node, same)
        for position, value in enumerate(node.inputs):
            if value is image:
                node.replace_input_with(position, same.outputs[0])
    return model


@functools.cache
def turned(op: str, index: int) -> Program:
    return convert(channels_last(pooled(op, index)), [])


ROWS = [
    pytest.param(op, index, id=f"{op}-{index}")
    for op in sorted(FORMS)
    for index, row in enumerate(CASES[op])
    if rank(op, index) in (3, 4, 5) and row.opset >= 18
]
# Rows that stay in ONNX's order: those without a kernel in the tables (several outputs, integers, dilations), and
# reductions whose remaining axes would be in another order.
KEPT = {"AveragePool", "MaxPool", *where("reduction")}


def test_every_operator_that_names_axes_has_a_row():
    assert sorted(set(FORMS) - where("elementwise") - {p.values[0] for p in ROWS}) == []


def test_what_can_be_turned_is():
    """If the pass converted nothing, all values below would be right."""
    kept = [p.values[0] for p in ROWS if "_nchw" in turned(*p.values).source or not is_last(turned(*p.values))]
    assert set(kept) <= KEPT
    assert len(kept) < len(ROWS) / 10


def is_last(program):
    return "channels_last=1" in program.source


@pytest.mark.parametrize(("op", "index"), ROWS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_channels_last_computes_what_onnx_says(framework, op, index, monkeypatch):
    truth = operators.expected(op, index)
    monkeypatch.setattr(operators, "program", turned)
    for outputs in operators.RUN[framework](op, index):
        for y, right in zip(outputs, truth, strict=True):
            operators.assert_close(y, right, 3e-6)


@pytest.mark.parametrize(("op", "index"), [p for p in ROWS if p in operators.DIFFERENTIABLE or info(p.values[0]).image])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_channels_last_has_the_gradients_of_pytorch(framework, op, index, float64, monkeypatch):
    truth = operators.torch_gradients(op, index)
    monkeypatch.setattr(operators, "program", turned)
    for actual, right in zip(operators.GRADIENTS[framework](op, index), truth, strict=True):
        operators.assert_close(actual, right, 1e-5)


# ***** graphs *****

# Transposes left in each network: at its input, and before its first layer without images.
BORDERS = {"lenet": 2, "alexnet_cifar": 2, "cifar_vgg": 2, "resnet56_cifar": 1, "resnet50": 1, "mobilenet_v2": 1}


@pytest.mark.parametrize("network", BORDERS)
def test_transposes_stand_at_the_borders_only(exporter, network):
    artifact = exporter.artifact(network)
    assert artifact.layouts == ("nchw", "nhwc")
    text = artifact.program("nhwc").source
    assert len(re.findall(r"\bTranspose\(", text)) == BORDERS[network]
    assert re.findall(r"\bTranspose\(", artifact.program().source) == []


def test_a_network_without_images_has_one_text(exporter):
    artifact = exporter.artifact("fcn5_mnist")
    assert artifact.layouts == ("nchw",)
    assert artifact.program("nhwc").source == artifact.program().source


def lines(text):
    """The statements of the converted graph, without indentation."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> agraph {text}')
    program = convert(channels_last(ir.from_proto(onnx.shape_inference.infer_shapes(model))), [])
    return [line.strip() for line in program.source.splitlines()[1:-1]]


def test_a_file_that_is_channels_last_itself_loses_its_transposes():
    """As tf2onnx writes every convolution."""
    nodes = lines("""(float[2, 5, 6, 3] x, float[4, 3, 1, 1] w) => (float[2, 5, 6, 4] y) {
        a = Transpose <perm = [0, 3, 1, 2]> (x)
        c = Conv (a, w)
        r = Relu (c)
        b = Transpose <perm = [0, 2, 3, 1]> (r)
        y = Sigmoid (b)
    }""")
    assert nodes == ["c = Conv(x, w, channels_last=1)", "r = Relu(c)", "y = Sigmoid(r)"]


def test_a_branch_that_wants_onnx_order_gets_its_transpose_once():
    nodes = lines("""(float[2, 4, 5, 6] x, float[4, 4, 1, 1] w) => (float[2, 4, 5, 6] y, float[2, 4, 30] z) {
        c = Conv (x, w)
        shape = Constant <value_ints = [0, 0, -1]> ()
        z = Reshape (c, shape)
        d = Conv (c, w)
        y = Add (c, d)
    }""")
    assert nodes == [
        "x_nhwc = Transpose(x, perm=(0, 2, 3, 1))",
        "c = Conv(x_nhwc, w, channels_last=1)",
        "c_nchw = Transpose(c, perm=(0, 3, 1, 2))",
        "z = Reshape(c_nchw, (0, 0, -1))",
        "d = Conv(c, w, channels_last=1)",
        "y_nhwc = Add(c, d)",
        "y = Transpose(y_nhwc, perm=(0, 3, 1, 2))",
    ]


def test_what_is_broadcast_is_aligned_with_the_image():
    nodes = lines("""(float[2, 4, 5, 6] x, float[4, 4, 1, 1] w, float[4, 1, 1] v) => (float[2, 4, 5, 6] y) {
        c = Conv (x, w)
        y = Mul (v, c)
    }""")
    assert nodes[2:4] == ["v_4d = Unsqueeze(v, (0,))", "v_nhwc = Transpose(v_4d, perm=(0, 2, 3, 1))"]


def test_what_is_broadcast_may_be_read_twice_and_be_called_as_the_pass_would_call_it():
    nodes = lines("""(float[2, 4, 5, 6] x, float[4, 4, 1, 1] w, float[4, 1, 1] v) => (float[2, 4, 5, 6] y)
        <int64[2] c_axes = {2, 3}, float[4, 1, 1] x_nhwc = {1, 2, 3, 4}> {
        c = Conv (x, w)
        m = Mul (v, c)
        r = ReduceSum (m, c_axes)
        a = Add (r, v)
        y = Add (a, x_nhwc)
    }""")
    assert sum(line.startswith("y") for line in nodes) == 2  # y and its transpose
    names = [line.split(" = ")[0] for line in nodes if " = " in line]
    assert len(set(names)) == len(names)


def test_a_transpose_of_two_axes_is_not_taken_for_one_of_channels():
    """With three axes the two are the same permutation; attention has it in every layer."""
    nodes = lines("""(float[2, 3, 4] x) => (float[2, 4, 3] y) {
        t = Transpose <perm = [0, 2, 1]> (x)
        y = Softmax <axis = -1> (t)
    }""")
    assert nodes == ["t = Transpose(x, perm=(0, 2, 1))", "y = Softmax(t)"]


def test_a_body_of_control_flow_reads_onnx_order():
    nodes = lines("""(bool c, float[2, 4, 5, 6] x, float[4, 4, 1, 1] w) => (float[2, 4, 5, 6] y) {
        a = Conv (x, w)
        y = If (c) <then_branch = g () => (float[2, 4, 5, 6] p) { p = Neg (a) },
                    else_branch = h () => (float[2, 4, 5, 6] q) { q = Exp (a) }>
    }""")
    assert "p = Neg(a_nchw)" in nodes and "q = Exp(a_nchw)" in nodes


# ***** kernels *****


def test_kernels_are_kept_in_the_order_of_the_framework_and_given_back_in_onnx_order(exporter):
    program = exporter.artifact("mobilenet_v2").program()
    orders = kernel_orders(program)
    kernels = {name for name, array in program.params.items() if array.ndim == 4}
    assert set(orders) == kernels
    kept = reordered(program.params, orders)
    shapes = {program.params[n].shape: kept[n].shape for n in kernels}
    assert shapes[(32, 3, 3, 3)] == (3, 3, 3, 32)  # height, width, in, out
    assert shapes[(32, 1, 3, 3)] == (3, 3, 32, 1)  # height, width, channels, multiplier
    back = reordered(kept, inverse(orders))
    assert all(np.array_equal(back[name], array) for name, array in program.params.items())


def test_matrices_of_linear_layers_are_turned_where_nothing_else_reads_them(exporter):
    program = exporter.artifact("imdb_gru").program()
    assert linear_orders(program) == {"fc.weight": (1, 0)}  # the embedding is a lookup, recurrent weights are split


# ***** choosing *****


@pytest.mark.parametrize("mode", ["forward", "step"])
def test_auto_chooses_the_layout_that_was_faster_and_says_so(shell, mode):
    shell.run("time", "lenet", "--runtime", "jax", "--mode", mode, "--batch", "2", "--layout", "auto", *QUICK)
    (record,) = records(shell.folder / "xbench-results")
    assert (record["status"], record["case"]["layout"]) == ("PASS", "auto")
    medians = record["layout"]["median_s"]
    assert set(medians) == {"nchw", "nhwc"}
    assert medians[record["layout"]["chosen"]] == min(medians.values())
    assert record["note"] == record["layout"]["chosen"]
    assert "--layout auto" in record["command"]


def test_a_runtime_that_cannot_be_told_says_so_and_auto_leaves_it_alone(shell):
    words = ("time", "lenet", "--runtime", "onnxruntime", "--mode", "forward", "--batch", "2", *QUICK)
    shell.run(*words, "--layout", "nhwc")
    shell.run(*words, "--layout", "auto")
    refused, chosen = records(shell.folder / "xbench-results")
    assert (refused["status"], refused["times"]) == ("UNSUPPORTED", None)
    assert refused["message"].startswith("onnxruntime cannot be told nhwc")
    assert (chosen["status"], chosen["layout"], chosen["note"]) == ("PASS", None, None)


def test_a_layout_that_was_asked_for_is_never_left_out(shell):
    """It was: nothing was printed, and the exit code was 0."""
    words = ("check", "lenet", "--runtime", "onnxruntime", "--layout", "nhwc", "--batch", "2", "--json")
    answer = shell.run(*words)
    rows = json.loads(answer.stdout)
    assert [row["status"] for row in rows] == ["UNSUPPORTED"] * 2
    assert all(row["message"].startswith("onnxruntime cannot be told nhwc") for row in rows)


def test_an_unknown_layout_is_one_line(shell):
    answer = shell.run("time", "lenet", "--layout", "chwn")
    assert answer.returncode == 2
    assert answer.stderr.strip().splitlines() == ["xbench: unknown layout 'chwn': the layouts are nchw, nhwc, auto"]
