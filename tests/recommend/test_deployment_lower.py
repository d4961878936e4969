"""Deployment in less than float32: the folder runs what was evaluated, and says what made it."""

import json
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import onnx
import pytest
import wicked
from fault_kit import Shell, only_line, records
from test_deployment import measured

from xbench.case import Case
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.parity import candidate
from xbench.recommend.deployment import deploy
from xbench.recommend.lower import Lowered
from xbench.recommend.metric_script import Repeated, has_other_digits
from xbench.recommend.readme import readme
from xbench.runtimes import Options, Unavailable, load
from xbench.workers.samples import Calibration

FORMS = {"onnxruntime": "digits.onnx", "openvino": "digits.bin", "litert": "digits.tflite"}
MODULES = {"litert": "ai_edge_litert", "openvino": "nncf", "onnxruntime": "onnxruntime"}
TOOLS = {"onnxruntime": "onnxruntime.quantization", "openvino": "nncf.quantize", "litert": "tf.lite.Optimize.DEFAULT"}
WIDE = "onnxruntime:wide=conv2d_1+linear"
ON_SAMPLES = ("--max-drop", "2%", "--inputs", "digits.npz")


@pytest.fixture(scope="module")
def shell(digits, tmp_path_factory):
    return Shell(shutil.copytree(digits, tmp_path_factory.mktemp("lower"), dirs_exist_ok=True))


def recommended(shell, runtime, out, *words, precision="int8"):
    asked = ("recommend", "digits.onnx", "--precision", precision, "--runtime", runtime, "--out", out)
    return shell.run(*asked, "--deploy", shell.folder / out / "deployed", *words)


def run_elsewhere(folder, to):
    """What run.py prints in a folder with nothing else around it."""
    shutil.move(folder, to)
    command = [sys.executable, "-I", "run.py"]
    return subprocess.run(command, cwd=to, capture_output=True, text=True, timeout=300)


def evaluation(out):
    (record,) = [json.loads(line) for line in (out / "evaluation.jsonl").read_text().splitlines()]
    return record


def weights_in_float32(path):
    """Of the convolutions of a file, whether their weights are none that are dequantised."""
    graph = onnx.load(path).graph
    made = {name for node in graph.node for name in node.output}
    return sorted(node.input[1] not in made for node in graph.node if node.op_type == "Conv")


@pytest.mark.parametrize("runtime", [*FORMS, WIDE])
def test_the_folder_computes_the_metric_that_was_evaluated(runtime, shell, tmp_path):
    """In int8, calibrated on the samples that were set aside for the evaluation."""
    name = runtime.partition(":")[0]
    pytest.importorskip(MODULES[name], exc_type=ImportError)
    out = shell.folder / f"out-{len(runtime)}-{name}"
    answer = recommended(shell, runtime, out.name, *ON_SAMPLES, "--measure", "--budget", "0.05")
    assert answer.returncode == 0, answer.stderr
    (timed,), found = records(out), evaluation(out)["evaluation"]
    assert timed["case"]["data"] == evaluation(out)["case"]["data"]
    assert (timed["parity"]["class"], timed["case"]["precision"]) == ("int8", "int8")
    made = run_elsewhere(out / "deployed", tmp_path / "alone")
    assert made.returncode == 0, made.stderr
    value = f"{found['value']:.6g}"
    assert made.stdout.splitlines()[-1] == f"top1 {value} on 787 samples; when it was evaluated {value}"
    assert found["value"] != found["reference"]  # int8 changes answers
    assert (tmp_path / "alone" / FORMS[name]).stat().st_size < 0.6 * 4 * 13_706 or runtime == WIDE
    says = json.loads((tmp_path / "alone" / "certificate.json").read_text())
    assert (says["precision"], says["tool"], says["equal"]) == ("int8", TOOLS[name], None)
    assert says["calibration"] == {"inputs": "digits.npz", "samples": 112, "content": found["ranges"]}
    line = (tmp_path / "alone" / "requirements.txt").read_text().splitlines()[0]
    assert line == (
        f"# int8 by {TOOLS[name]} of {says['package']}=={says['version']}, calibrated on 112 samples of digits.npz, "
        f"digest {found['ranges']}"
    )
    page = (tmp_path / "alone" / "README.md").read_text().replace("\\", "")
    assert f"| made by | {TOOLS[name]}, {says['package']} {says['version']} |" in page
    assert f"{value} on 787 samples" in page
    if runtime == WIDE:
        assert weights_in_float32(tmp_path / "alone" / "digits.onnx") == [False, True]


def test_without_an_evaluation_it_is_calibrated_on_the_samples_that_were_timed(shell):
    words = ("--precision", "int8", "--runtime", "onnxruntime", "--mode", "forward", "--budget", "0.05")
    assert shell.run("time", "digits.onnx", *words, "--inputs", "digits.npz", "--out", "timed").returncode == 0
    answer = recommended(shell, "onnxruntime", "timed")
    assert answer.returncode == 0, answer.stderr
    assert "calibrated on 112 samples of digits.npz" in (shell.folder / "timed/deployed/requirements.txt").read_text()
    np.savez(shell.folder / "digits2.npz", **{n: a[::-1] for n, a in np.load(shell.folder / "digits.npz").items()})
    shutil.rmtree(shell.folder / "timed" / "deployed")
    path = shell.folder / "timed" / "results.jsonl"
    path.write_text(path.read_text().replace("digits.npz", "digits2.npz"))
    answer = recommended(shell, "onnxruntime", "timed")
    assert answer.returncode == 2
    assert only_line(answer.stderr.splitlines()[-1]) == (
        "xbench: digits2.npz has other samples than those that were timed: measure it again"
    )


def test_an_interrupted_deployment_leaves_nothing(shell):
    words = ("--precision", "int8", "--runtime", "onnxruntime", "--mode", "forward", "--budget", "0.05")
    out = shell.folder / "stopped"
    assert shell.run("time", "digits.onnx", *words, "--inputs", "digits.npz", "--out", out).returncode == 0
    asked = ("recommend", "digits.onnx", *words[:4], "--out", out, "--deploy", out / "deployed")
    alone = Shell(shell.folder)  # with a mark of its own
    process = alone.start(*asked)
    begun = alone.until(lambda: [*out.glob(".xbench-*/*/*")], 120)  # the model is being written
    process.send_signal(signal.SIGINT)
    assert (process.wait(60), bool(begun)) == (130, True)
    assert {each.name for each in out.iterdir() if each.is_dir()} == set()
    assert alone.survivors() == []
    assert only_line((shell.folder / "stderr.log").read_text()) == "xbench: interrupted; what was measured is kept"


def test_random_inputs_are_no_samples_for_ranges(shell):
    """The answers of such a network on real inputs are anybody's guess."""
    words = ("--precision", "int8", "--runtime", "onnxruntime", "--mode", "forward", "--budget", "0.05")
    assert shell.run("time", "digits.onnx", *words, "--out", "random").returncode == 0
    answer = recommended(shell, "onnxruntime", "random")
    assert answer.returncode == 2
    assert answer.stderr.splitlines()[-1] == (
        "xbench: onnxruntime is not deployed in int8: its ranges would be those of random inputs; give samples of "
        "yours: --max-drop 1% --inputs SAMPLES --measure"
    )
    assert not (shell.folder / "random" / "deployed").exists()


def test_the_samples_of_calibrate_are_those_of_the_evaluation(shell):
    """The folder is calibrated as the evaluation was, and not as the cell that was timed."""
    data = np.load(shell.folder / "digits.npz")
    others = np.roll(data["image"], 1, axis=3)
    np.savez(shell.folder / "others.npz", image=others[:64])
    words = ("--precision", "int8", "--runtime", "onnxruntime", "--out", "given")
    asked = ("evaluate", "digits.onnx", "--inputs", "digits.npz", "--calibrate", "others.npz", "--max-drop", "9%")
    assert shell.run(*asked, *words).returncode == 0
    timed = ("--inputs", "digits.npz", "--mode", "forward", "--budget", "0.05")
    assert shell.run("time", "digits.onnx", *words, *timed).returncode == 0
    answer = recommended(shell, "onnxruntime", "given", "--max-drop", "9%", "--inputs", "digits.npz")
    assert answer.returncode == 0, answer.stderr
    found, folder = evaluation(shell.folder / "given")["evaluation"], shell.folder / "given" / "deployed"
    says = json.loads((folder / "certificate.json").read_text())["calibration"]
    assert says == {"inputs": "others.npz", "samples": 64, "content": found["ranges"]}
    assert f"top1 {found['value']:.6g} on 899 samples; when it was evaluated {found['value']:.6g}" in answer.stderr
    shutil.rmtree(folder)
    np.savez(shell.folder / "others.npz", image=others[1:65])
    answer = recommended(shell, "onnxruntime", "given", "--max-drop", "9%", "--inputs", "digits.npz")
    assert answer.stderr.splitlines()[-1] == (
        "xbench: others.npz has other samples than those it was calibrated on: evaluate again"
    )
    whole = (shell.folder / "others.npz").read_bytes()
    (shell.folder / "others.npz").write_bytes(whole[: len(whole) // 2])
    answer = recommended(shell, "onnxruntime", "given", "--max-drop", "9%", "--inputs", "digits.npz")
    assert answer.stderr.splitlines()[-1] == "xbench: others.npz cannot be read: File is not a zip file"


@pytest.mark.parametrize("name", [*wicked.NAMES])
def test_a_line_of_requirements_stays_one(name):
    samples = Calibration(wicked.NAMES[name], [], 3, "c")
    text = Lowered("int8", "tool", "package", "1", samples).comment()
    assert text.startswith("# ") and len(text.splitlines()) == 1 and text.endswith("\n")


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_weights_of_four_bits_need_no_samples(runtime, lenet, exporter, tmp_path):
    record = measured(lenet, runtime)
    record["case"]["precision"] = "int4"
    lines = deploy(record, lenet, exporter, tmp_path / "deployed", tmp_path)
    assert lines[0].endswith("allowed (0.5,)")
    weights = sum(
        each.stat().st_size for each in (tmp_path / "deployed").iterdir() if each.name.startswith(("w", "lenet"))
    )
    assert weights < 4 * 431_080 / 4  # in float32
    says = json.loads((tmp_path / "deployed" / "certificate.json").read_text())
    assert (says["precision"], says["calibration"], says["version"][0].isdigit()) == ("int4", None, True)


@pytest.mark.parametrize("runtime", ["onnxruntime", "onnxruntime:wide=conv2d"])
def test_float16_needs_no_samples(runtime, lenet, exporter, tmp_path):
    record = measured(lenet, runtime)
    record["case"]["precision"] = "fp16"
    lines = deploy(record, lenet, exporter, tmp_path / "deployed", tmp_path)
    assert lines[0].startswith("run.py computes it here: outputs [(2, 10)] relative errors [")
    kinds = {each.name: each.data_type for each in onnx.load(tmp_path / "deployed" / "lenet.onnx").graph.initializer}
    assert kinds["conv2.weight"] == onnx.TensorProto.FLOAT16
    assert (kinds["conv1.weight"] == onnx.TensorProto.FLOAT) == (runtime != "onnxruntime")
    text = (tmp_path / "deployed" / "requirements.txt").read_text()
    assert text.startswith("# fp16 by onnxruntime.transformers.float16 of onnxruntime==")


def test_what_has_no_script_in_a_precision_says_so(lenet, exporter, tmp_path):
    record = measured(lenet, "torch")
    record["case"]["precision"] = "bf16"
    with pytest.raises(XBenchError, match="forward on the cpu in fp32, not mode forward on cpu in bf16"):
        deploy(record, lenet, exporter, tmp_path / "deployed", tmp_path)


def litert_answers(size, folder):
    """What LiteRT gives in int8 if it gets eight samples for calibration in one batch and in eight, and why it takes
    none of another shape."""
    artifact, rng = Artifact.read(folder), np.random.default_rng(0)
    (name,) = [each["name"] for each in artifact.info["inputs"]]
    given = rng.normal(size=(8, 1, 28, 28)).astype(np.float32)
    given *= np.linspace(0.2, 3, 8, dtype=np.float32)[:, None, None, None]
    inputs, labels = candidate.sample(artifact, size, 0)
    made = []
    for batches in ([given], [given[place : place + 1] for place in range(8)]):
        runtime = load("litert", artifact, Options(precision="int8", calibration=[{name: each} for each in batches]))
        runtime.prepare(inputs, labels, dropout=False)
        made.append(runtime.get(runtime.forward(*runtime.put(inputs)))[0])
    other = load("litert", artifact, Options(precision="int8", calibration=[{name: given[:, :, :14]}]))
    try:
        other.prepare(inputs, labels, dropout=False)
    except Unavailable as error:
        return made, str(error)
    return made, ""


@pytest.mark.parametrize("size", [1, 3, 8])
def test_litert_is_calibrated_on_every_sample_whatever_its_own_size(size, lenet):
    """A file for one sample got the ranges of the first of each batch. TensorFlow sets its threads once a process."""
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        made, refused = pool.submit(litert_answers, size, str(lenet.folder)).result()
    assert np.array_equal(*made)
    assert "no sample for calibration has the shape of these inputs" in refused


def test_the_readme_says_why_the_metric_differs_or_is_not_there(lenet):
    same, other = (f"top1 {value} on 9 samples; when it was evaluated 0.5" for value in ("0.5", "0.6"))
    assert [has_other_digits(each) for each in (same, other, "outputs [(2, 10)]")] == [False, True, False]
    record, told = measured(lenet, "onnxruntime"), Repeated({"metric": "top1", "value": 0.5}, [], [True], 0, 32)
    case = Case(**record["case"])
    made = [readme(record, case, [line], Lowered(), told, "") for line in (same, other)]
    assert ["evaluated in batches of 32" in " ".join(text.split()) for text in made] == [False, True]
    text = readme(record, case, [], Lowered(), told, "run.py has no post-processing").replace("\\", "")
    assert "It does not repeat the evaluation by top1 (50.00% when it was evaluated): run.py has no" in text
