"""A branch may return an outer value, even if that is an output of another graph too."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from xbench.converters.codegen.program import convert
from xbench.converters.frontends.onnx_file import canonical
from xbench.converters.frontends.pytorch import clean
from xbench.converters.passes import identities
from xbench.parity import network

HEAD = '<ir_version: 8, opset_import: ["": 18]> g (float[N, 4] x, bool[1] c) => '
FILES = {
    "an output of the graph": """(float[N,4] v, float[N,4] y) {
        v = Exp(x)
        y = If(c) <then_branch = t() => (float[N,4] p) { p = Identity(v) },
                   else_branch = e() => (float[N,4] q) { q = Neg(v) }> }""",
    "of two branches": """(float[N,4] y, float[N,4] z) {
        v = Exp(x)
        y = If(c) <then_branch = t() => (float[N,4] p) { p = Identity(v) },
                   else_branch = e() => (float[N,4] q) { q = Neg(v) }>
        z = If(c) <then_branch = s() => (float[N,4] r) { r = Neg(v) },
                   else_branch = d() => (float[N,4] o) { o = Identity(v) }> }""",
    "of a branch in a branch": """(float[N,4] y) {
        v = Exp(x)
        y = If(c) <then_branch = t() => (float[N,4] p) {
                       w = Abs(v)
                       p = If(c) <then_branch = s() => (float[N,4] r) { r = Neg(w) },
                                  else_branch = d() => (float[N,4] o) { o = Identity(w) }> },
                   else_branch = e() => (float[N,4] q) { q = Identity(v) }> }""",
    "twice": """(float[N,4] y, float[N,4] z) {
        v = Exp(x)
        y = Identity(v)
        z = Identity(v) }""",
    "one after the other": """(float[N,4] y) {
        a = Identity(x)
        b = Identity(a)
        d = Neg(b)
        e = Identity(d)
        y = Identity(e) }""",
    "an input": "(float[N,4] y) { y = Identity(x) }",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("chosen", [True, False])
def test_the_graph_computes_what_onnx_says(name, chosen):
    proto = onnx.parser.parse_model(HEAD + FILES[name])
    given = np.random.default_rng(0).standard_normal((3, 4), np.float32), np.array([chosen])
    expected = ReferenceEvaluator(proto).run(None, dict(zip(("x", "c"), given, strict=True)))
    model = clean(canonical(proto))
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    values = network.values(convert(model, []), given, training=False)
    assert [*values] == [each.name for each in proto.graph.output]
    for one, other in zip(values.values(), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_no_identity_is_left_that_nothing_needs():
    model = canonical(onnx.parser.parse_model(HEAD + FILES["one after the other"]))
    identities.drop(model)
    assert [node.op_type for node in model.graph] == ["Neg"]
    assert [value.name for value in model.graph.outputs] == ["y"]
