"""The folder that `xbench recommend --deploy` writes: it runs with only its requirements installed."""

import ast
import json
import os
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from sklearn.metrics import f1_score

from xbench.case import Case
from xbench.errors import XBenchError
from xbench.parity import candidate, verdict
from xbench.proof.record import base
from xbench.proof.tuning import settings
from xbench.recommend import deployment
from xbench.recommend.deployment import deploy
from xbench.recommend.metric_script import Repeated
from xbench.recommend.script import form, script

INSTALLED = ("onnxruntime", "openvino", "tensorflow", "jax")
EVERY = (*INSTALLED, "torch", "torch_compile", "tvm")
PATIENCE = 600


def measured(lenet, runtime, **fields):
    """The record of a passed cell, without measuring it; its versions are the installed ones."""
    made = base(Case("lenet", runtime, batch=2, threads=1), lenet, "s") | {"status": "PASS"}
    times = {"load_s": 0.2, "compile_s": None, "first_s": 0.1, "anew_s": None, "median_s": 1e-3, "low_s": None}
    return made | {"parity": {"class": "fp32", "ratio": 1.0}, "times": times | {"high_s": None}} | fields


@pytest.fixture(scope="module")
def index():
    """Skip if pip cannot reach a package index."""
    command = [sys.executable, "-m", "pip", "index", "versions", "safetensors"]
    if subprocess.run(command, capture_output=True, timeout=120).returncode:
        pytest.skip("the package index cannot be reached: nothing can be installed into a new environment")


def environment(folder, requirements):
    """The interpreter of a new environment with only the requirements."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=PATIENCE)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    done = subprocess.run([*install, "-r", requirements], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return python


@pytest.mark.parametrize("runtime", INSTALLED)
def test_it_runs_in_an_environment_of_its_requirements_alone(runtime, lenet, exporter, index, tmp_path):
    pytest.importorskip(runtime)
    folder = tmp_path / "deployed"
    lines = deploy(measured(lenet, runtime), lenet, exporter, folder, tmp_path)
    python = environment(tmp_path / "new", folder / "requirements.txt")
    alone = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def run(*words):
        command = [str(python), "-I", *map(str, words)]
        return subprocess.run(command, cwd="/", env=alone, capture_output=True, text=True, timeout=PATIENCE)

    assert "No module named 'xbench'" in run("-c", "import xbench").stderr
    done = run(folder / "run.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("outputs [(2, 10)] relative errors [") and "run.py computes it here: " in lines[0]
    wrong(folder)
    assert run(folder / "run.py").returncode == 1


def wrong(folder):
    """Moves one expected number by a thousandth of the output."""
    with np.load(folder / "expected.npz") as file:
        arrays = dict(file)
    arrays["output/0"][0, 0] += 1e-3 * np.linalg.norm(arrays["output/0"])
    np.savez(folder / "expected.npz", **arrays)


FORMS = {"torch": "torch", "tvm": "tvm", "litert": "ai_edge_litert", "mnn:winograd=0": "MNN", "opencv": "cv2"}
FORMS |= {"torch_export": "torch", "torchscript": "torch", "tract": "tract"}


@pytest.mark.parametrize("runtime", FORMS)
def test_the_other_forms_run_here(runtime, lenet, exporter, tmp_path):
    pytest.importorskip(FORMS[runtime], exc_type=ImportError)
    lines = deploy(measured(lenet, runtime), lenet, exporter, tmp_path / "deployed", tmp_path)
    assert lines[0].startswith("run.py computes it here: outputs [(2, 10)] relative errors [")


@pytest.mark.parametrize(
    ("runtime", "metric"), [(each, "top1") for each in (*FORMS, *INSTALLED)] + [("onnxruntime", "f1")]
)
def test_run_py_repeats_the_evaluation(runtime, metric, lenet, exporter, tmp_path):
    """Seven batches of two samples and one of one: a form may be for one size."""
    pytest.importorskip(FORMS.get(runtime, "numpy"), exc_type=ImportError)
    images, labels = candidate.sample(lenet, 15, 3)
    paths = [tmp_path / f"{first}.npz" for first in (0, 10)]
    for path, part in zip(paths, (slice(0, 10), slice(10, 15))):
        verdict.join(path, {"input/0": images[0][part], "labels": labels[part], "names": np.array(["x"])})
    session = onnxruntime.InferenceSession(lenet.folder / "model.onnx")
    said = session.run(None, {"x": images[0]})[0].argmax(1)
    value = np.mean(said == labels) if metric == "top1" else f1_score(labels, said, average="macro", zero_division=0)
    found = {"metric": metric, "post": None, "value": float(value)}
    repeated = Repeated(found, [str(path) for path in paths], [True], 0)
    lines = deploy(measured(lenet, runtime), lenet, exporter, tmp_path / "deployed", tmp_path, repeated)
    assert f"{metric} {value:.6g} on 15 samples; when it was evaluated {value:.6g}" in lines[1]
    needed = (tmp_path / "deployed" / "requirements.txt").read_text()
    assert ("scikit-learn==" in needed) == (metric == "f1")
    if metric == "f1":
        wrong = Repeated({**found, "value": float(value) + 0.2}, repeated.batches, [True], 0)
        with pytest.raises(XBenchError, match=r"run\.py failed here"):
            deploy(measured(lenet, runtime), lenet, exporter, tmp_path / "wrong", tmp_path, wrong)


def test_what_run_py_cannot_repeat_is_said(lenet, exporter, tmp_path):
    found = {"metric": "word-error", "post": "mine:decode", "value": 0.1}
    lines = deploy(
        measured(lenet, "onnxruntime"), lenet, exporter, tmp_path / "deployed", tmp_path, Repeated(found, [], [True], 0)
    )
    assert lines[-1] == (
        "the folder does not repeat the evaluation: word-error is not computed in run.py, which has top1, top5, f1, map"
    )


def test_the_folder_holds_what_runs_it_and_what_proves_it(lenet, exporter, tmp_path):
    folder = tmp_path / "there" / "deployed"
    deploy(measured(lenet, "onnxruntime:level=basic"), lenet, exporter, folder, tmp_path)
    names = {"lenet.onnx", "run.py", "requirements.txt", "README.md", "certificate.json", "expected.npz"}
    assert {path.name for path in folder.iterdir()} == names
    assert json.loads((folder / "certificate.json").read_text())["parameter_count"] == 431_080
    wanted = [line.partition("==")[::2] for line in (folder / "requirements.txt").read_text().splitlines()]
    assert [name for name, _ in wanted] == ["onnxruntime", "numpy"] and all(
        version[0].isdigit() for _, version in wanted
    )
    text = (folder / "run.py").read_text()
    assert "ORT_ENABLE_BASIC" in text and "intra_op_num_threads, options.inter_op_num_threads = 1, 1" in text
    assert "| median of a call | 1 ms |" in (folder / "README.md").read_text()
    with np.load(folder / "expected.npz") as file:
        assert file["input/0"].shape[0] == 2 and file["output/0"].dtype == np.float64


def tuned(lenet):
    """Every setting that `--tune off` and `max` may choose."""
    cases = [
        Case("lenet", runtime, batch=2, threads=1, tune=tune) for runtime in EVERY for tune in ("off", "default", "max")
    ]
    return {each.runtime: each for case in cases for each in settings(case, lenet)}


def test_every_script_has_20_lines_at_most_and_no_xbench(lenet):
    for word, case in tuned(lenet).items():
        names = {"inputs": ["x"], "outputs": ["y"]}
        text = script(case, form(case), "title", "lenet", names, [1e-5])
        tree = ast.parse(text)
        lines = [line for line in text.splitlines() if line.strip()]
        assert len(lines) - 1 <= 20, word  # the first names it
        assert max(map(len, lines)) <= 120, word
        imported = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
        assert not any(name.startswith("xbench") for name in imported)


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("onnxruntime:level=extended", "ORT_ENABLE_EXTENDED"),
        ("onnxruntime:level=disable", "ORT_DISABLE_ALL"),
        ("onnxruntime:shapes=fixed", "add_free_dimension_override_by_name(axis, size)"),
        ("openvino:hint=throughput", "\"PERFORMANCE_HINT\": 'THROUGHPUT'"),
        ("openvino", '"INFERENCE_NUM_THREADS": 3'),
        ("openvino", "model.reshape("),
        ("openvino:shapes=open", "# compiled for any size of the axes"),
        ("tensorflow:xla", "jit_compile=True"),
        ("tensorflow:grappler=off", '"disable_meta_optimizer": True'),
        ("tensorflow", "set_intra_op_parallelism_threads(3)"),
        ("jax:optimize=off", '"jax_disable_most_optimizations", True'),
        ("torch", "torch.set_num_threads(3)"),
        ("torch_compile:mode=max-autotune", "mode='max-autotune', backend='inductor'"),
        ("torch_compile:backend=aot_eager", "backend='aot_eager'"),
    ],
)
def test_what_was_chosen_is_what_the_script_says(word, words):
    case = Case("lenet", word, threads=3)
    assert words in script(case, form(case), "title", "lenet", {"inputs": ["x"], "outputs": ["y"]}, [1e-5])


def test_what_a_race_chose_is_deployed(lenet, exporter, tmp_path):
    record = measured(lenet, "onnxruntime", tuning={"chosen": "level=extended", "tried": {}, "seconds": 1.0})
    deploy(record, lenet, exporter, tmp_path / "deployed", tmp_path)
    assert "ORT_ENABLE_EXTENDED" in (tmp_path / "deployed" / "run.py").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"runtime": "keras"}, "keras is not deployed: there is a script of torch, torch_compile, onnxruntime"),
        ({"precision": "bf16"}, "on the cpu in fp32 or fp16 or int8 or int4, not mode forward on cpu in bf16"),
        ({"mode": "step"}, "not mode step on cpu in fp32"),
        ({"runtime": "torch:python=old"}, "its form would be written by this Python"),
    ],
)
def test_what_cannot_be_deployed_says_why(change, words):
    with pytest.raises(XBenchError) as error:
        form(Case(**({"model": "lenet", "runtime": "onnxruntime"} | change)))
    assert words in str(error.value)


def test_nothing_is_handed_over_that_is_not_what_was_measured(lenet, exporter, tmp_path, monkeypatch):
    folder = tmp_path / "deployed"
    with pytest.raises(XBenchError, match="lenet is not the model that was measured: measure it again, xbench time"):
        deploy(measured(lenet, "onnxruntime", artifact="older"), lenet, exporter, folder, tmp_path)
    write = deployment._expected

    def write_wrong(*given):
        allowed = write(*given)
        wrong(given[-1].parent)
        return allowed

    monkeypatch.setattr(deployment, "_expected", write_wrong)
    with pytest.raises(XBenchError, match=r"onnxruntime is not deployed: run\.py failed here: outputs"):
        deploy(measured(lenet, "onnxruntime"), lenet, exporter, folder, tmp_path)
    assert not folder.exists()


def test_another_version_than_was_measured_is_told(lenet, exporter, tmp_path):
    record = measured(lenet, "onnxruntime")
    record["versions"] = record["versions"] | {"onnxruntime": "1.2.3+cpu"}
    lines = deploy(record, lenet, exporter, tmp_path / "deployed", tmp_path)
    assert "onnxruntime 1.2.3+cpu was measured and is required" in lines[1]
    assert "onnxruntime==1.2.3\n" in (tmp_path / "deployed" / "requirements.txt").read_text()


def test_a_folder_that_is_not_empty_is_left_alone(lenet, exporter, tmp_path):
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(XBenchError, match="it is no empty folder"):
        deploy(measured(lenet, "onnxruntime"), lenet, exporter, tmp_path, tmp_path)
    with pytest.raises(XBenchError, match="it is no empty folder"):
        deploy(measured(lenet, "onnxruntime"), lenet, exporter, tmp_path / "mine", tmp_path)
    assert (tmp_path / "mine").read_text() == "keep"
