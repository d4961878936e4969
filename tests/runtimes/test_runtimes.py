"""Every runtime computes the network in each of its modes, also on real data, and trains with real dropout."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from places import SUPPORT

from xbench.case import Case
from xbench.converters import cache
from xbench.data import draw
from xbench.models import classes, plain
from xbench.proof.prove import verify
from xbench.runtimes import RUNTIMES, version
from xbench.workers.prepare import Exporter

INSTALLED = [name for name, row in RUNTIMES.items() if version(row) and not (row.hidden or row.named)]
TRAINERS = [name for name in INSTALLED if RUNTIMES[name].autodiff]
DROPPING = "small_nets:dropping@x:float32:batch,3,32,32"
RECURRENT = "small_nets:recurrent@words:int64:batch,7"
# Compiling is slow: lenet is proved in every mode, the others in those that add coverage.
MODES = {"lenet": ("forward", "gradient", "step"), DROPPING: ("step",), RECURRENT: ("forward", "gradient")}
CELLS = [
    (model, runtime, mode)
    for model, modes in MODES.items()
    for runtime in (*INSTALLED, *(["tensorflow:xla"] if model == "lenet" else []))
    for mode in modes
    if mode == "forward" or runtime.partition(":")[0] in TRAINERS
]


@pytest.fixture(scope="module")
def exporter(tmp_path_factory):
    made = Exporter(tmp_path_factory.mktemp("logs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")]))
        yield made
    made.close()


def verdict(exporter, model, runtime, mode, tmp_path, batch=2):
    case = Case(model, runtime, mode, batch, threads=2)
    return verify(case, exporter.artifact(model), exporter, 300, tmp_path)


@pytest.mark.parametrize(("model", "runtime", "mode"), CELLS)
def test_a_runtime_computes_the_network(exporter, tmp_path, model, runtime, mode):
    record = verdict(exporter, model, runtime, mode, tmp_path)
    if runtime == "tvm" and record["status"] == "UNSUPPORTED":
        missing = "GRU" if model == RECURRENT else "RandomUniformLike" if mode == "step" else "nothing"
        assert missing in record["message"]
        return
    assert (record["status"], record["message"]) == ("PASS", None)


SELECTED = "module_nets:Selected@x:float32:batch,8"


@pytest.mark.parametrize("mode", ["forward", "step"])
@pytest.mark.parametrize("runtime", ["tensorflow", "jax"])
def test_a_shape_that_depends_on_values_is_computed_without_a_compiler(exporter, tmp_path, runtime, mode):
    record = verdict(exporter, SELECTED, runtime, mode, tmp_path, batch=3)
    assert (record["status"], record["message"], record["note"]) == ("PASS", None, "not compiled")


def test_a_compiler_that_was_asked_for_names_the_operator_it_cannot_take(exporter, tmp_path):
    record = verdict(exporter, SELECTED, "tensorflow:xla", "forward", tmp_path, batch=3)
    assert record["status"] == "UNSUPPORTED"
    assert record["message"] == "NonZero makes a shape that is only known at run time"


LOAD = """
import importlib, json, sys
from xbench.workers.jobs import cell as jobs
from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, load, table

name, folder, mode = sys.argv[1:]
for each in table()[name].ours:
    importlib.import_module(each)
before = set(sys.modules)
load(name, Artifact.read(folder), Options(mode, "cpu", 1))
print(json.dumps(sorted(sys.modules.keys() - before)))
"""


@pytest.mark.parametrize("mode", ["forward", "step"])
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino", "tvm"])
def test_what_our_adapter_needs_is_not_in_the_load_of_a_runtime(exporter, runtime, mode):
    """ONNX Runtime's load was four times as long with its quantisation tools, which are not used here."""
    words = [sys.executable, "-P", "-c", LOAD, runtime, str(exporter.artifact("lenet").folder), mode]
    answer = subprocess.run(words, capture_output=True, text=True, check=True)
    modules = json.loads(answer.stdout.splitlines()[-1])
    assert runtime in modules
    own = ("onnx.", "onnx_ir", "onnxscript", "onnxruntime.quantization")
    assert not [name for name in modules if name.startswith(own)]


THREADS = """
import sys
import numpy, tensorflow, torch
from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, load

image, labels = [numpy.zeros((2, 1, 28, 28), numpy.float32)], numpy.zeros(2, numpy.int64)
made = {}
for name in ("torch", "onnxruntime", "openvino", "tensorflow"):
    made[name] = load(name, Artifact.read(sys.argv[1]), Options(threads=1))
    made[name].prepare(image, labels, False)
print(torch.get_num_threads(), tensorflow.config.threading.get_intra_op_parallelism_threads())
print(made["onnxruntime"].session.get_session_options().intra_op_num_threads)
print(made["openvino"].compiled.get_property("INFERENCE_NUM_THREADS"))
"""


def test_a_runtime_is_given_the_number_of_its_threads(exporter):
    words = [sys.executable, "-P", "-c", THREADS, str(exporter.artifact("lenet").folder)]
    answer = subprocess.run(words, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["1"] * 4


TURNED = [  # x, w, the permutation of w, and whether that is a sum over the rows of w
    ((3, 4), (5, 4), (1, 0), True),
    ((2, 3, 4), (5, 4), (1, 0), True),
    ((2, 7, 3, 4), (2, 7, 5, 4), (0, 1, 3, 2), True),
    ((2, 7, 3, 4), (1, 7, 5, 4), (0, 1, 3, 2), False),
    ((2, 3, 4), (4, 2, 5), (1, 0, 2), False),
    ((4,), (5, 4), (1, 0), False),
]


@pytest.mark.parametrize(("left", "right", "axes", "by_rows"), TURNED)
def test_tvm_reads_the_rows_of_a_matrix_whose_transpose_is_asked_for(left, right, axes, by_rows):
    tvm = pytest.importorskip("tvm")
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    from xbench.runtimes.tvm import _by_rows

    random = np.random.default_rng(0)
    x, w = (random.normal(size=shape).astype(np.float32) for shape in (left, right))
    nodes = [helper.make_node("Transpose", ["w"], ["t"], perm=axes), helper.make_node("MatMul", ["x", "t"], ["y"])]
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in (("x", x), ("w", w))]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "t")]  # read twice
    graph = helper.make_graph(nodes, "product", given, made)
    module = _by_rows(from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])))
    assert ("einsum" in str(module)) == by_rows
    main = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())["main"]
    product = main(tvm.runtime.tensor(x), tvm.runtime.tensor(w))[0].numpy()
    np.testing.assert_allclose(product, x @ w.transpose(axes), rtol=1e-5, atol=1e-5)


def test_a_module_that_other_code_converted_is_another_artifact(exporter, monkeypatch):
    """Its program and its weights may be equal, and its facts different."""
    first = exporter.artifact(RECURRENT).folder
    monkeypatch.setattr(exporter, "_modules", {})
    assert exporter.artifact(RECURRENT).folder == first
    monkeypatch.setattr(exporter, "_modules", {})
    monkeypatch.setattr(cache, "makers", lambda: ["other"])
    assert exporter.artifact(RECURRENT).folder != first


@pytest.fixture(scope="module")
def normed_file(tmp_path_factory):
    """A tiny network with BatchNormalization, as a user's ONNX file."""
    random = np.random.default_rng(0)

    def weight(name, *shape):
        return numpy_helper.from_array(random.uniform(0.5, 1.5, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 1], pads=[1, 0, 1, 0]),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["n"], epsilon=1e-3),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 11])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5, 1, 1])
    weights = [weight("w", 5, 3, 3, 2), *(weight(name, 5) for name in ("scale", "bias", "mean", "var"))]
    graph = helper.make_graph(nodes, "normed", [given], [made], weights)
    path = tmp_path_factory.mktemp("file") / "normed.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


@pytest.mark.parametrize("runtime", [name for name in INSTALLED if name != "torch_compile"])
def test_a_runtime_computes_a_file_with_batch_normalization(exporter, tmp_path, normed_file, runtime):
    record = verdict(exporter, normed_file, runtime, "forward", tmp_path)
    assert (record["status"], record["message"]) == ("PASS", None)


# ***** trainers, in a process of their own: one framework each *****

TRAIN = """
import json, sys
import numpy as np
from xbench.converters.artifact import Artifact
from xbench.data import draw
from xbench.models import classes, plain
from xbench.runtimes import Options, load

word, mode, folder = sys.argv[1:]
artifact = Artifact.read(folder)
runtime = load(word, artifact, Options(mode, "cpu", 2))
{body}
"""
LOSSES = """
inputs, labels = draw("digits", artifact.info, 64, 0)
runtime.prepare(inputs, labels, dropout=False)
given, (target,) = runtime.put(inputs), runtime.put([labels])
losses, logits = [], []
for _ in range(11):
    logits.append(np.array(runtime.get(runtime.forward(*given))[0]).tolist())
    losses.append(float(runtime.get(runtime.step(given, target)[:1])[0]))
print(json.dumps({"losses": losses, "logits": logits, "torch": "torch" in sys.modules}))
"""
# With one sample the gradient of the last layer is the error times its input: what dropout kept, and its scale.
LEFT = """
inputs = [np.random.default_rng(0).uniform(-1.7, 1.7, (1, 3, 32, 32)).astype(np.float32)]
labels = np.zeros(1, np.int64)
alive = {}
for dropout in (False, True):
    made = runtime.prepare(inputs, labels, dropout=dropout)
    assert not (made and dropout), "what was proved without dropout is compiled again with it"
    given, (target,) = runtime.put(inputs), runtime.put([labels])
    found = [runtime.fetch(runtime.gradients(given, target))[1] for _ in range(5)]
    signals = [grads["fc2.weight"][0] / grads["fc2.bias"][0] for grads in found]
    calm = [np.array(runtime.get(runtime.forward(*given))[0]) for _ in range(2)]
    assert (calm[0] == calm[1]).all(), "evaluation drops"
    alive[dropout] = [float(np.mean([(s != 0).mean() for s in signals])), float(np.mean([s.sum() for s in signals]))]
print(json.dumps([alive[False], alive[True]]))
"""


def in_process(body, runtime, mode, folder):
    command = [sys.executable, "-c", TRAIN.replace("{body}", body), runtime, mode, str(folder)]
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    answer = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=300)
    assert answer.returncode == 0, answer.stderr[-2000:]
    return json.loads(answer.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def digit_losses(exporter):
    made = {}

    def losses(runtime):
        if runtime not in made:
            made[runtime] = in_process(LOSSES, runtime, "step", exporter.artifact("lenet").folder)
        return made[runtime]

    return losses


@pytest.mark.parametrize("runtime", TRAINERS)
def test_ten_steps_on_real_digits_lower_the_loss(digit_losses, runtime):
    losses = digit_losses(runtime)["losses"]
    assert losses[10] < 0.8 * losses[0]


@pytest.mark.parametrize("runtime", TRAINERS)
def test_all_trainers_learn_the_same(digit_losses, runtime):
    np.testing.assert_allclose(digit_losses(runtime)["losses"], digit_losses("torch")["losses"], rtol=1e-3)


@pytest.mark.parametrize("runtime", TRAINERS)
def test_a_trainer_evaluates_with_the_weights_of_the_moment(digit_losses, runtime):
    logits, torch = (np.array(digit_losses(each)["logits"]) for each in (runtime, "torch"))
    assert abs(logits[1:] - logits[:-1]).max(axis=(1, 2)).min() > 0.01
    np.testing.assert_allclose(logits, torch, atol=1e-3)


@pytest.mark.parametrize("runtime", ["jax", "tensorflow"])
def test_a_framework_of_its_own_does_without_torch(digit_losses, runtime):
    assert digit_losses(runtime)["torch"] is False


@pytest.mark.parametrize("runtime", [name for name in TRAINERS if name != "tvm"])  # no random numbers
def test_dropout_drops_its_share_and_scales_up_the_rest(exporter, runtime):
    complete, dropped = in_process(LEFT, runtime, "gradient", exporter.artifact(DROPPING).folder)
    assert dropped[0] / complete[0] == pytest.approx(0.5, abs=0.12)  # three standard deviations of one mask
    # ReLU is convex, so the noise of earlier dropout can only raise the mean; without scaling up it would be below 0.4.
    assert 0.9 < dropped[1] / complete[1] < 2


def test_digits_are_real_images_of_the_right_size():
    info = {"name": "lenet", "labels": plain(classes(10)), "inputs": [{"shape": ["batch", 1, 28, 28]}]}
    inputs, labels = draw("digits", info, 2000, 0)
    assert inputs[0].shape == (2000, 1, 28, 28)
    assert inputs[0].mean() == pytest.approx(0, abs=0.02)
    assert inputs[0].std() == pytest.approx(1, abs=0.02)
    assert set(labels) == set(range(10))
