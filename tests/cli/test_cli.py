"""User errors are one line and exit code 2; machine-readable output has the documented shape."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from fault_kit import records, refused, write_two_outputs

from xbench import models
from xbench.converters.frontends.onnx_file import InvalidModel, read
from xbench.host import machine
from xbench.workers.prepare import converted

ROW = {
    *("model", "runtime", "mode", "batch", "device", "threads", "status", "class", "autodiff"),
    *("median_s", "low_s", "high_s", "ratio", "compile_s", "load_s", "first_s"),
}
QUICK = ("--runtime", "null:seconds=0.001", "--mode", "forward", "--budget", "0.05", "--batch", 2)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("time", "lenett"), "unknown model 'lenett': did you mean lenet?"),
        (("convert", "resnet5"), "did you mean resnet50"),
        (("check", "gtp2"), "did you mean gpt2?"),
        (("time", "lenet", "--runtime", "tensorflw"), "unknown runtime 'tensorflw': did you mean tensorflow?"),
        (
            ("time", "lenet", "--runtime", "onnxruntime:foo=1"),
            "onnxruntime has no option 'foo'; its options are level,",
        ),
        (("check", "lenet", "--runtime", "tensorflow:xla=0"), "tensorflow:xla=0: write xla"),
        (("convert", "lenet", "--runtime", "jax:optimize=on"), "jax:optimize=on: write optimize=off"),
        (("convert", "lenet", "--to", "onnxrt"), "unknown runtime 'onnxrt'"),
        (("convert", "lenet", "--to", "onnx"), "unknown runtime 'onnx': did you mean onnxruntime?"),
        (("check", "lenet", "--mode", "forwrad"), "unknown mode 'forwrad': did you mean forward?"),
        (("check", "lenet", "--mode", "xyz"), "unknown mode 'xyz': the modes are forward, gradient, step"),
        (("time", "lenet", "--device", "gpu"), "unknown device 'gpu': the devices are cpu, cuda"),
        (("time", "lenet", "--plane", "x"), "--plane must be one of resident, host, device, not 'x'"),
        (("time", "lenet", "--data", "x"), "--data must be one of"),
        (("time", "lenet", "--batch", "0"), "--batch must be a whole number of at least 1, not 0"),
        (("time", "lenet", "--batch", "-1"), "--batch must be a whole number of at least 1, not -1"),
        (("time", "lenet", "--batch", "two"), "--batch must be a whole number of at least 1, not two"),
        (("time", "lenet", "--batch", "\u00b2"), "--batch must be a whole number of at least 1, not \u00b2"),
        (("time", "lenet", "--batch", "1.5"), "--batch must be a whole number of at least 1, not 1.5"),
        (("time", "lenet", "--threads", "0"), "--threads must be at least 1"),
        (("time", "lenet", "--out", "file/below"), "cannot make the output folder file/below"),
        (("time", "missing.onnx"), "no such file: missing.onnx"),
        (("show", "--out", "nowhere"), "no results in nowhere"),
        (("show", "--json", "--csv"), "--json, --csv and --markdown exclude one another"),
    ],
)
def test_a_wrong_word_is_one_line_with_the_way_out(shell, words, line):
    (shell.folder / "file").write_text("a file, not a folder")
    assert line in refused(shell, *words)
    assert not (shell.folder / "xbench-results").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--batch", "0"),
        ("time", "--threads", "many"),
        ("time", "--budget", "0"),
        ("time", "--budget", "inf"),
        ("check", "--timeout", "inf"),
    ],
)
def test_a_wrong_number_names_its_option(shell, words):
    answer = shell.inside(words[0], "lenet", *words[1:])
    assert answer.returncode == 2
    assert words[1] in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.fixture
def files(shell):
    """Files that are not models, by what is wrong with them."""
    content = write_two_outputs(shell.folder / "whole.onnx").read_bytes()
    (shell.folder / "empty.onnx").write_bytes(b"")
    (shell.folder / "text.onnx").write_text("this is no ONNX file\n" * 50)
    (shell.folder / "truncated.onnx").write_bytes(content[: len(content) // 2])
    (shell.folder / "folder.onnx").mkdir()
    (shell.folder / "looping.onnx").symlink_to("looping.onnx")
    model = onnx.load_from_string(content)
    model.graph.node[0].op_type = "Reluctant"
    onnx.save(model, shell.folder / "unknown.onnx")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("empty", "empty.onnx is not"),
        ("text", "text.onnx is not a valid ONNX file"),
        ("truncated", "truncated.onnx is not a valid ONNX file"),
        ("unknown", "unknown.onnx is not a valid ONNX file: unknown operators: Reluctant (1)"),
        ("folder", "folder.onnx is a folder, not an ONNX file"),
        ("looping", "looping.onnx"),
    ],
)
def test_a_file_that_is_no_model_is_one_line(shell, files, name, line):
    assert line in refused(shell, "time", f"{name}.onnx", *QUICK)


def test_every_file_that_is_no_model_is_named_when_several_are_converted(shell, files):
    answer = shell.run("convert", "text.onnx", "unknown.onnx", "--to", "null")
    assert answer.returncode == 2
    assert [line.split()[1] for line in answer.stderr.splitlines()] == ["text.onnx", "unknown.onnx"]


def test_a_file_cut_anywhere_is_no_model(tmp_path):
    content = write_two_outputs(tmp_path / "whole.onnx").read_bytes()
    for length in range(len(content)):
        (tmp_path / "cut.onnx").write_bytes(content[:length])
        with pytest.raises(InvalidModel) as error:
            read(tmp_path / "cut.onnx")
        assert "\n" not in str(error.value), length


def test_more_threads_than_cpus_warns_and_goes_on(shell, lenet):
    answer = shell.run("time", "lenet", *QUICK, "--threads", machine.cpus() + 1)
    assert answer.returncode == 0
    assert f"warning: {machine.cpus() + 1} threads on {machine.cpus()} CPUs" in answer.stderr.splitlines()[0]


@pytest.mark.skipif(machine.has_cuda(), reason="this machine has a GPU")
def test_cuda_without_a_gpu_is_one_line(shell):
    assert "--device cuda: this machine has no NVIDIA GPU" in refused(shell, "time", "lenet", "--device", "cuda")


@pytest.fixture
def without_jax(shell):
    """An environment in which jax looks not installed, unless it is imported."""
    (shell.folder / "sitecustomize.py").write_text(
        "from importlib import metadata\nfound = metadata.version\ndef version(name):\n"
        "    if name == 'jax': raise metadata.PackageNotFoundError(name)\n    return found(name)\n"
        "metadata.version = version\n"
    )
    return shell.python_path(shell.folder)


def test_a_missing_framework_is_one_line_with_the_command_that_installs_it(shell, without_jax):
    line = refused(shell, "time", "lenet", "--runtime", "jax", PYTHONPATH=without_jax)
    assert line == "xbench: jax is not installed: pip install 'xbench[jax]'"


def test_doctor_names_what_is_missing_and_its_command(shell, without_jax):
    facts = json.loads(shell.run("doctor", "--json", PYTHONPATH=without_jax).stdout)
    runtimes = {row["runtime"]: row for row in facts["runtimes"]}
    assert runtimes["jax"] == {"runtime": "jax", "version": None, "install": "pip install 'xbench[jax]'"}
    assert runtimes["torch"]["version"]
    assert runtimes["torch"]["install"] is None
    assert "missing: pip install 'xbench[jax]'" in shell.run("doctor", PYTHONPATH=without_jax).stdout


def test_doctor_looks_at_this_machine(shell):
    answer = shell.run("doctor")
    assert answer.returncode == 0
    assert "usable" in answer.stdout
    assert os.environ["XBENCH_CACHE"] in answer.stdout


@pytest.mark.parametrize(
    "words",
    [["--help"], ["time", "--help"], ["train", "--help"], ["load", "--help"], ["scale", "--help"], ["list", "--help"]],
)
def test_help_imports_neither_a_framework_nor_numpy(shell, words):
    code = f"import sys; sys.argv = ['xbench', *{words}]\nfrom xbench.cli import main\ntry: main()\n"
    code += "finally: print('MODULES', *{name.partition('.')[0] for name in sys.modules})"
    answer = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60)
    imported = set(answer.stdout.partition("MODULES")[2].split())
    assert "typer" in imported, answer.stderr
    assert not imported & {"numpy", "torch", "jax", "tensorflow", "tvm", "onnx", "onnxruntime", "openvino", "scipy"}


@pytest.mark.parametrize(
    "module",
    [
        "experiments.session",
        "proof.prove",
        "workers.jobs.cell",
        "workers.jobs.cost",
        "workers.jobs.load",
        "experiments.scaling.run",
        "workers.jobs.scaling",
    ],
)
def test_what_runs_a_converted_model_does_not_import_what_reads_graphs(module):
    """onnx_ir brings SymPy, to the command and again to every worker."""
    module = f"xbench.{module}"
    code = f"import sys, {module}; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    imported = set(answer.stdout.split())
    assert module in imported
    assert not imported & {"onnx", "onnx_ir", "sympy", "torch", "jax", "tensorflow"}


def test_listing_models_promises_name_study_parameters_macs_and_input(shell):
    rows = json.loads(shell.inside("list", "models", "--json").stdout)
    assert [row["name"] for row in rows] == list(models.MODELS)
    assert all({"name", "study", "parameters", "macs", "input"} <= set(row) for row in rows)
    lenet = next(row for row in rows if row["name"] == "lenet")
    assert (lenet["parameters"], lenet["macs"]) == (431_080, 2_293_000)
    assert lenet["input"][0]["shape"] == ["batch", 1, 28, 28]


def test_listing_runtimes_hides_those_that_only_test(shell):
    names = [row["name"] for row in json.loads(shell.inside("list", "runtimes", "--json").stdout)]
    assert {"torch", "onnxruntime", "openvino", "tensorflow", "jax", "tvm"} <= set(names)
    assert not any(name == "null" or name.startswith("fault_") for name in names)


def test_the_lineage_names_every_tool_of_the_studies_and_its_successor_here(shell):
    rows = {row["tool"]: row for row in json.loads(shell.inside("list", "runtimes", "--lineage", "--json").stdout)}
    named = {
        "Caffe",
        "Caffe-MPI",
        "Caffe2",
        "CNTK",
        "MXNet, Gluon",
        "TensorFlow",
        "Torch7",
        "PyTorch",
        "Theano",
        "Lasagne",
    }
    assert set(rows) == named | {"Neon", "Keras", "Chainer", "Knet"}
    known = {row["name"] for row in json.loads(shell.inside("list", "runtimes", "--json").stdout)}
    assert all(set(row["runtimes"]) <= known for row in rows.values())
    modern = {"TensorFlow", "PyTorch", "Keras"}
    originals = {"Caffe2", "CNTK", "MXNet, Gluon", "Theano", "Chainer"}
    assert {tool for tool, row in rows.items() if row["original"]} == modern | originals
    assert "xbench env create mxnet" in " ".join(shell.run("list", "runtimes", "--lineage").stdout.split())
    assert rows["Neon"]["runtimes"] == ["openvino"]


@pytest.mark.parametrize("words", [("list", "models"), ("list", "runtimes"), ("list", "runtimes", "--lineage")])
def test_lists_are_tables_for_people(shell, words):
    answer = shell.run(*words)
    assert answer.returncode == 0
    assert "lenet" in answer.stdout or "openvino" in answer.stdout


def test_check_answers_with_a_list_of_cells(shell, lenet):
    answer = shell.run("check", "lenet", "--runtime", "null", "--runtime", "fault_infinite", "--json")
    assert answer.returncode == 1
    rows = {row["runtime"]: row for row in json.loads(answer.stdout)}
    assert list(rows) == ["null", "fault_infinite"]
    wanted = {"model", "runtime", "mode", "status", "class", "worst_tensor", "ratio"}
    assert all(wanted <= set(row) for row in rows.values())
    assert [rows["null"][name] for name in ("model", "mode", "status", "class")] == ["lenet", "forward", "PASS", "fp32"]
    assert rows["null"]["ratio"] < 64
    assert (rows["fault_infinite"]["status"], rows["fault_infinite"]["ratio"]) == ("FAIL", None)


def test_what_passed_a_check_is_not_checked_again_and_what_failed_is(shell, lenet):
    words = ("check", "lenet", "--runtime", "null", "--runtime", "fault_infinite", "--json")
    first, second = shell.run(*words), shell.run(*words)
    assert (second.returncode, json.loads(second.stdout)) == (1, json.loads(first.stdout))
    lines = (shell.folder / "xbench-results/check.jsonl").read_text().splitlines()
    assert [json.loads(line)["case"]["runtime"] for line in lines[2:]] == ["fault_infinite"]
    assert "1 cell was measured before" in second.stderr
    assert shell.run(*words, "--rerun").returncode == 1
    assert len((shell.folder / "xbench-results/check.jsonl").read_text().splitlines()) == 5


def test_an_adapter_that_was_changed_is_checked_again(shell, lenet, fault_folder, tmp_path, monkeypatch):
    """The author of an adapter must not be shown the result of an earlier version."""
    site = tmp_path / "site"
    shutil.copytree(fault_folder, site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ["PYTHONPATH"]]))
    words = ("check", "lenet", "--runtime", "fault_slow_put", "--json")
    assert json.loads(shell.run(*words).stdout)[0]["status"] == "PASS"
    adapters = site / "xbench_faults.py"
    adapters.write_text(adapters.read_text() + "\n# edited\n")
    assert "measured before" not in shell.run(*words).stderr
    assert "1 cell was measured before" in shell.run(*words).stderr


def test_a_broken_file_among_models_is_named_and_the_others_are_checked(shell, lenet):
    (shell.folder / "bad.onnx").write_bytes(b"no model")
    answer = shell.run("check", "bad.onnx", "lenet", "--runtime", "null", "--mode", "forward", "--json")
    assert answer.returncode == 2
    assert "bad.onnx is not" in answer.stderr
    assert [row["status"] for row in json.loads(answer.stdout)] == ["PASS"]


def test_show_answers_with_rows_in_every_form(shell, lenet):
    assert shell.run("time", "lenet", *QUICK, "--runtime", "fault_killed").returncode == 1
    rows = json.loads(shell.run("show", "--json").stdout)
    assert all(set(row) >= ROW for row in rows)
    passed, failed = rows
    assert (passed["status"], passed["class"], passed["ratio"]) == ("PASS", "fp32", 1)
    assert passed["low_s"] <= passed["median_s"] <= passed["high_s"]
    assert (failed["status"], failed["median_s"], failed["ratio"]) == ("CRASH", None, None)
    header, *lines = shell.inside("show", "--csv").stdout.splitlines()
    assert set(header.split(",")) >= ROW
    assert len(lines) == 2
    assert "| " in shell.inside("show", "--markdown").stdout
    assert "PASS fp32" in shell.run("show").stdout


def test_time_prints_the_same_rows_as_show(shell, lenet):
    timed = json.loads(shell.run("time", "lenet", *QUICK, "--json").stdout)
    assert timed == json.loads(shell.run("show", "--json").stdout)
    assert len(records(shell.folder / "xbench-results")) == 1


def test_a_conversion_is_kept_and_a_crash_is_not(shell, lenet):
    words = ("convert", "lenet", "--to", "null", "--to", "fault_unloadable", "--json")
    first, second = (json.loads(shell.run(*words).stdout) for _ in range(2))
    assert [row["status"] for row in first] == ["CONVERTED", "CRASH"]
    assert first[0] == second[0]
    assert [converted(lenet, runtime).is_file() for runtime in ("null", "fault_unloadable")] == [True, False]
    assert second[1]["status"] == "CRASH"
    assert Path(first[0]["folder"], "model.onnx").is_file()


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_for_a_shell_can_be_printed(shell, name):
    answer = subprocess.run(
        [Path(sys.executable).with_name("xbench"), "--show-completion", name],
        capture_output=True,
        text=True,
        env=shell.environment(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"),
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr
    assert "_XBENCH_COMPLETE" in answer.stdout


def test_completion_offers_models_and_runtimes_but_no_hidden_ones():
    from xbench.cli.terminal.options import complete_model, complete_runtime

    assert complete_model("resnet50") == ["resnet50", "resnet50_v1", "resnet50_features"]
    assert complete_runtime("torch") == ["torch", "torch_compile", "torch_export", "torchscript"]
    assert complete_runtime("null") == []


def test_tvm_trains_only_where_it_is_asked_to(shell):
    """Its training steps are slow on larger networks."""
    (shell.folder / "tiny.py").write_text("from torch import nn\n\n\ndef make():\n    return nn.Linear(5, 3)\n")
    for options, mode in (((), "forward"), (("--mode", "gradient"), "gradient")):
        answer = shell.run("check", "tiny:make", "--input", "x:float32:batch,5", "--runtime", "tvm", *options, "--json")
        assert [(row["mode"], row["status"]) for row in json.loads(answer.stdout)] == [(mode, "PASS")]
