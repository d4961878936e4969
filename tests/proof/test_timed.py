"""Timed steps do what was verified: adapters that train less while timed are caught, honest ones are not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cheats_training
import numpy as np
import pytest
import torch
from places import SUPPORT

from xbench.converters.artifact import Artifact
from xbench.converters.source import with_options
from xbench.parity import candidate, draws, trajectory
from xbench.parity.trajectory import Training
from xbench.proof import conformance_cell, probes, timed
from xbench.proof.contracts import Contract
from xbench.workers import batches
from xbench.workers.prepare import Exporter

SOURCE = """
import torch
from torch import nn

def norm():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(256, 10)
    )

def drop():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(256, 128), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 10)
    )

def both():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1),
        nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 10)
    )
"""
WORDS = ("--input", "x:float32:batch,3,16,16", "--optimizer", "sgd,lr=0.01,momentum=0.9", "--batch", "32")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kit")
    models, exporter = probes.write(folder), Exporter(folder)
    yield lambda word: conformance_cell.Bench(word, "cpu", 1, exporter, models, folder, 120)
    exporter.close()


@pytest.mark.parametrize("kind", cheats_training.EXPECTED, ids=lambda kind: kind.__name__)
def test_an_adapter_that_trains_less_while_it_is_timed_is_caught_and_named(kind, bench, faults):
    mode, model, check = cheats_training.EXPECTED[kind]
    findings = list(conformance_cell.cell(bench(f"trains_{kind.__name__.lower()}"), mode, lambda _: None, model))
    (named,) = [each for each in findings if each.check == check]
    assert (named.held, named.fault) == (False, check), findings
    assert next(each for each in findings if each.check == "result").held, "it is right while it is verified"


@pytest.mark.parametrize(
    ("mode", "model"), [("step", "norm"), ("step", "work"), ("gradient", "norm"), ("gradient", "work")]
)
def test_an_honest_trainer_passes(mode, model, bench, faults):
    findings = list(conformance_cell.cell(bench("trains_honest"), mode, lambda _: None, model))
    assert [each for each in findings if each.held is False] == []
    assert next(each for each in findings if each.check == "timed").held


@pytest.mark.parametrize(
    ("factory", "mode", "kinds"),
    [
        ("norm", "step", [kind for kind, (_, model, _) in cheats_training.EXPECTED.items() if model == "norm"]),
        ("drop", "gradient", [cheats_training.DropoutOff, cheats_training.DropoutOnce]),
    ],
)
def test_a_cheat_gets_no_time_and_the_others_get_theirs(factory, mode, kinds, shell):
    (shell.folder / "nets.py").write_text(SOURCE)
    kinds = [kind for kind in kinds if cheats_training.EXPECTED[kind][0] == mode or factory == "drop"]
    # On a busy machine a block may have only a step or two, in which these are honest.
    few = (cheats_training.ThreeSteps, cheats_training.TenSteps, cheats_training.EveryOther, cheats_training.NoMomentum)
    kinds = [kind for kind in kinds if kind not in few]
    runtimes = ["torch", "trains_honest", *(f"trains_{kind.__name__.lower()}" for kind in kinds)]
    words = [word for each in runtimes for word in ("--runtime", each)]
    settings = ("--mode", mode, "--budget", 0.6, "--threads", 1, "--json")
    answer = shell.run("time", f"nets:{factory}", *WORDS, *words, *settings)
    rows = {row["runtime"]: row for row in json.loads(answer.stdout)}
    assert answer.returncode == 1
    assert [rows.pop(name)["status"] for name in runtimes[:2]] == ["PASS", "PASS"]
    assert {name: (row["status"], row["median_s"]) for name, row in rows.items()} == dict.fromkeys(rows, ("FAIL", None))


@pytest.fixture(scope="module")
def network(exporter, tmp_path_factory):
    """The kit's network with statistics and without dropout, and the batches of seven steps."""
    place = str(probes.write(tmp_path_factory.mktemp("norm"))["norm"])
    artifact = exporter.artifact(with_options(place, [], [], conformance_cell.OPTIMIZER))
    inputs = [candidate.sample(artifact, 8, seed) for seed in (0, 1)]
    made = batches.training(artifact.info, [labels for _, labels in inputs], 5)
    steps = [(inputs[made[place][0]][0], made[place][1]) for place in batches.order(5, 0, 7)]
    return artifact, steps


def state(artifact, steps, **settings):
    own = Training(artifact, torch.float32, **settings)
    losses = {f"loss/{count}": np.array([own.step(batch)]) for count, batch in enumerate(steps, 1)}
    return losses | {name: value.numpy().copy() for name, value in own.state("step").items()}


@pytest.mark.parametrize("exact", [True, False])
def test_float32_in_another_order_passes(network, exact):
    artifact, steps = network
    judged = trajectory.judged(artifact, steps, [(7, state(artifact, steps, onednn=False))], exact, narrow=False)
    assert [(each.passed, each.says, each.reach) for each in judged] == [(True, None, 7)]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "name", ["weight/last.weight", "weight/first.bias", "weight/norm.var", "optimizer/momentum.last.bias"]
)
def test_a_tensor_that_is_a_third_of_its_change_off_fails(network, exact, name):
    artifact, steps = network
    right = state(artifact, steps)
    if name == "weight/first.bias":  # before a norm its gradient is only rounding: no runtime is blamed for it
        wrong = right | {name: right[name] * 1.0000001}
    else:
        start = {n: v.numpy() for n, v in Training(artifact, torch.float32).state("step").items()}
        change = right[name] - start.get(name, 0.0)
        wrong = right | {name: right[name] - change / 3}
    (judgement,) = trajectory.judged(artifact, steps, [(7, wrong)], exact, narrow=False)
    assert judgement.passed is (name == "weight/first.bias")
    assert judgement.passed or (name in judgement.says and "33%" in judgement.says)


def test_a_loss_from_memory_fails(network):
    artifact, steps = network
    wrong = state(artifact, steps)
    wrong["loss/7"] = wrong["loss/6"]
    (judgement,) = trajectory.judged(artifact, steps, [(7, wrong)], True, narrow=False)
    assert judgement.passed is False and judgement.says.startswith("the loss of step 7 is")


def test_nan_and_missing_and_misshapen_tensors_fail(network):
    artifact, steps = network
    right, name = state(artifact, steps), "weight/last.weight"
    less = {each: array for each, array in right.items() if each != name}
    for wrong in (right | {name: right[name] * np.nan}, right | {name: right[name][:1]}, less):
        (judgement,) = trajectory.judged(artifact, steps, [(7, wrong)], True, narrow=False)
        assert judgement.passed is False and name in judgement.says


def test_no_two_blocks_have_the_same_batches_and_both_sides_make_the_same(network):
    artifact, _ = network
    labels = [candidate.sample(artifact, 8, seed)[1] for seed in (0, 1)]
    first, again, other = (batches.training(artifact.info, labels, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for (_, a), (_, b) in zip(first, other, strict=True))
    assert batches.order(1, 0, 64)[:9] == batches.order(1, 0, 9) != batches.order(1, 1, 9)
    permuted = batches.training(artifact.info | {"labels": None}, labels, 3)
    assert all(sorted(new) == sorted(labels[index]) for index, new in permuted)


def test_unseen_inputs_are_others_drawn_as_the_artifact_says(network):
    artifact, _ = network
    mask = {"name": "mask", "shape": ["batch", 6], "dtype": "int64", "low": 0, "high": 2, "mask": 1}
    ids = {"name": "ids", "shape": ["batch", 6], "dtype": "int64", "low": 3, "high": 9}
    drawing = Artifact(artifact.folder, artifact.info | {"inputs": [mask, ids]})
    arrays, labels = candidate.sample(drawing, 4, 0)
    for seed in range(20):
        kept, words = batches.unseen(drawing, arrays, labels, seed)
        assert kept[:, 0].all() and set(kept.ravel()) == {0, 1} and not kept[:, -1].any()
        assert words.min() >= 3 and words.max() < 9 and not np.array_equal(words, arrays[1])
    one = [{"name": "x", "shape": ["batch"], "dtype": "int64", "low": 3, "high": 4}]
    assert (
        batches.unseen(Artifact(artifact.folder, artifact.info | {"inputs": one}), [np.full(4, 3)], labels, 0) is None
    )


@pytest.mark.parametrize(
    ("pairs", "held"),
    [
        ([(3e-2, [1e-2] * 9)] * 6, False),
        ([(3e-2, [1e-2] * 9)] * 4, None),  # too few to tell from a busy machine
        ([(3e-2, [1e-2] * 9)] * 3 + [(1e-2, [1e-2] * 9)] * 7, None),
        ([(3e-2, [1e-2] * 5 + [3e-2] * 4)] * 6 + [(1e-2, [1e-2] * 5 + [3e-2] * 4)] * 4, None),  # others interrupt it
        ([(3e-2, [1e-3] * 6 + [3e-2] * 3)] * 9, False),  # two of three are remembered
        ([(3e-2, [1e-3] * 5 + [3e-2] * 4)] * 12, False),  # that many remembered steps wait on purpose
        ([(5e-5, [1e-6] * 9)] * 9, None),  # below a clock's resolution
        ([(1.2e-2, [1e-2] * 9)] * 9, None),
    ],
)
def test_inputs_that_were_not_there_before_must_not_take_longer(pairs, held):
    looks = timed.Looks()
    for new, others in pairs:
        looks.add(
            {"fetch_s": [], "judged": 0, "unseen": 1, "lead": others[:1], "samples": [others[1], new, *others[2:]]}
        )
    contract = timed._fresh(looks)
    assert (contract and contract.held) == held


def test_what_was_not_judged_is_not_said_to_hold():
    case = timed.Case("lenet", "torch", "step")
    assert timed._timed(case, timed.Looks()).held is None
    state = timed.State(case, Path("state.npz"), {}, {"passed": None, "says": "too many steps", "reach": 4})
    assert timed._timed(case, timed.Looks(states=[state])) == Contract(None, "too many steps")


@pytest.fixture(scope="module")
def dropping(exporter, tmp_path_factory):
    artifact = exporter.artifact(str(probes.write(tmp_path_factory.mktemp("work"))["work"]))
    return artifact, [candidate.sample(artifact, 16, seed) for seed in range(4)]


def drawn(artifact, steps, seed):
    own = Training(artifact, torch.float32, dropout=seed)
    losses = {f"loss/{count}": np.array([own.step(batch)]) for count, batch in enumerate(steps, 1)}
    return losses | {name: value.numpy().copy() for name, value in own.state("step").items()}


def test_a_worker_cannot_say_which_file_is_removed(tmp_path):
    """Its answer is not trusted: the parent knows where the state of a block is."""
    kept = tmp_path / "kept"
    kept.write_text("mine")

    class Answering:
        def call(self, job, timeout, path, index):
            return {
                "steps": 1,
                "segment": 0,
                "index": index,
                "path": str(kept),
                "fetch_s": 0.0,
                "bytes": 0,
                "arrays": 0,
            }

    judge = timed.Judge(None, None, "session", tmp_path)
    judge._trained = lambda number, segment, states: [{"passed": True, "says": None, "reach": 1}] * len(states)
    states = judge.take(timed.Case("lenet", "torch", "step"), Answering(), 1.0, timed.Looks())
    judge.judge(0, states)
    assert states[0].passed and kept.exists()


def test_of_thirty_other_draws_all_pass(dropping):
    artifact, steps = dropping
    states = [(4, drawn(artifact, steps, seed)) for seed in range(100, 130)]
    assert [each.says for each in draws.judged(artifact, steps, states)] == [None] * 30


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The biases of its convolutions are before BatchNorm: their gradients are rounding, different in every runtime."""
    folder = tmp_path_factory.mktemp("both")
    (folder / "nets.py").write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH")))))
        own = Exporter(folder)
        yield own.artifact("nets:both@x:float32:batch,3,16,16;optimizer=sgd,lr=0.01,momentum=0.9")
        own.close()


@pytest.mark.parametrize("name", ["jax", "openvino", "tensorflow"])
def test_an_honest_runtime_passes_with_dropout_and_batchnorm(name, both):
    program = [sys.executable, "-P", (SUPPORT / "trained_with_draws.py"), name, both.folder]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == [None] * 24


def test_what_looks_wrong_beside_a_few_draws_is_compared_with_more(dropping, monkeypatch):
    """Six draws that are close together by chance make any other look wrong."""
    artifact, steps = dropping
    few, many, looks = draws._few, draws._many, []

    def close(*arguments):
        usual = few(*arguments)
        return draws.Usual({kind: np.ones_like(placed) for kind, placed in usual.placed.items()}, usual.losses)

    monkeypatch.setattr(draws, "_few", close)
    monkeypatch.setattr(draws, "_many", lambda *arguments: looks.append(1) or many(*arguments))
    states = [(4, drawn(artifact, steps, seed)) for seed in (100, 101)] + [(4, state(artifact, steps))]
    assert [each.passed for each in draws.judged(artifact, steps, states)] == [True, True, False]
    assert len(looks) == 3


def test_a_training_without_dropout_is_told(dropping):
    artifact, steps = dropping
    (judgement,) = draws.judged(artifact, steps, [(4, state(artifact, steps))])
    assert judgement.passed is False and "differ from training without dropout" in judgement.says


@pytest.mark.parametrize(
    ("took", "late", "soon", "broken"),
    [
        (0.3e-3, 6, 5, False),
        (0.3e-3, 9, 2, True),
        (0.3e-3, 900, 900, True),
        (0.3e-3, 450, 1350, False),
        (0.3e-3, 5, 0, True),
        (0.3e-3, 3, 0, True),
        (0.3e-3, 3, 1, False),
        (0.24e-3, 3, 0, False),  # JAX on a busy machine: 0.221 ms where 0.202 ms are the limit
        (3e-3, 6, 5, True),  # half of its steps are computed when they are fetched: no busy machine does that
    ],
)
def test_a_result_that_is_computed_when_it_is_fetched_is_late_more_often_than_by_chance(took, late, soon, broken):
    looks = timed.Looks(fetch_s=[took] * late + [0.05e-3] * soon)
    facts = {"fetched_arrays": 1, "fetched_bytes": 64}
    contract = timed._complete(timed.Case("lenet", "jax", "forward"), facts, looks, 0.09e-3)
    assert (contract is not None and contract.held is False) == broken


def test_the_sources_of_the_cheats_are_complete():
    assert Path(cheats_training.__file__).exists()
    assert len(cheats_training.EXPECTED) >= 20


@pytest.mark.parametrize(
    ("exact", "passed", "asked", "outcome"),
    [
        (True, {1: False, trajectory.KINKS: True}, [1, trajectory.KINKS], True),
        (True, {1: False, trajectory.KINKS: False}, [1, trajectory.KINKS], False),
        (True, {1: True}, [1], True),
        (True, {1: None}, [1], None),
        (False, {1: False}, [1], False),
    ],
)
def test_what_looks_wrong_early_is_compared_with_more(exact, passed, asked, outcome, monkeypatch):
    """LeNet by ONNX Runtime was FAIL, "after 2 steps is off by 1% of its change": one max-pooling window flipped."""
    runs = []

    def judged(artifact, batches, states, exact, narrow, moved):
        runs.append(moved)
        return [trajectory.Outcome(passed[moved], None, 2)]

    monkeypatch.setattr(trajectory, "_judged", judged)
    (judgement,) = trajectory.judged(None, [], [(2, {})], exact, False)
    assert (runs, judgement.passed) == (asked, outcome)


def test_a_network_beside_more_runs_is_still_told_from_another(lenet):
    """With all runs the early round still sees a fault of a few per cent of one tensor's change."""
    batches = [candidate.sample(lenet, 64, seed) for seed in range(2)]
    right = trajectory.Training(lenet, torch.float32)
    losses = {f"loss/{step}": np.array(right.step(batch)) for step, batch in enumerate(batches, 1)}
    state = {name: value.numpy() for name, value in right.state("step").items()} | losses
    assert trajectory._judged(lenet, batches, [(2, state)], True, False, trajectory.KINKS)[0].passed is True
    name = "optimizer/momentum.conv1.weight"
    wrong = state | {name: state[name] * 1.05}
    (judgement,) = trajectory._judged(lenet, batches, [(2, wrong)], True, False, trajectory.KINKS)
    assert (judgement.passed, judgement.says) == (False, f"{name} after 2 steps is off by 5% of its change")
