"""Inputs are drawn so that they exercise the network: their kind follows from the nodes that read them."""

import json
import re

import attention_nets as nets
import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from typer.testing import CliRunner

from xbench import models
from xbench.cli import app
from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.frontends.axes import inputs_of
from xbench.converters.frontends.onnx_file import canonical
from xbench.converters.frontends.pytorch import clean
from xbench.converters.inputs import settled
from xbench.converters.source import parse, with_options
from xbench.errors import XBenchError
from xbench.parity import candidate, sensitivity

# ***** the nodes that read an input *****

CONSTANT = re.compile(r"\$(\[[-\d, ]*\]|[-\d.e]+)")
BIG = "$-1e9"


def graph(inputs, body, opset=17):
    """A graph of this text, nodes separated by semicolons. E is a table of ten rows, P one of six; `$2` is a number,
    `$2.0` a float, `$[2]` an array."""
    arrays = {name: np.random.default_rng(rows).standard_normal((rows, 4)) for name, rows in (("E", 10), ("P", 6))}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}

    def constant(match):
        array = np.array(json.loads(match[1]))
        arrays[name := f"c{len(arrays)}"] = array.astype(np.float32) if array.dtype.kind == "f" else array
        return name

    lines = CONSTANT.sub(constant, body).replace("; ", "\n")
    proto = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g ({inputs}) => (float y) {{\n{lines}\n}}'
    )
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    proto.graph.output[0].CopyFrom(onnx.shape_inference.infer_shapes(proto).graph.output[0])
    return proto


def drawn(proto, name="i"):
    """How an input of a graph is drawn."""
    model, nobody = clean(canonical(proto)), parse("m:f@x:float32:batch")
    given = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    return {each.name: each for each in settled(model, inputs_of(nobody, given))}[name]


BRANCHES = "y = If ({}) <then_branch = a () => ({} v) {{{}}}, else_branch = b () => ({} w) {{{}}}>".format
TABLE = {
    "as it is": ("y = Gather (E, i)", 9),
    "the last": ("t = Gather <axis = 1> (i, $-1); y = Gather (E, t)", 9),
    "a slice": ("t = Slice (i, $[-1], $[9223372036854775807], $[1]); y = Gather (E, t)", 9),
    "reshaped": ("t = Reshape (i, $[-1]); y = Gather (E, t)", 9),
    "one more": ("t = Add (i, $1); y = Gather (E, t)", 8),
    "from the end": ("t = Sub ($9, i); y = Gather (E, t)", 9),
    "two apart": ("t = Mul (i, $2); y = Gather (E, t)", 4),
    "another type": ("t = Cast <to = 6> (i); y = Gather (E, t)", 9),
    "replaced": ("q = Equal (i, $0); t = Where (q, $1, i); y = Gather (E, t)", 9),
    "joined": ("u = Reshape ($[1, 1], $[2, 1]); t = Concat <axis = 1> (u, i); y = Gather (E, t)", 9),
    "of all axes": ("t = Unsqueeze (i, $[-1]); y = GatherND (E, t)", 9),
    "a table that is computed": ("c = Cast <to = 1> (E); f = Identity (c); y = Gather (f, i)", 9),
    "made to fit": ("t = Mod (i, $10); y = Gather (E, t)", 255),
    "the smaller of two tables": ("a = Gather (E, i); b = Gather (P, i); y = Add (a, b)", 5),
    "classes": ("v = Cast <to = 1> ($[0, 1]); y = OneHot (i, $7, v)", 6),
    "in a branch": (
        "s = ReduceSum <keepdims = 0> (E); q = Greater (s, $0.0); "
        + BRANCHES("q", "float[2, 5, 4]", "v = Gather (E, i)", "float[2, 5, 4]", "u = Gather (E, i); w = Neg (u)"),
        9,
    ),
    "in a body": (
        "y = Scan <num_scan_inputs = 1, body = b (int64[5] v) => (float[5, 4] w) {w = Gather (E, v)}> (i)",
        9,
    ),
}


@pytest.mark.parametrize(("body", "last"), TABLE.values(), ids=TABLE)
def test_an_index_stays_within_its_table_on_whatever_way_it_gets_there(body, last):
    each = drawn(graph("int64[2, 5] i", body))
    assert (each.low, each.high - 1, each.mask) == (0, last, 0), each
    values = models.draw(each, 2, 0)
    assert values.min() >= 0 and values.max() <= last


OTHERS = {
    "an axis of another input": ("float[N, 7] x, int64[N, 3] i", "y = GatherElements <axis = 1> (x, i)", 6),
    "its batch": ("float[N, 7] x, int64[3] i", "y = Gather <axis = 0> (x, i)", 4),
    "twice its batch": ("float[N, 7] x, int64[3] i", "z = Concat <axis = 0> (x, x); y = Gather (z, i)", 9),
    "all its numbers": ("float[N, 7] x, int64[3] i", "z = Reshape (x, $[-1, 1]); y = Gather (z, i)", 34),
}


@pytest.mark.parametrize(("inputs", "body", "last"), OTHERS.values(), ids=OTHERS)
def test_an_index_into_what_other_inputs_are_stays_within_it(inputs, body, last):
    each = drawn(graph(inputs, body))
    values = np.concatenate([models.draw(each, 5, seed).ravel() for seed in range(200)])
    assert (values.min(), values.max()) == (0, last)


NEWER = {
    "a row of angles": (
        23,
        "float[N, 2, 6, 8] x, float[7, 4] c, float[7, 4] s, int64[N, 6] i",
        "y = RotaryEmbedding (x, c, s, i)",
        *(0, 6),
    ),
    "the image of a box": (20, "float[N, 3, 8, 8] x, float[4, 4] r, int64[4] i", "y = RoiAlign (x, r, i)", 0, 4),
    "where an update begins": (
        24,
        "float[N, 9, 4] x, float[N, 3, 4] u, int64[N] i",
        "y = TensorScatter (x, u, i)",
        *(0, 6),
    ),
    "keys that are no padding": (
        24,
        "float[N, 2, 6, 8] q, float[N, 2, 6, 8] k, float[N, 2, 6, 8] v, int64[N] i",
        "y = Attention (q, k, v, , , , i)",
        *(1, 6),
    ),
    "a place in a sequence": (
        20,
        "float[N, 4] x, int64 i",
        "s = SequenceConstruct (x, x); y = SequenceAt (s, i)",
        *(0, 0),
    ),
}


@pytest.mark.parametrize(("opset", "inputs", "body", "low", "last"), NEWER.values(), ids=NEWER)
def test_operators_that_index_without_a_gather_get_what_they_can_take(opset, inputs, body, low, last):
    each = drawn(graph(inputs, body, opset))
    values = np.concatenate([models.draw(each, 5, seed).ravel() for seed in range(200)])
    assert (values.min(), values.max()) == (low, last)


IMAGE = "float[N, 6] x, int64[N, 1] i"
COUNTS = {
    "a length": (IMAGE, "k = Less ($[0, 1, 2, 3, 4, 5], i); f = Cast <to = 1> (k); y = Mul (x, f)", 1, 6),
    "a length against an axis": (
        IMAGE,
        "s = Shape (x); n = Gather (s, $1); r = Range ($0, n, $1); k = Greater (i, r); f = Cast <to = 1> (k); "
        "y = Mul (x, f)",
        *(1, 6),
    ),
    "behind the last": (
        "float[N, 6, 4] x, int64[N, 1] i",
        "l = Sub (i, $1); y = GatherND <batch_dims = 1> (x, l)",
        1,
        6,
    ),
    "what was there before": (
        "int64[N, 5] ids, int64 i",
        "p = Add ($[0, 1, 2, 3, 4], i); a = Gather (E, p); b = Gather (P, ids); y = Add (a, b)",
        *(0, 5),
    ),
    "the end of a range": ("int64 i", "r = Range ($0, i, $1); y = Gather (P, r)", 1, 6),
    "repetitions": ("float[N, 3] x, int64[2] i", "y = Tile (x, i)", 1, 4),
    "how many": ("float[N, 6] x, int64[1] i", "y, k = TopK (x, i)", 1, 6),
    "cut off above": ("int64[N, 5] i", "t = Min (i, $9); y = Gather (E, t)", 0, 12),
    "what divides": (IMAGE, "f = Cast <to = 1> (i); y = Div (x, f)", 1, 256),
    "a byte": ("uint8[N, 6] i", "f = Cast <to = 1> (i); y = Neg (f)", 0, 255),
    "a signed byte": ("int8[N, 6] i", "f = Cast <to = 1> (i); y = Neg (f)", -128, 127),
}


@pytest.mark.parametrize(("inputs", "body", "low", "last"), COUNTS.values(), ids=COUNTS)
def test_what_counts_or_measures_is_neither_too_small_nor_too_large(inputs, body, low, last):
    each = drawn(graph(inputs, body))
    assert (each.low, each.high - 1, each.mask) == (low, last, 0), each


MASKS = {
    "taken from one": ("int64", "f = Cast <to = 1> (i); m = Sub ($1.0, f); t = Mul (m, $-1e4); y = Add (x, t)", 1),
    "taken off the scores": ("int64", "f = Cast <to = 1> (i); m = Sub ($1.0, f); t = Mul (m, $1e9); y = Sub (x, t)", 1),
    "less one": ("float", "m = Sub (i, $1.0); t = Mul (m, $1e4); y = Add (x, t)", 1),
    "a large number where it is": ("int32", f"f = Cast <to = 1> (i); t = Mul (f, {BIG}); y = Add (x, t)", -1),
    "nothing where it is zero": ("int64", f"q = Equal (i, $0); y = Where (q, {BIG}, x)", 1),
    "as a truth": ("uint8", f"q = Cast <to = 9> (i); y = Where (q, x, {BIG})", 1),
    "truth that hides": ("bool", f"y = Where (i, {BIG}, x)", -1),
    "truth turned around": ("bool", f"n = Not (i); y = Where (n, {BIG}, x)", 1),
    "a factor": ("int64", "f = Cast <to = 1> (i); y = Mul (x, f)", 1),
    "below a half": ("int64", f"f = Cast <to = 1> (i); q = Less (f, $0.5); y = Where (q, {BIG}, x)", 1),
    "counted": (
        "int64",
        "s = CumSum (i, $1); p = Sub (s, $1); t = Gather (E, p); u = Unsqueeze (x, $[2]); y = Add (t, u)",
        1,
    ),
}


@pytest.mark.parametrize(("dtype", "body", "keeps"), MASKS.values(), ids=MASKS)
def test_a_mask_keeps_something_of_every_row_and_drops_its_end_and_some_between(dtype, body, keeps):
    each = drawn(graph(f"float[N, 6] x, {dtype}[N, 6] i", body))
    assert each.mask == keeps, each
    gaps = 0
    for seed in range(10):
        mask = models.draw(each, 3, seed)
        kept = mask == (keeps == 1)
        assert set(mask.ravel().tolist()) == {0, 1} and mask.dtype.name.startswith(dtype)
        assert kept[:, 0].all() and not kept[:, -1].any()
        gaps += (np.diff(kept.astype(int), axis=1) == 1).sum()
    assert gaps >= 10


def test_what_an_input_is_compared_with_is_drawn_often():
    body = "q = Equal (i, $9); c = Cast <to = 6> (q); p = ArgMax <axis = 1> (c); x = Gather (E, i); "
    each = drawn(graph("int64[N, 6] i", body + "y = GatherND <batch_dims = 1> (x, p)"))
    for seed in range(10):
        values = models.draw(each, 3, seed)
        assert (values == 9).any(axis=1).all() and (values != 9).any(axis=1).all() and values.max() == 9


def test_both_values_of_one_truth_are_drawn():
    branches = BRANCHES("i", "float[N, 6]", "v = Neg (x)", "float[N, 6]", "w = Abs (x)")
    each = drawn(graph("float[N, 6] x, bool i", branches))
    first, second = (models.draw(each, 2, seed) for seed in (0, 1))
    assert first.shape == () and isinstance(first, np.ndarray) and first != second


# ***** modules, commands, records *****


class Index(nets.nn.Module):
    """An index whose range is the length of another input; from the small modules of the issue."""

    def __init__(self):
        super().__init__()
        self.l = nets.nn.Linear(8, 4)

    def forward(self, x, pick, unused):
        return self.l(x.gather(1, pick[:, :, None].expand(-1, -1, 8)))[:, 0] + 0 * unused.sum()


def test_a_module_is_drawn_as_a_file_is_and_what_changes_nothing_is_named(tmp_path):
    word = "test_inputs:Index@x:float32:batch,10,8;pick:int64:batch,3;unused:float32:batch,2"
    build.export_module(parse(word), tmp_path)
    artifact = Artifact.read(tmp_path)
    assert artifact.info["inputs"][1]["high"] == 10 and artifact.info["inputs"][1]["why"] == "indexes axis 1 of x"
    assert sensitivity.unread(artifact, 2) == {"x": [], "pick": [], "unused": artifact.info["outputs"]}


@pytest.fixture
def scalars(tmp_path):
    """Files with an input that has no axes."""
    for dtype in ("int64", "float", "bool"):
        body = "z = Cast <to = 1> (k); y = Mul (x, z)"
        onnx.save(graph(f"float[N, 4] x, {dtype} k", body), tmp_path / f"{dtype}.onnx")
    return tmp_path


def test_inputs_without_axes_are_judged_and_the_record_says_what_was_drawn(scalars, monkeypatch):
    monkeypatch.chdir(scalars)
    words = [str(scalars / f"{dtype}.onnx") for dtype in ("int64", "float", "bool")]
    command = ["check", *words, "--range", "k=1:2", "--mode", "forward", "--runtime", "onnxruntime", "--json"]
    result = CliRunner().invoke(app, command)
    rows = json.loads(result.stdout)
    assert [row["status"] for row in rows] == ["PASS"] * 3
    ranges = [row["inputs"][1]["drawn"].partition(",") for row in rows]
    assert ranges == [(values, ",", " as --range says") for values in ("1 to 1", "1 to 2", "1 to 1")]
    assert rows[0]["inputs"][0] == {"name": "x", "drawn": "-1.73205 to 1.73205", "unread": []}


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("k=5:5", "is empty"),
        ("k=7:5", "is empty"),
        ("k=5", "write name=low:high"),
        ("k=a:b", "write name=low:high"),
        ("k=0:inf", "write name=low:high"),
        ("nobody=0:5", "there is no input of this name; there are x, k"),
        ("k=0:9", "bool holds whole numbers from 0 to 1"),
    ],
)
def test_a_range_that_cannot_be_is_one_line(scalars, option, line):
    place = scalars / "bool.onnx"
    with pytest.raises(XBenchError, match=line) as raised:
        source = parse(with_options(str(place), ranges=[option]))
        build.export_file(source, place, scalars)
    assert "\n" not in str(raised.value)


def test_a_range_is_part_of_the_word_and_so_of_the_cell(tmp_path):
    assert with_options("lenet", ranges=["x=0:1"], optimizer="adam") == "lenet@x=0:1;optimizer=adam"
    assert parse("lenet@x=0:1").ranges == {"x": (0.0, 1.0)}
    build.export_zoo("lenet", 0, tmp_path, ranges=parse("lenet@x=0:1").ranges)
    inputs, _ = candidate.sample(Artifact.read(tmp_path), 2, 0)
    assert inputs[0].min() >= 0 and inputs[0].max() < 1
