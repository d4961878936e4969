"""`xbench train`: the same curves on every runtime, a wrong training is detected, nothing is lost on failures."""

import json
import os
import signal
import struct
import subprocess
import sys

import numpy as np
import planted
import pytest
import stores
from fault_kit import Shell, only_line

from xbench.case import Case
from xbench.cli.train import _columns as columns
from xbench.experiments.experiment import Lab
from xbench.experiments.train import Train, planned
from xbench.parity import verdict
from xbench.store.schema import migrated

TRAINERS = ("jax", "torch", "onnxruntime")
EPOCHS, STEPS, TESTS = 2, 22, 360
TRAIN = ("train", "lenet", "--data", "digits")
DROPPING = """
from torch import nn

def make():
    return nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 10))

class Undefined(nn.Linear):
    def forward(self, x):
        return (super().forward(x) - 100).log()

def undefined():
    return Undefined(784, 10)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of planted runtimes, first on the path of commands in this module."""
    folder = planted.install(tmp_path_factory.mktemp("planted"))
    (folder / "dropping.py").write_text(DROPPING)
    return folder


@pytest.fixture
def shell(site, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])]))
    return Shell(tmp_path)


@pytest.fixture(scope="module")
def trained(site, tmp_path_factory):
    """One command that trains honest and planted runtimes: its answer, its records by runtime, its folder."""
    out = tmp_path_factory.mktemp("out")
    runtimes = (*TRAINERS, *(f"planted_{fault}" for fault in planted.TRAINED if fault != "hangs"), "null")
    command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", *TRAIN, "--epochs", str(EPOCHS)]
    command += ["--json", "--out", str(out), *(word for runtime in runtimes for word in ("--runtime", runtime))]
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    answer = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
    assert answer.stdout, answer.stderr
    return answer, {record["case"]["runtime"]: record for record in json.loads(answer.stdout)}, out


def lines(out):
    return [json.loads(line) for line in (out / "training.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("runtime", TRAINERS)
def test_an_honest_runtime_is_proved_step_by_step(trained, runtime):
    record = trained[1][runtime]
    assert (record["status"], record["parity"]["class"], record["message"]) == ("PASS", "fp32", None)
    assert record["parity"]["ratio"] < 64
    training = record["training"]
    assert record["parity"]["tensors"] == 20 + 2 * 8  # losses, then weights and biases, and the momentum of each
    assert (len(training["oracle_losses"]), training["first_wrong_step"]) == (20, None)
    np.testing.assert_allclose(training["losses"][:20], training["oracle_losses"], rtol=1e-4)
    assert len(training["losses"]) == EPOCHS * STEPS
    assert len(training["epoch_s"]) == len(training["train_accuracy"]) == EPOCHS
    assert sum(piece["steps"] for piece in training["usage"]) == len(training["losses"])
    assert sum(piece["seconds"] for piece in training["usage"]) == pytest.approx(sum(training["epoch_s"]))
    assert all(piece["peak_bytes"] > 50 << 20 and piece["device_bytes"] is None for piece in training["usage"])


def test_every_step_has_a_floor_of_its_own_that_never_falls(trained, exporter, lenet, tmp_path):
    plan = planned("digits", lenet, tmp_path / "samples.npz", EPOCHS, 64, 0, False)
    reference = verdict.read(exporter.training_reference(lenet, plan.file, plan.content, steps=20, batch=64, seed=0))
    floors = np.array([reference[f"floor/loss/{step}"] for step in range(1, 21)])
    assert (np.diff(floors, axis=0) >= 0).all()
    assert (floors[-1] > 10 * floors[0]).all()


def test_all_runtimes_reach_the_same_accuracy(trained):
    accuracies = np.array([trained[1][runtime]["training"]["test_accuracy"] for runtime in TRAINERS])
    assert (accuracies[:, -1] > 0.9).all()
    assert (np.ptp(accuracies, axis=0) * TESTS < 2.5).all()
    assert accuracies * TESTS == pytest.approx(np.round(accuracies * TESTS)), "not counted on all tests"


@pytest.mark.parametrize(
    ("fault", "step", "message"),
    [
        ("nesterov", 2, "first wrong step: 2"),
        ("slows", 10, "first wrong step: 10"),
        ("misreports", 3, "loss/3 is "),
    ],
)
def test_a_wrong_training_fails_with_its_first_wrong_step(trained, fault, step, message):
    record = trained[1][f"planted_{fault}"]
    assert (record["status"], record["training"]["first_wrong_step"]) == ("FAIL", step)
    assert message in record["message"]
    assert record["training"]["test_accuracy"][-1] > 0.9, "it learns all the same"


def test_a_loss_that_is_no_number_is_told_with_its_step(trained):
    record = trained[1]["planted_diverges"]
    training = record["training"]
    assert (record["status"], record["parity"]["status"]) == ("FAIL", "PASS")
    assert record["message"] in [f"the loss is {word} at step 27, in epoch 2 of 2" for word in ("nan", "inf")]
    assert (len(training["losses"]), training["losses"][-1], len(training["test_accuracy"])) == (27, None, 1)


def test_a_network_whose_loss_is_no_number_from_the_first_step_on(shell):
    """Not in float64 either: no runtime is right or wrong, and there is no curve to draw."""
    network = ("dropping:undefined", "--input", "x:float32:batch,784")
    runtimes = ("--runtime", "jax", "--runtime", "onnxruntime")
    trained = shell.run("train", *network, "--data", "digits", "--epochs", 1, *runtimes)
    assert trained.stderr.count("the loss is nan at step 1, in epoch 1 of 1; in float64 it comes to the same") == 2
    assert (trained.returncode, "Traceback" in trained.stderr) == (1, False)
    checked = shell.run("check", *network, "--mode", "step", "--mode", "gradient", *runtimes, "--json")
    rows = json.loads(checked.stdout)
    assert [row["status"] for row in rows] == 4 * ["UNVERIFIED"]
    assert {row["message"].split(" is no number")[0] for row in rows} == {"the loss of step 1", "loss"}
    assert checked.returncode == 1


def test_a_network_without_parameters_is_one_line(shell):
    parts = "nn.Flatten(), nn.AvgPool1d(78, 78)"
    (shell.folder / "bare.py").write_text(f"from torch import nn\n\ndef make():\n    return nn.Sequential({parts})\n")
    paths = shell.python_path(shell.folder)
    network = ("bare:make", "--input", "x:float32:batch,1,28,28", "--data", "digits")
    answer = shell.run("train", *network, PYTHONPATH=paths)
    line = only_line(answer.stderr)
    assert line.startswith("xbench: there is nothing to measure: ")
    assert line.endswith(" has no parameter to train")
    assert answer.returncode == 2


def test_a_runtime_that_cannot_train_says_so(trained):
    record = trained[1]["null"]
    assert (record["status"], record["message"]) == ("UNSUPPORTED", "null cannot train: it has no step")
    assert record["training"]["losses"] == []


def test_a_failure_is_the_exit_code_and_everything_is_kept(trained):
    answer, records, out = trained
    assert answer.returncode == 1
    assert lines(out) == list(records.values())
    assert "Traceback" not in answer.stderr
    picture = (out / "lenet-digits.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert min(width, height) > 400


def test_a_training_of_which_no_usage_is_known_is_shown():
    """Trainings of schema 5, which are already recorded for a new command."""
    record = stores.training()
    assert columns(record["training"])[-2:] == ["286 MiB", "25 W"]
    known = migrated(record | {"schema": 5, "training": {k: v for k, v in record["training"].items() if k != "usage"}})
    assert columns(known["training"])[-2:] == ["", ""]
    assert len(columns(known["training"])) == len(columns(known["training"] | {"test_accuracy": []}))


def test_a_check_of_many_steps_names_the_first_wrong_loss(shell):
    words = ("check", "lenet", "--mode", "step", "--steps", 20, "--runtime", "jax", "--runtime", "planted_slows")
    answer = shell.run(*words, "--json")
    honest, planted = json.loads(answer.stdout)
    assert (honest["status"], honest["steps"], honest["message"]) == ("PASS", 20, None)
    assert (planted["status"], planted["steps"], planted["first_wrong"]) == ("FAIL", 20, "loss/10")
    assert answer.returncode == 1


def test_dropout_is_off_but_where_it_is_asked_for(shell):
    """The proof is without it in both; without a plotting library the rest is there."""
    (shell.folder / "matplotlib.py").write_text("raise ImportError\n")
    words = ("train", "dropping:make", "--input", "x:float32:batch,784", "--data", "digits", "--epochs", 1, "--json")
    words += ("--batch", 128, "--runtime", "jax")
    hidden = shell.python_path(shell.folder)
    plain, dropping = (shell.run(*words, *more, PYTHONPATH=hidden) for more in ((), ("--dropout",)))
    assert "is trained without its dropout; xbench train --dropout trains with it" in plain.stderr
    assert "without its dropout" not in dropping.stderr
    assert "for the curves: pip install 'xbench[plot]'" in plain.stderr
    (off,), (on,) = json.loads(plain.stdout), json.loads(dropping.stdout)
    assert [(record["status"], record["dropout"]) for record in (off, on)] == [("PASS", False), ("PASS", True)]
    losses, expected = ([np.array(r["training"][key]) for r in (off, on)] for key in ("losses", "oracle_losses"))
    assert len(expected[0]) == len(losses[0]) == 11  # an epoch has no more steps
    np.testing.assert_allclose(losses[0], expected[0], rtol=1e-4)
    assert (abs(losses[1] / expected[1] - 1) > 1e-5).all()


def test_two_trainings_of_a_network_have_plans_of_their_own(lenet, tmp_path):
    """Two tables of a study may train it for different numbers of epochs."""
    case = Case("lenet", "torch", "step", 64, data="digits")
    with Lab(tmp_path, None) as lab:
        plans = [Train(epochs, seed).plan(case, lenet, lab) for epochs, seed in ((1, 0), (2, 0), (2, 3), (1, 0))]
    assert [(plan.epochs, plan.seed) for plan in plans] == [(1, 0), (2, 0), (2, 3), (1, 0)]
    assert plans[0] is plans[3] and len({plan.content for plan in plans}) == 1


def test_what_is_final_outlives_an_interruption(shell):
    runtimes = ("--runtime", "jax", "--runtime", "planted_hangs", "--runtime", "torch")
    process = shell.start(*TRAIN, "--epochs", 1, *runtimes, "--out", "out")
    log, store = shell.folder / "stderr.log", shell.folder / "out/training.jsonl"
    assert shell.until(lambda: store.exists() and store.read_bytes().endswith(b"\n")), log.read_text()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert [(r["case"]["runtime"], r["status"]) for r in lines(shell.folder / "out")] == [("jax", "PASS")]
    assert log.read_text().splitlines()[-1] == "xbench: interrupted; what was measured is kept"
    assert not shell.survivors()
    again = shell.run(*TRAIN, "--epochs", 1, "--runtime", "jax", "--runtime", "torch", "--out", "out", "--json")
    assert [(r["case"]["runtime"], r["status"]) for r in json.loads(again.stdout)] == [
        ("jax", "PASS"),
        ("torch", "PASS"),
    ]
    assert [r["case"]["runtime"] for r in lines(shell.folder / "out")] == ["jax", "torch"], "jax is not trained again"
    assert "1 cell was measured before; --rerun measures again" in again.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("train", "lenet", "--data", "digts"), "unknown data set 'digts': did you mean digits?"),
        (("train", "lenett", "--data", "digits"), "unknown model 'lenett': did you mean lenet?"),
        (("train", "all", "--data", "digits"), "train takes one network at a time"),
        (("train", "lenet", "--data", "mnist:nowhere"), "no folder nowhere with the files of mnist"),
        (("train", "lenet", "--data", "mnist:empty"), "no file empty/train-images-idx3-ubyte"),
        (("train", "lenet", "--data", "mnist:labels"), "labels/t10k-labels-idx1-ubyte: label 1 is 200, which is none"),
        (
            ("train", "lenet", "--data", "digits", "--batch", 1438),
            "--batch 1438 is more than the 1437 training samples",
        ),
        (("time", "lenet", "--data", "mnist"), "--data must be one of synthetic, digits, not 'mnist'"),
    ],
)
def test_what_the_user_can_mend_is_one_line(shell, lenet, words, line):
    (shell.folder / "empty").mkdir()
    folder = shell.folder / "labels"
    folder.mkdir()
    for stem in ("train", "t10k"):
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, 2, 28, 28) + bytes(2 * 784))
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 0x801, 2) + bytes((1, 200 if stem == "t10k" else 2))
        )
    answer = shell.inside(*words)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert line in only_line(answer.stderr)
