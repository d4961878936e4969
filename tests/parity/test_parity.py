"""The verdict: no NaN, zero or infinity fools a metric, and an error's size shows the arithmetic that made it."""

import copy
import math
import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from xbench import models
from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.source import parse
from xbench.parity import network, oracle, trajectory, verdict
from xbench.parity.candidate import sample
from xbench.parity.verdict import LIMITS, classify, distance, judge, relative_error
from xbench.proof.prove import cut_short
from xbench.runtimes.torch import module_of

NAN, INF = math.nan, math.inf


def array(*values):
    return np.array(values, np.float64)


# ***** metrics *****


def test_half_off_in_one_element_is_fifty_percent():
    assert relative_error(array(0, 1.5, 2), array(0, 1, 2)) == 0.5


@pytest.mark.parametrize(
    ("candidate", "reference"),
    [
        (array(1, NAN), array(1, 2)),
        (array(1, 2), array(1, NAN)),
        (array(1, NAN), array(1, NAN)),
        (array(1, INF), array(1, 2)),
        (array(1, 2), array(1, INF)),
        (array(1, -INF), array(1, INF)),
        (array(1, 2, 3), array(1, 2)),
        (array(1, 2)[None], array(1, 2)),
        (np.array(1.0), array(1)),
    ],
)
def test_nan_or_infinity_or_another_shape_is_infinitely_wrong(candidate, reference):
    assert distance(candidate, reference) == (INF, INF)
    assert relative_error(candidate, reference) == INF


def test_the_same_infinity_in_the_same_place_is_right():
    assert distance(array(1, -INF), array(1, -INF)) == (0, 0)
    assert relative_error(array(1, -INF), array(1, -INF)) == 0
    assert distance(array(4, -INF), array(1, -INF)) == (3, 3)


def test_zero_is_right_only_beside_zero():
    assert relative_error(array(0, 0), array(0, 0)) == 0
    assert relative_error(array(0, 1e-30), array(0, 0)) == INF
    assert relative_error(array(0, 0), array(0, 1)) == 1


def test_distance_is_the_norm_and_the_largest_element():
    assert distance(array(3, 4, 0), array(0, 0, 0)) == (5, 4)
    assert distance(np.empty(0), np.empty(0)) == (0, 0)


# ***** verdicts *****


def reference_of(floor=1e-6, **tensors):
    named = {name.replace("__", "/"): value for name, value in tensors.items()}
    floors = {f"floor/{name}": np.array([floor * np.sqrt(max(v.size, 1)), floor]) for name, v in named.items()}
    return {"input/0": array(1), "labels": np.array([0]), **named, **floors}


TENSOR = np.linspace(-1, 1, 1000)


def verdict_of(change, tensor=TENSOR, floor=1e-7):
    return judge({"output/y": change(tensor)}, reference_of(floor, output__y=tensor))


@pytest.mark.parametrize(
    ("floors", "precision"), [(1, "fp32"), (60, "fp32"), (2**10, "tf32"), (2**15, "half"), (2**20, "wrong")]
)
def test_the_class_follows_from_the_error_in_noise_floors(floors, precision):
    result = verdict_of(lambda x: x + floors * 1e-7)
    assert (result.precision, result.status) == (precision, "PASS" if precision == "fp32" else "FAIL")
    assert result.ratio == pytest.approx(floors, rel=0.01)


@pytest.mark.parametrize(("name", "limit"), LIMITS.items())
def test_a_limit_belongs_to_its_class_and_what_is_beyond_does_not(name, limit):
    assert classify(limit) == name
    assert classify(limit * 1.001) != name
    assert classify(INF) == "wrong"


def test_the_floor_is_never_below_half_a_unit_in_the_last_place():
    assert verdict_of(lambda x: x * (1 + 2.0**-24), floor=0.0).status == "PASS"


def test_an_error_is_named_in_floors_and_in_the_terms_of_its_tensor():
    result = judge({"output/p": np.array([2.5e-6])}, reference_of(1e-9, output__p=np.array([2e-6])))
    assert result.message == "output/p is 500 times the float32 noise off (by 5e-07, its largest value is 2e-06)"


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_one_bad_number_fails_and_leaves_no_ratio(bad):
    result = verdict_of(lambda x: np.where(x == 1, bad, x))
    assert (result.status, result.precision, result.ratio) == ("FAIL", "wrong", None)
    assert "not finite" in result.message


@pytest.mark.parametrize("floor", [1e-7, INF, NAN])
@pytest.mark.parametrize("given", [1.0, NAN])
def test_nan_in_the_reference_is_no_proof_even_beside_nan(given, floor):
    result = verdict_of(lambda x: np.array([1.0, given]), np.array([1.0, NAN]), floor=floor)
    assert (result.status, result.ratio) == ("UNVERIFIED", None)
    assert "NaN" in result.message


def test_a_loss_that_is_nan_in_float64_is_told_with_its_step_and_excuses_no_other_tensor():
    undefined = reference_of(loss__2=np.array([NAN]), weight__w=TENSOR)
    result = judge({"loss/2": np.array([NAN]), "weight/w": TENSOR}, undefined)
    assert (result.status, result.message.split(" is ")[0]) == ("UNVERIFIED", "the loss of step 2")
    undefined = reference_of(output__a=np.array([NAN]), output__b=TENSOR)
    assert judge({"output/a": np.array([NAN]), "output/b": TENSOR}, undefined).status == "UNVERIFIED"
    result = judge({"output/a": np.array([NAN]), "output/b": 2 * TENSOR}, undefined)
    assert (result.status, result.first_wrong) == ("FAIL", "output/b")


def test_an_infinite_element_of_the_reference_does_not_excuse_the_finite_ones():
    masked = np.array([1.0, 2.0, -INF])
    assert verdict_of(lambda x: x, masked).status == "PASS"
    assert verdict_of(lambda x: x * 1.5, masked).status == "FAIL"


def test_a_missing_tensor_fails_and_is_named():
    result = judge({}, reference_of(gradient__w=TENSOR))
    assert (result.status, result.worst_tensor, result.first_wrong) == ("FAIL", "gradient/w", "gradient/w")


def test_a_tensor_of_zeros_must_be_zero():
    zeros = np.zeros(10)
    assert verdict_of(lambda x: x, zeros, floor=0.0).status == "PASS"
    assert verdict_of(lambda x: x + 1e-20, zeros, floor=0.0).precision == "wrong"
    assert "1e-20, not zero" in verdict_of(lambda x: x + 1e-20, zeros, floor=0.0).message


def test_one_wrong_row_of_a_large_gradient_does_not_drown():
    large = np.random.default_rng(0).standard_normal((10_000, 64))
    wrong = large.copy()
    wrong[123] *= 1 + 1e-4
    result = judge({"gradient/w": wrong}, reference_of(1e-7, gradient__w=large))
    assert result.status == "FAIL"
    assert result.rel_l2 < 2e-6


def test_the_first_wrong_output_is_the_first_of_the_graph_and_the_first_wrong_gradient_the_last():
    tensors = {"a": TENSOR, "b": TENSOR, "c": TENSOR}
    for kind, first in (("output", "output/b"), ("weight", "weight/b"), ("gradient", "gradient/c")):
        named = {f"{kind}__{name}": value for name, value in tensors.items()}
        candidate = {f"{kind}/{name}": value * (1 if name == "a" else 2) for name, value in tensors.items()}
        assert judge(candidate, reference_of(1e-7, **named)).first_wrong == first


@pytest.mark.parametrize("floor", [1 / 65, 1 / 40, 1 / 33])
def test_an_error_of_the_whole_size_never_passes(floor):
    for factor, status in ((0.99, "PASS"), (0.02, "PASS"), (-0.02, "FAIL")):
        assert verdict_of(lambda x, f=factor: x * f, np.sign(TENSOR), floor).status == status


def test_where_float32_itself_decides_nothing_the_verdict_is_unverified():
    assert verdict_of(lambda x: x, floor=0.1).status == "UNVERIFIED"


# ***** the oracle, on a trained-like network of its own *****


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lenet")
    build.export_zoo("lenet", 0, folder)
    return Artifact.read(folder)


@pytest.fixture(scope="module")
def references(artifact):
    made = {}
    for mode in ("forward", "gradient", "step"):
        path = artifact.folder / f"{mode}.npz"
        oracle.write(artifact, path, mode, [sample(artifact, 4, 0)] * (2 if mode == "step" else 1))
        made[mode] = verdict.read(path)
    return made


def rounded(x, bits):
    """A float32 array with `bits` bits of mantissa, rounded to nearest."""
    drop = 23 - bits
    integers = x.astype(np.float32).view(np.uint32).astype(np.uint64) + (1 << (drop - 1))
    return (integers >> drop << drop).astype(np.uint32).view(np.float32)


def candidate(artifact, reference, mode, change=lambda name, w: w):
    """The float32 result of PyTorch from changed weights."""
    module = copy.deepcopy(module_of(artifact)).train(mode != "forward")
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(torch.from_numpy(change(name, p.numpy().copy())))
    inputs = [torch.from_numpy(reference["input/0"])]
    if mode == "forward":
        with torch.no_grad():
            return {f"output/{artifact.info['outputs'][0]}": module(*inputs).numpy()}
    batches = [(inputs, torch.from_numpy(reference["labels"]))] * max(1, verdict.steps_of(reference))
    return network.trained(artifact.info, module, batches, mode)


@pytest.mark.parametrize("mode", ["forward", "gradient", "step"])
def test_float32_pytorch_passes(artifact, references, mode):
    assert judge(candidate(artifact, references[mode], mode), references[mode]).status == "PASS"


@pytest.mark.parametrize(("bits", "precision"), [(10, "tf32"), (7, "half")])
def test_weights_rounded_to_fewer_bits_are_recognised(artifact, references, bits, precision):
    reference = references["forward"]
    result = judge(candidate(artifact, reference, "forward", lambda _, w: rounded(w, bits)), reference)
    assert (result.status, result.precision) == ("FAIL", precision)


@pytest.mark.parametrize("bits", [10, 7])
def test_no_rounding_of_the_weights_passes_as_float32_in_training(artifact, references, bits):
    for mode in ("gradient", "step"):
        result = judge(candidate(artifact, references[mode], mode, lambda _, w: rounded(w, bits)), references[mode])
        assert result.status == "FAIL"


@pytest.mark.parametrize("mode", ["forward", "gradient"])
def test_one_weight_changed_by_a_hundredth_fails(artifact, references, mode):
    def change(name, w):
        if name == "conv1.weight":
            w[3, 0, 2, 2] += 0.01
        return w

    assert judge(candidate(artifact, references[mode], mode, change), references[mode]).status == "FAIL"


def test_a_reference_holds_every_parameter_and_a_floor_for_every_tensor(artifact, references):
    assert [n for n in references["gradient"] if n.startswith("gradient/")] == [
        f"gradient/{name}" for name in artifact.parameters
    ]
    for reference in references.values():
        tensors = [n for n in reference if not n.startswith(("input/", "floor/")) and n != "labels"]
        for name in tensors:
            assert reference[name].dtype == np.float64
            floor, size = reference[f"floor/{name}"], verdict.size_of(reference[name])
            assert all(0 < f < verdict.BLIND * s for f, s in zip(floor, size, strict=True)), name


def test_a_reference_is_the_same_every_time(artifact, references):
    path = artifact.folder / "again.npz"
    oracle.write(artifact, path, "gradient", [sample(artifact, 4, 0)])
    again = verdict.read(path)
    assert again.keys() == references["gradient"].keys()
    for name, value in references["gradient"].items():
        if not name.startswith("floor/"):
            np.testing.assert_array_equal(again[name], value)


WILD = """
from torch import nn, sin

class Wild(nn.Linear):
    def forward(self, x):
        return sin(1e5 * super().forward(x))

def make():
    made = Wild(4, 2)
    nn.init.constant_(made.weight, 1e-4), nn.init.zeros_(made.bias)
    return made
"""  # smooth at first; after a step it oscillates faster than float32 can follow


@pytest.mark.parametrize(("wild", "told"), [("lenet", {2, 4, 8}), ("wild:make@x:float32:batch,4", {1})])
def test_a_training_in_which_rounding_explodes_is_judged_over_fewer_steps(tmp_path, monkeypatch, wild, told):
    (tmp_path / "model").mkdir()
    (tmp_path / "wild.py").write_text(WILD)
    monkeypatch.syspath_prepend(str(tmp_path))
    if wild == "lenet":
        build.export_zoo(wild, 0, tmp_path / "model", models.Optimizer("sgd", lr=0.5))
    else:
        build.export_module(parse(wild), tmp_path / "model")
    artifact = Artifact.read(tmp_path / "model")
    oracle.write(artifact, tmp_path / "step.npz", "step", [sample(artifact, 4, 0)] * 16)
    reference = verdict.read(tmp_path / "step.npz")
    steps = verdict.steps_of(reference)
    assert steps in told
    assert verdict.blind(reference, verdict.compared(reference, reference)) is None, "nor of what the optimizer carries"
    result = judge({name: value for name, value in reference.items() if not name.startswith("floor/")}, reference)
    assert (result.status, result.steps) == ("PASS", steps)
    message = cut_short(result.as_dict(), 16)
    assert message.startswith(f"behind step {steps} ") and ("what the optimizer carries" in message) == (steps == 1)


def exported(text, folder, monkeypatch):
    """What `make` in this text of a file makes, with an input of four numbers."""
    (folder / "model").mkdir()
    (folder / "written.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "written", raising=False)
    build.export_module(parse("written:make@x:float32:batch,4"), folder / "model")
    return Artifact.read(folder / "model")


LIMITED = """
import torch
from torch import nn

class Limited(nn.Linear):
    def forward(self, x):
        limits, scores = torch.finfo(x.dtype), super().forward(x)
        masked = torch.softmax(scores + limits.min, -1, dtype=torch.float32).to(x.dtype)
        return masked * scores + torch.log(torch.relu(scores - 9) + limits.tiny), scores / (scores * 0 + limits.eps)

def make():
    return Limited(4, 2)
"""  # a row of which all is masked, as in Gemma 2, whose softmax is in float32


@pytest.mark.parametrize("mode", ["forward", "gradient"])
def test_the_limits_of_a_type_are_those_of_float32_in_float64_too(tmp_path, monkeypatch, mode):
    """-1.8e308 is infinite in float32, and the softmax of a row of infinities no number."""
    artifact = exported(LIMITED, tmp_path, monkeypatch)
    oracle.write(artifact, tmp_path / "reference.npz", mode, [sample(artifact, 4, 0)])
    reference = verdict.read(tmp_path / "reference.npz")
    names = verdict.compared(reference, reference)
    assert all(np.isfinite(reference[name]).all() for name in names)
    if mode == "forward":
        masked = reference[names[0]]
        assert (masked < -80).all() and (masked > -95).all(), "the logarithm of float32's least number is -87"
    assert torch.finfo(torch.float64).max > 1e300, "it leaves no trace"


MIXED = """
import torch

class Mixed(torch.nn.Linear):
    def forward(self, x):
        h = super().forward(x)
        return h + SHARE * torch.roll(h, 1, 0).square() + (torch.arange(len(h)) == 0)[:, None] * SHARE * h

def make():
    return Mixed(4, 3)
"""


@pytest.mark.parametrize("share", [0.002, 0.02, 1])
@pytest.mark.parametrize("mode", ["forward", "gradient", "step"])
def test_where_the_order_of_the_samples_matters_float32_loses_no_more(tmp_path, monkeypatch, mode, share):
    """A loss of neighbours, a first sample that others are compared with: the reversed batch is another network."""
    artifact = exported(MIXED.replace("SHARE", str(share)), tmp_path, monkeypatch)
    batches = [sample(artifact, 5, seed) for seed in range(2 if mode == "step" else 1)]
    oracle.write(artifact, tmp_path / "reference.npz", mode, batches)
    reference = verdict.read(tmp_path / "reference.npz")
    for name in verdict.compared(reference, reference):
        assert 0 < reference[f"floor/{name}"][0] < 1e-5 * np.linalg.norm(reference[name]), name


@pytest.mark.parametrize("off", [0, 0.05])
def test_timed_steps_are_judged_where_the_order_of_the_samples_matters(tmp_path, monkeypatch, off):
    artifact = exported(MIXED.replace("SHARE", "0.02"), tmp_path, monkeypatch)
    batches = [sample(artifact, 5, seed) for seed in range(4)]
    training = trajectory.Training(artifact, torch.float32)
    start = {name: value.numpy().copy() for name, value in training.state("step").items()}
    losses = {f"loss/{count}": np.array(training.step(batch)) for count, batch in enumerate(batches, 1)}
    state = {name: value.numpy() for name, value in training.state("step").items()}
    state["weight/weight"] += off * (state["weight/weight"] - start["weight/weight"])
    (outcome,) = trajectory.judged(artifact, batches, [(4, {**state, **losses})], exact=True, narrow=False)
    assert outcome.passed is not bool(off), outcome


SORTED = """
import torch

class Sorted(torch.nn.Linear):
    def forward(self, x):
        if not torch.compiler.is_exporting() and len(x) == 5 and x[0, 0] > x[-1, 0]:
            raise ValueError("it is not sorted")
        return super().forward(x)

def make():
    return Sorted(4, 3)
"""


@pytest.mark.parametrize("mode", ["forward", "step"])
def test_a_module_may_refuse_the_reversed_batch(tmp_path, monkeypatch, mode):
    artifact = exported(SORTED, tmp_path, monkeypatch)
    ((x,), labels) = sample(artifact, 5, 0)
    batch = ([x[x[:, 0].argsort()]], labels)
    oracle.write(artifact, tmp_path / "reference.npz", mode, [batch])
    reference = verdict.read(tmp_path / "reference.npz")
    for name in verdict.compared(reference, reference):
        assert reference[f"floor/{name}"][0] < 1e-5 * np.linalg.norm(reference[name]), name
    assert not trajectory.rounding_otherwise(artifact, batch).flip


@pytest.mark.parametrize("pair", range(8))
def test_of_two_moved_runs_one_meets_a_kink(pair):
    """The input of a ReLU that is nearly zero: right kernels take either side, and its gradient is all or nothing."""
    up, down = network.moves(2 * pair + 2)[-2:]
    sides = []
    for seed in (up, down):
        layer = torch.nn.Linear(8, 1, bias=False).double()
        torch.nn.init.ones_(layer.weight)
        network.move(layer, seed)
        given = torch.tensor([1.0, -1.0] * 4, dtype=torch.float64)
        sides.append(bool(layer(given) > 0))
    assert sides[0] != sides[1]
    assert len({*network.moves(8)}) == 8


def test_another_seed_is_another_sample(artifact):
    (first,), labels = sample(artifact, 4, 0)
    (second,), others = sample(artifact, 4, 1)
    assert not np.array_equal(first, second)
    assert not np.array_equal(labels, others)


def test_an_onnx_file_has_its_oracle_in_the_operator_table(tmp_path):
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32), "w")
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [given], [made], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    build.export_file(parse(str(tmp_path / "m.onnx")), tmp_path / "m.onnx", tmp_path)
    artifact = Artifact.read(tmp_path)
    oracle.write(artifact, tmp_path / "r.npz", "forward", [sample(artifact, 2, 0)])
    reference = verdict.read(tmp_path / "r.npz")
    truth = reference["input/0"].astype(np.float64) @ numpy_helper.to_array(weight).astype(np.float64)
    np.testing.assert_allclose(reference["output/y"], truth, rtol=1e-14)


def test_the_run_without_subnormal_numbers_has_none_and_leaves_no_trace():
    threads, tiny = torch.get_num_threads(), torch.full((100_000,), 1e-30)
    with network.subnormal(False):
        assert not (tiny * 1e-10).any()
    assert (tiny * 1e-10).all() and torch.get_num_threads() == threads
