"""Networks with steps: a result right up to a tie passes, a wrong scale or zero point does not."""

import numpy as np
import onnx
import onnxruntime
import pytest
import quantised_files
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from torch import nn

from xbench.parity import calls, candidate, oracle, steps, verdict
from xbench.runtimes import Options, load
from xbench.testing import assert_same_network
from xbench.workers.prepare import Exporter

SUM = """<ir_version: 9, opset_import: ["": 19]>
g (float[n,64] x, float[n,64] w) => (float[n,64] y)
<float s = {{0.02}}, float s2 = {{{scale}}}, float t = {{0.04}}, int8 z = {{0}}, int8 z2 = {{{zero}}}> {{
  a = QuantizeLinear(x, s, z)
  b = DequantizeLinear(a, s, z)
  e = QuantizeLinear(w, s, z)
  f = DequantizeLinear(e, s2, z2)
  c = Add(b, f)
  d = QuantizeLinear(c, t, z)
  y = DequantizeLinear(d, t, z) }}"""


class Sum(nn.Module):
    """Sum of two int8 values of scale 0.02, in int8 of scale 0.04: every odd sum is a tie."""

    def forward(self, x, w):
        return _int8(_int8(x, 0.02) + _int8(w, 0.02), 0.04)


def _int8(value, scale):
    return torch.clamp(torch.round(value / scale), -128, 127) * scale


@pytest.mark.parametrize(
    ("scale", "zero", "is_right"),
    [(0.02, 0, True), (0.0204, 0, False), (0.025, 0, False), (0.02, 2, False)],
)
def test_an_int8_sum_with_another_scale_or_zero_point_is_another_network(tmp_path, scale, zero, is_right):
    file = tmp_path / "sum.onnx"
    onnx.save(onnx.parser.parse_model(SUM.format(scale=scale, zero=zero)), file)
    torch.manual_seed(0)
    inputs = torch.rand(4, 64) * 2 - 1, torch.rand(4, 64) * 2 - 1
    if is_right:
        assert_same_network(Sum(), inputs, runtimes=["onnxruntime"], converted=file)
        return
    with pytest.raises(AssertionError, match="is not the same network"):
        assert_same_network(Sum(), inputs, runtimes=["onnxruntime"], converted=file)


CLIPPED = """<ir_version: 9, opset_import: ["": 19]>
g (float[n,64] x) => (float[n,64,3] y) <float low = {0.0}, float high = {5.0}> {
  a = Exp(x) b = Sub(a, high) c = Clip(b, low, high) f = Floor(c) i = Cast <to = 7> (f) y = Gather(e, i) }"""


def test_zeros_that_a_clip_leaves_are_moved_to_no_other_side(exporter, tmp_path):
    """Below zero the floor would be another row of the table, the last."""
    model = onnx.parser.parse_model(CLIPPED)
    table = np.arange(18, dtype=np.float32).reshape(6, 3)
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "e"))
    onnx.save(model, tmp_path / "clipped.onnx")
    artifact = exporter.artifact(str(tmp_path / "clipped.onnx"))
    path = tmp_path / "reference.npz"
    oracle.write(artifact, path, "forward", [candidate.sample(artifact, 4, 0)])
    reference = verdict.read(path)
    right = reference["output/y"]
    assert (right[..., 0] == 0).mean() > 0.5, "most are clipped"
    assert verdict.judge({"output/y": right.astype(np.float32)}, reference).status == "PASS"
    wrong = right.astype(np.float32)
    place = tuple(np.argwhere(right[..., 0] == 0)[0])
    wrong[place] = table[-1]
    assert verdict.judge({"output/y": wrong}, reference).status == "FAIL"


MASKED = """<ir_version: 9, opset_import: ["": 19]>
g (float[n,64] x) => (float[n,64] y) <float zero = {{0.0}}, float one = {{1.0}}, float other = {{-3.0}}> {{
  a = MatMul(x, w) b = MatMul(x, v) {mask} y = Where(m, b, other) }}"""


@pytest.mark.parametrize(
    "mask",
    [
        "c = Relu(a) m = Greater(c, zero)",
        "c = Clip(a, zero, one) m = GreaterOrEqual(c, one)",
        "c = Max(zero, a) s = Sign(c) m = Cast <to = 9> (s)",
        "k = Greater(a, zero) c = Where(k, a, zero) m = Greater(c, zero)",
    ],
)
def test_a_mask_of_what_a_clip_leaves_has_no_ties(mask, exporter, tmp_path):
    """Half of the elements are at the step itself, and right on every runtime."""
    model, draw = onnx.parser.parse_model(MASKED.format(mask=mask)), np.random.default_rng(0)
    products = [draw.normal(size=(64, 64)).astype(np.float32) / 4 for _ in range(2)]
    named = zip(products, ("w", "v"), strict=True)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(*each) for each in named)
    onnx.save(model, tmp_path / "masked.onnx")
    artifact = exporter.artifact(str(tmp_path / "masked.onnx"))
    inputs, labels = candidate.sample(artifact, 32, 0)
    known = reference(artifact, (inputs, labels))
    right = onnxruntime.InferenceSession(tmp_path / "masked.onnx").run(None, {"x": inputs[0]})[0]
    assert verdict.judge({"output/y": right}, known).status == "PASS"
    without = inputs[0] @ products[1]
    masked = np.argwhere(right == -3)
    assert len(masked) > 300
    for wrong in (masked[:5], masked[::2], masked):
        answer = right.copy()
        answer[tuple(wrong.T)] = without[tuple(wrong.T)]
        assert verdict.judge({"output/y": answer}, known).status == "FAIL"


@pytest.mark.parametrize("kind", [torch.int64, torch.uint8, torch.bool])
def test_a_cast_of_whole_numbers_is_recorded_once_and_forced_where_float32_is_below_one(kind):
    """A quantised network has two steps for each value, a rounding and a cast: the cast needs no copy of its input."""
    recorded = steps.Recorded()
    with recorded:
        torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64).to(kind)
    (step,) = recorded.steps
    assert step.inputs == [None] and step.near == [None]
    with steps.Forced(recorded.steps):
        same = torch.tensor([0.0, 1.0, 1.0]).to(kind)
    assert step.near == [None] and same.tolist() == [0, 1, 1]
    with steps.Forced(recorded.steps):
        made = torch.tensor([0.0, 1.0, 0.9999999]).to(kind)
    assert made.tolist() == [0, 1, 1] and made.dtype == kind, "the oracle's side"
    assert step.near[0].min() > 5e-8, "how near to a step float32 cannot choose sides"


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Linear(8 * 16, 10)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.last(torch.max_pool2d(torch.relu(x + self.second(x)), 2).flatten(1))


class Images(CalibrationDataReader):
    def __init__(self):
        self.left = [{"x": np.random.default_rng(seed).random((8, 3, 16, 16), dtype=np.float32)} for seed in range(4)]

    def get_next(self):
        return self.left.pop() if self.left else None


@pytest.fixture(scope="module")
def quantised(tmp_path_factory):
    """The network's quantised files by kind, each with the references of two seeds."""
    folder = tmp_path_factory.mktemp("quantised")
    torch.manual_seed(0)
    plain, exporter, made = folder / "plain.onnx", Exporter(folder), {}
    names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}}
    torch.onnx.export(Residual().eval(), (torch.rand(2, 3, 16, 16),), plain, opset_version=17, dynamo=False, **names)
    static = {"quant_format": QuantFormat.QDQ, "weight_type": QuantType.QInt8}
    quantize_static(plain, folder / "int8.onnx", Images(), activation_type=QuantType.QInt8, per_channel=True, **static)
    quantize_static(plain, folder / "uint8.onnx", Images(), activation_type=QuantType.QUInt8, **static)
    quantize_dynamic(plain, folder / "dynamic.onnx")
    for kind in ("int8", "uint8", "dynamic"):
        artifact = exporter.artifact(str(folder / f"{kind}.onnx"))
        batches = [candidate.sample(artifact, 4, seed) for seed in range(2)]
        made[kind] = folder / f"{kind}.onnx", artifact, [(batch[0], reference(artifact, batch)) for batch in batches]
    yield made
    exporter.close()


def reference(artifact, batch):
    exact, floors, more = oracle.measured(artifact, "forward", [batch])
    return {**exact, **{f"floor/{name}": np.array(value) for name, value in floors.items()}, **more}


@pytest.mark.parametrize("kind", ["int8", "uint8", "dynamic"])
def test_every_scale_and_zero_point_that_moves_an_output_by_a_hundredth_fails(quantised, kind):
    file, _, references = quantised[kind]
    right, missed, tried = answers_of(onnx.load(file), references), [], 0
    assert [verdict.judge(each, known).status for each, (_, known) in zip(right, references, strict=True)] == [
        "PASS"
    ] * 2
    for words, model in changed(file):
        answers = answers_of(model, references)
        moved = [apart(one["output/y"], other["output/y"]) for one, other in zip(answers, right, strict=True)]
        if min(moved) > 0.01:
            tried += 1
            missed += [(words, moved)] if "FAIL" not in statuses(answers, references) else []
    assert tried > 10
    assert not missed


def answers_of(model, references):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return [{"output/y": session.run(None, {"x": inputs[0]})[0]} for inputs, _ in references]


def statuses(answers, references):
    return [verdict.judge(each, known).status for each, (_, known) in zip(answers, references, strict=True)]


def apart(one, other):
    return np.linalg.norm(one - other) / np.linalg.norm(other)


def changed(file):
    """The file with one scale or zero point changed."""
    for index, tensor in enumerate(onnx.load(file).graph.initializer):
        value = onnx.numpy_helper.to_array(tensor)
        for share in (0.02, 0.05, 0.1, 0.25):
            other = None
            if "scale" in tensor.name and value.dtype == np.float32:
                other = value * np.float32(1 + share)
            elif "zero_point" in tensor.name and value.dtype in (np.int8, np.uint8):
                way = -1 if value.max() > 64 else 1
                other = (value.astype(int) + way * round(255 * share)).astype(value.dtype)
            if other is not None:
                model = onnx.load(file)
                model.graph.initializer[index].CopyFrom(onnx.numpy_helper.from_array(other, tensor.name))
                yield f"{tensor.name} {share}", model


@pytest.mark.parametrize("name", ["torch", "jax", "onnxruntime"])
def test_right_runtimes_pass_on_quantised_files(quantised, name):
    for _, artifact, references in quantised.values():
        runtime = load(name, artifact, Options("forward", "cpu", 1))
        runtime.prepare(references[0][0], np.zeros(4, np.int64), dropout=False)
        for inputs, known in references:
            result = runtime.forward(*runtime.put(inputs))
            runtime.wait(result)
            judged = verdict.judge(candidate.named(artifact, calls.outputs(runtime, result)), known)
            assert judged.status == "PASS", judged.message


@pytest.mark.parametrize(("network", "form", "seed"), [("residual", "qdq-uint8", 13), ("deep", "qdq-int8", 60)])
def test_the_sides_that_right_kernels_take_are_right_ones(network, form, seed, tmp_path):
    """At many ties float32 rounded as no run of the oracle did: two of 40 outputs were a step outside of all runs.
    And the mean of a few integers is an exact tie, unless one of the integers is near a tie and moved before."""
    file, exporter = quantised_files.quantised(network, form, tmp_path), Exporter(tmp_path)
    artifact = exporter.artifact(str(file))
    exporter.close()
    inputs, known = quantised_files.reference(artifact, seed)
    (answer,) = answers_of(onnx.load(file), [(inputs, known)])
    assert statuses([answer], [(inputs, known)]) == ["PASS"]


def test_a_network_without_steps_has_no_spread(tmp_path):
    exporter = Exporter(tmp_path)
    artifact = exporter.artifact("lenet")
    known = reference(artifact, candidate.sample(artifact, 2, 0))
    exporter.close()
    assert not [name for name in known if name.startswith(verdict.SPREAD)]


# ***** single operators *****


def ran(function, watch, *values, dtype=torch.float64):
    with watch:
        return function(*(torch.tensor(value, dtype=dtype) for value in values))


@pytest.mark.parametrize(
    ("function", "values", "sides"),
    [
        (lambda x: torch.round(x / 3), [0.9, 1.5, 2.1], {(0, 0, 1), (0, 1, 1)}),
        (lambda x: (x / 3).to(torch.int32), [2.9, 3.0, 3.1], {(0, 0, 1), (0, 1, 1)}),
        (lambda x: torch.floor_(x / 3), [2.9, 3.0, 3.1], {(0, 0, 1), (0, 1, 1)}),
        (lambda x: x / 3 > 0.7, [2.0, 2.1, 2.2], {(0, 0, 1), (0, 1, 1)}),
        (lambda x: torch.argmax(x / 3).reshape(1), [1.7, 1.7, 1.6], {(0,), (1,)}),
        (lambda x: torch.topk(x / 3, 2).indices, [1.7, 1.5, 1.5], {(0, 1), (0, 2)}),
        (lambda x: torch.div(x, 0.7, rounding_mode="floor"), [2.0, 2.1, 2.2], {(2, 2, 3), (2, 3, 3)}),
        (lambda x: torch.relu(x / 3 - 0.7) > 0, [2.0, 2.1, 2.2], {(0, 0, 1), (0, 1, 1)}),
        (lambda x: torch.floor(torch.relu_(x / 3 - 0.7)), [2.0, 2.1, 2.2], {(0, 0, 0)}),
        (lambda x: torch.ceil(torch.clamp(x / 3 - 0.7, min=0)), [2.0, 2.1, 2.2], {(0, 0, 1), (0, 1, 1)}),
        (lambda x: torch.maximum(torch.zeros(1).to(x), x / 3 - 0.7) > 0, [2.0, 2.1, 2.2], {(0, 0, 1), (0, 1, 1)}),
        (lambda x: torch.nn.functional.hardtanh(x / 3, 0.0, 0.7) >= 0.7, [2.0, 2.1, 2.2], {(0, 0, 1), (0, 1, 1)}),
        (lambda x: torch.where(x / 3 <= 0.7, 0.0, x / 3).sign(), [2.0, 2.1, 2.2], {(0, 0, 1), (0, 1, 1)}),
        (lambda x: torch.nn.functional.pad(torch.relu(x / 3), (1, 1)) > 0, [-2.1, 2.2], {(0, 0, 1, 0)}),
    ],
)
def test_what_is_near_a_tie_is_seen_on_both_sides(function, values, sides):
    recorded = steps.Recorded()
    exact = ran(function, recorded, values)
    forced = ran(function, steps.Forced(recorded.steps), values, dtype=torch.float32)
    assert torch.equal(forced.to(exact.dtype), exact)
    moved = [ran(function, steps.Moved(recorded.steps, seed, sign), values) for seed in range(4) for sign in (1, -1)]
    assert {tuple(int(each) for each in run) for run in moved} == sides


def test_what_float32_computes_exactly_is_moved_nowhere():
    recorded = steps.Recorded()
    ran(torch.round, recorded, [0.5, 1.5, 2.25])
    ran(torch.round, steps.Forced(recorded.steps), [0.5, 1.5, 2.25], dtype=torch.float32)
    assert not steps.are_near(recorded.steps)


def test_runs_that_take_other_operators_are_not_compared():
    recorded = steps.Recorded()
    ran(torch.round, recorded, [0.5])
    for function in (torch.floor, lambda x: x.round().round(), lambda x: torch.round(x.repeat(2))):
        with pytest.raises(steps.Unaligned):
            ran(function, steps.Forced(recorded.steps), [0.5])


def spread_of(exact, *pairs):
    spread = steps.Spread(np.array(exact))
    for number, pair in enumerate(pairs):
        for value in pair:
            spread.add(np.array(value), number)
    return {"output/y": np.array(exact), "floor/output/y": np.zeros(2), **spread.arrays("output/y")}


def test_an_error_is_what_no_right_run_explains():
    known = spread_of([1.0, 2.0, 3.0], *[([1.0, 2.5, 3.0], [1.0, 2.0, 3.0])] * 12)
    for value, is_right in (([1, 2.5, 3], True), ([1, 2.25, 3], True), ([1, 1.5, 3], False), ([1.5, 2, 3], False)):
        assert (verdict.off(np.array(value, np.float32), "output/y", known) <= 64) == is_right
    assert verdict.off(np.array([1, np.nan, 3]), "output/y", known) == np.inf
    assert verdict.off(np.zeros(4), "output/y", known) == np.inf


def test_where_steps_change_others_one_that_no_run_met_is_allowed():
    first, later = ([1.0, 2.5, 3.0], [1.0, 2.0, 3.0]), ([1.0, 2.0, 3.5], [1.0, 2.0, 3.0])
    known = spread_of([1.0, 2.0, 3.0], *[first] * 11, later)
    assert verdict.off(np.array([1.5, 2.0, 3.0]), "output/y", known) <= 64
    assert verdict.off(np.array([2.5, 2.0, 3.0]), "output/y", known) > 64


def test_a_run_with_other_infinities_allows_nothing():
    known = spread_of([1.0, -np.inf], ([1.0, 2.0], [1.0, -np.inf]))
    assert verdict.off(np.array([1.0, 2.0]), "output/y", known) == np.inf
    assert verdict.off(np.array([1.0, -np.inf]), "output/y", known) == 0
