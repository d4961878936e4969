"""Typical mistakes, each in a copy of an adapter: every one is caught and named."""

import os
import subprocess
import sys

import mistaken
import pytest

from xbench.case import STEPS
from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.source import parse
from xbench.parity import candidate, oracle, verdict
from xbench.parity.explain.forward import forward
from xbench.parity.explain.training import trained
from xbench.runtimes import Options
from xbench.runtimes.jax import Jax
from xbench.workers.jobs import bisect as bisect_jobs

SMALL = "planted_net:make@x:float32:batch,3,12,16"
NORMED = "mistaken:normed@x:float32:batch,3,12,16"
RESIDUAL = "mistaken:residual@x:float32:batch,3,13,9"
VECTORS = "mistaken:vectors@x:float32:batch,3,10,10"
LSTM, GRU = (f"mistaken:{kind}@x:float32:batch,7,5" for kind in ("memory", "gated"))
SGD = "sgd,lr=0.01,momentum=0.9,weight_decay=0.01"
ADAM = "adamw,lr=0.001,weight_decay=0.1,eps=0.00001"

# runtime with the mistake: model, mode, update rule, name of the mistake
MISTAKES = {
    "bn_momentum": (SMALL, "step", SGD, "bn_momentum"),
    "bn_variance": (SMALL, "step", SGD, "bn_variance"),
    "epsilon_outside": (NORMED, "gradient", None, "epsilon_outside"),
    "epsilon_value": (NORMED, "gradient", None, "epsilon_value"),
    "adam_epsilon": (SMALL, "step", ADAM, "adam_epsilon"),
    "coupled": (SMALL, "step", ADAM, "weight_decay_coupling"),
    "decoupled": (SMALL, "step", SGD, "weight_decay_coupling"),
    "loss_sum": (SMALL, "gradient", None, "loss_sum"),
    "loss_mean_classes": (SMALL, "gradient", None, "loss_mean_classes"),
    "dropout_on": (RESIDUAL, "forward", None, "dropout_on"),
    "dropout_in_training": (RESIDUAL, "gradient", None, "dropout_on"),
    "clipping_missing": (SMALL, "step", "sgd,lr=0.01,momentum=0.9,clip=0.1", "clipping"),
    "clipping": (SMALL, "step", SGD, "clipping"),
    "nesterov": (SMALL, "step", SGD, "nesterov"),
    "unit_gain": (SMALL, "step", SGD, "unit_gain"),
    "missing_bias": (RESIDUAL, "gradient", None, "missing_bias"),
    "gru_reset": (GRU, "gradient", None, "gru_reset"),
    "lstm_gates": (LSTM, "gradient", None, "lstm_gates"),
    "padding": (RESIDUAL, "forward", None, "padding"),
    "ceil_mode": (RESIDUAL, "forward", None, "ceil_mode"),
    "softmax_twice": (RESIDUAL, "gradient", None, "softmax_twice"),
    "softmax_in_loss": (SMALL, "gradient", None, "softmax_twice"),
    "relu_missing": (RESIDUAL, "gradient", None, "missing_relu"),
    "no_gradient": (SMALL, "step", SGD, "no_gradient"),
    "learning_rate": (SMALL, "step", SGD, "learning_rate"),
    "no_update": (SMALL, "step", SGD, "no_update"),
    "loss_scaled": (SMALL, "gradient", None, "loss_scaled"),
    "gradient_scaled": (SMALL, "gradient", None, "gradient_scaled"),
    "scaled": (SMALL, "forward", None, "scaled"),
    "norm_frozen": (SMALL, "step", SGD, "norm_mode"),
    "norm_frozen_first": (SMALL, "step", SGD, "norm_mode"),
    "norm_frozen_second": (SMALL, "gradient", None, "norm_mode"),
    "norm_following": (SMALL, "step", SGD, "norm_mode"),
    "keras_adam": (SMALL, "step", ADAM, "framework_defaults"),
    "tf1_adam": (SMALL, "step", ADAM, "framework_defaults"),
    "optax_adamw": (SMALL, "step", ADAM, "framework_defaults"),
    "bert_adam": (SMALL, "step", ADAM, "framework_defaults"),
    "keras_sgd": (SMALL, "step", SGD, "framework_defaults"),
    "caffe_sgd": (SMALL, "step", SGD, "velocity"),
    "prelu_last": (VECTORS, "forward", None, "broadcast_axis"),
    "sub_channels": (VECTORS, "forward", None, "broadcast_axis"),
    "mul_last": (VECTORS, "forward", None, "broadcast_axis"),
    "add_last": (VECTORS, "forward", None, "broadcast_axis"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model as an artifact, and the same with every tensor as an output."""
    known = {}

    def make(model, rule):
        if (model, rule) not in known:
            plain, every = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("every")
            build.export_module(parse(f"{model};optimizer={rule}" if rule else model), plain)
            reference(Artifact.read(plain), "forward")
            bisect_jobs.mark(str(plain), str(plain / "forward-0-3.npz"), str(every))
            known[model, rule] = Artifact.read(plain), Artifact.read(every)
        return known[model, rule]

    return make


def reference(artifact, mode, seed=0, batch=3):
    path = artifact.folder / f"{mode}-{seed}-{batch}.npz"
    if not path.exists():
        batches = [candidate.sample(artifact, batch, seed)] * (STEPS if mode == "step" else 1)
        oracle.write(artifact, path, mode, batches)
    return verdict.read(path)


def answer(make, artifact, mode, expected):
    """A runtime's result for a reference."""
    runtime = make(artifact, Options(mode))
    runtime.prepare(candidate.inputs_of(expected), expected["labels"], dropout=False)
    return candidate.run(runtime, artifact, mode, expected)


def explained(make, plain, every, mode):
    """The verdict, and the mistakes that explain it, as in `xbench check --explain`."""
    expected = reference(plain, mode)
    given = answer(make, plain, mode, expected)
    result = verdict.judge(given, expected)
    if mode == "step":  # these mistakes are of training only
        return result, trained(plain, mode, expected, given)
    tensors = verdict.read(every.folder / verdict.REFERENCE)
    marked = answer(make, every, "forward", tensors)
    wrong = verdict.judge(marked, tensors).first_wrong
    if wrong:
        return result, forward(every, tensors, marked, wrong.removeprefix("output/"))
    return result, trained(plain, mode, expected, given)


def test_every_mistake_is_tried():
    assert set(MISTAKES) == set(mistaken.RUNTIMES)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_caught_and_named(made, mistake):
    model, mode, rule, name = MISTAKES[mistake]
    result, explanations = explained(mistaken.RUNTIMES[mistake], *made(model, rule), mode)
    assert result.status == "FAIL"
    assert explanations, "no known mistake explains it"
    assert explanations[0].mistake == name, [each.says for each in explanations]


def test_what_a_mistake_itself_rounds_is_no_reason_against_it(tmp_path):
    """Adam with coupled decay divides by rounding errors: on two samples it is 66 floors off by itself."""
    source = parse("lenet@optimizer=adamw,lr=0.001,weight_decay=0.1")
    build.export_zoo(source.place, 0, tmp_path, source.optimizer)
    lenet = Artifact.read(tmp_path)
    expected = reference(lenet, "step", batch=2)
    findings = trained(lenet, "step", expected, answer(mistaken.RUNTIMES["coupled"], lenet, "step", expected))
    assert [each.mistake for each in findings] == ["weight_decay_coupling"]


@pytest.mark.parametrize(("model", "rule"), [(SMALL, SGD), (SMALL, ADAM), (RESIDUAL, SGD), (LSTM, None), (GRU, None)])
def test_what_is_right_is_never_blamed(made, model, rule):
    plain, _ = made(model, rule)
    runtime = Jax(plain, Options("step"))
    first = reference(plain, "step")
    runtime.prepare(candidate.inputs_of(first), first["labels"], dropout=False)
    for seed in range(4):
        expected = reference(plain, "step", seed)
        result = verdict.judge(candidate.run(runtime, plain, "step", expected), expected)
        assert result.status == "PASS", (seed, result.worst_tensor, result.ratio)


def test_the_command_says_what_a_failure_looks_like(tmp_path):
    installed = mistaken.install(tmp_path)
    paths = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", "check", SMALL, "--mode", "step"]
    command += ["--runtime", "wrong_nesterov", "--runtime", "jax", "--optimizer", SGD, "--explain"]

    answer = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
    assert answer.returncode == 1
    assert "wrong_nesterov step looks like: momentum is Nesterov's, not Polyak's; " in answer.stdout
    assert "jax step looks like" not in answer.stdout
