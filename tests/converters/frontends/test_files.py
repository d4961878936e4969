"""Real files: outer values returned by branches, and operators that nothing computes in float64."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from fault_kit import refused
from onnx import TensorProto, helper, parser

from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.source import parse
from xbench.runtimes import Options, load

HEAD = '<ir_version: 8, opset_import: ["": 16]>\ng (float[N, 4] x, bool[1] c) => '
# An outer value that a branch or a body returns by Identity; test_identities.py has others.
HANDED_OUT = {
    "handed out by both branches": """(float[N, 4] y) {
        v = Exp (x)
        y = If (c) <then_branch = t () => (float[N, 4] p) { p = Identity (v) },
                    else_branch = e () => (float[N, 4] q) { q = Identity (v) }> }""",
    "handed out twice by one branch": """(float[N, 4] y, float[N, 4] z) {
        v = Exp (x)
        y, z = If (c) <then_branch = t () => (float[N, 4] p, float[N, 4] p2) { p = Identity (v)
                            p2 = Identity (v) },
                       else_branch = e () => (float[N, 4] q, float[N, 4] q2) { q = Neg (v)
                            q2 = Identity (q) }> }""",
    "an input of the graph": """(float[N, 4] y) {
        y = If (c) <then_branch = t () => (float[N, 4] p) { p = Identity (x) },
                    else_branch = e () => (float[N, 4] q) { q = Neg (x) }> }""",
    "a weight that is an output": """(float[N, 4] y, float[4] w) <float[4] v = {1, 2, 3, 4}> {
        w = Identity (v)
        h = If (c) <then_branch = t () => (float[4] p) { p = Identity (v) },
                    else_branch = e () => (float[4] q) { q = Neg (v) }>
        y = Add (x, h) }""",
    "handed out by the body of a loop": """(float[N, 4] y, float[K, N, 4] all) {
        v = Exp (x)
        times = Constant <value = int64 {3}> ()
        go = Constant <value = bool {1}> ()
        y, all = Loop (times, go, x) <body = b (int64 i, bool on, float[N, 4] h)
                => (bool still, float[N, 4] next, float[N, 4] kept) {
            still = Identity (on)
            next = Add (h, v)
            kept = Identity (v) }> }""",
}


@pytest.mark.parametrize("kind", HANDED_OUT)
@pytest.mark.parametrize("condition", [True, False])
def test_a_value_may_be_handed_out_of_a_branch_and_be_more_besides(tmp_path, kind, condition):
    model = parser.parse_model(HEAD + HANDED_OUT[kind])
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, tmp_path / "m.onnx")
    folder = tmp_path / "out"
    folder.mkdir()
    build.export_file(parse(f"{tmp_path / 'm.onnx'}@x=batch,4"), tmp_path / "m.onnx", folder)
    given = [np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32), np.array([condition])]
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")  # onnx.reference joins what a Loop should stack
    wanted = session.run(None, {each.name: dict(x=given[0], c=given[1])[each.name] for each in session.get_inputs()})
    for runtime in ("torch", "onnxruntime"):
        ready = load(runtime, Artifact.read(folder), Options())
        ready.prepare(given, np.zeros(2, np.int64), False)
        outputs = ready.get(ready.forward(*ready.put(given)))
        for actual, expected in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def saved(path, nodes, inputs, outputs, weights=(), **domains):
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(name, version) for name, version in domains.items())]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def value(name, *shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


TREE = {
    "classlabels_int64s": [0, 1],
    "class_ids": [0, 1],
    "class_nodeids": [1, 2],
    "class_treeids": [0, 0],
    "class_weights": [1.0, 1.0],
    "nodes_falsenodeids": [2, 0, 0],
    "nodes_featureids": [0, 0, 0],
    "nodes_hitrates": [1.0] * 3,
    "nodes_missing_value_tracks_true": [0] * 3,
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_nodeids": [0, 1, 2],
    "nodes_treeids": [0, 0, 0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "post_transform": "NONE",
}


def contrib(path):
    node = helper.make_node("Inverse", ["x"], ["y"], domain="com.microsoft")
    saved(path, [node], [value("x", "N", 4, 4)], [value("y", "N", 4, 4)], **{"com.microsoft": 1})


def tree(path, zipped=False):
    nodes = [helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml", **TREE)]
    outputs = [value("label", "N", kind=TensorProto.INT64), value("p", "N", 2)]
    if zipped:
        nodes.append(helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]))
        map_of = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        outputs[1] = helper.make_value_info("z", helper.make_sequence_type_proto(map_of))
    saved(path, nodes, [value("x", "N", 3)], outputs, **{"ai.onnx.ml": 1})


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (contrib, "operators that ONNX does not define: com.microsoft.Inverse (1)"),
        (lambda path: tree(path, zipped=True), "'z' holds maps, not tensors"),
    ],
)
def test_a_valid_file_without_an_oracle_is_not_called_invalid(shell, make, line):
    make(shell.folder / "m.onnx")
    for command in ("check", "time"):
        message = refused(shell, command, "m.onnx", "--shape", "N=batch", "--runtime", "onnxruntime")
        assert message == f"xbench: m.onnx is valid, but has no oracle: {line}"


def test_trees_are_looked_at_and_said_to_have_no_oracle(shell):
    tree(shell.folder / "m.onnx")
    answer = shell.run("check", "m.onnx", "--runtime", "onnxruntime", "--mode", "forward", "--json")
    (row,) = json.loads(answer.stdout)
    assert row["status"] == "UNVERIFIED" and answer.returncode == 1
    assert "cannot compute the float64 reference" in row["message"]
    assert "operators missing: ai.onnx.ml.TreeEnsembleClassifier (1)" in row["message"]
