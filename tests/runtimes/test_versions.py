"""A runtime in another version than the installed one: `onnxruntime==1.20.1` stands wherever a runtime does."""

import json
import os
import subprocess
import sys
import threading

import pytest
from fault_kit import only_line, records

from xbench import runtimes
from xbench.errors import XBenchError
from xbench.experiments.choose import split
from xbench.runtimes import RUNTIMES, _configuration, _environments
from xbench.workers import environment, own_code
from xbench.workers.building import installation

VERSION = "onnxruntime==1.20.1"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Environments of this test alone."""
    monkeypatch.setenv("XBENCH_ENVIRONMENTS", str(tmp_path / "environments"))
    return tmp_path / "environments"


@pytest.mark.parametrize(
    ("word", "name", "options", "version", "own"),
    [
        ("onnxruntime", "onnxruntime", {}, None, None),
        ("onnxruntime:level=all", "onnxruntime", {"level": "all"}, None, None),
        (VERSION, "onnxruntime", {}, "1.20.1", VERSION),
        (f"{VERSION}:level=all,profile", "onnxruntime", {"level": "all", "profile": "1"}, "1.20.1", VERSION),
        ("opencv==5.0.0.93:engine=new", "opencv", {"engine": "new"}, "5.0.0.93", "opencv==5.0.0.93"),
        ("torch_compile==2.9.1:backend=eager", "torch_compile", {"backend": "eager"}, "2.9.1", "torch==2.9.1"),
    ],
)
def test_a_word_has_a_version(word, name, options, version, own):
    assert runtimes.parse(word) == (name, options)
    assert _configuration.pinned(word) == version
    assert _configuration.own_environment(word) == own
    assert runtimes.row_of(word) is RUNTIMES[name]


def test_an_environment_is_proved_by_the_import_of_its_module():
    assert environment.recipe("opencv==5.0.0.93").check.startswith("import cv2, ")
    assert environment.recipe("torch==2.9.1").check.startswith("import torch, ")


def test_a_worker_in_another_python_finds_its_jobs_without_what_only_ours_has():
    """The jobs of a runtime's cell are those whose answers are checked."""
    program = """
import sys
sys.modules.update(dict.fromkeys(("onnx_ir", "onnxscript", "torch", "scipy", "sklearn", "jiwer", "typer", "rich")))
from xbench.workers.answers import ANSWERS
from xbench.workers.worker import _job
print(len([_job(name) for name in ANSWERS]), "answer_samples" in ANSWERS)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.stdout.split()[-1] == "True", answer.stderr


def test_versions_may_be_listed_between_commas():
    listed = "onnxruntime==1.20.1,onnxruntime==1.24.1:level=all,profile=1,onnxruntime,jax==0.6.2,jax==0.7.0"
    words = [
        "onnxruntime==1.20.1",
        "onnxruntime==1.24.1:level=all,profile=1",
        "onnxruntime",
        "jax==0.6.2",
        "jax==0.7.0",
    ]
    assert split([listed]) == words


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("onnxruntime==", "onnxruntime==: that is no version, such as onnxruntime==1.2.3"),
        ("onnxruntime==../../x", "onnxruntime==../../x: that is no version"),
        ("onnxruntime==1/../../evil", "onnxruntime==1/../../evil: that is no version"),
        ("onnxruntime==-r", "onnxruntime==-r: that is no version"),
        ("onnxruntime==1;rm", "that is no version"),
        ("onnxrunt==1.2", "unknown runtime 'onnxrunt': did you mean onnxruntime?"),
        ("mxnet==1.8.0", "mxnet has no versions to choose from: there are torch,"),
        ("null==1", "null has no versions to choose from"),
        (f"{VERSION}:python=python3", "a version has an environment of its own; write it, or python="),
        (f"{VERSION}:levl=all", "onnxruntime has no option 'levl'"),
        ("cheat_honest==1", "a plug-in has the version that is installed"),
    ],
)
def test_a_wrong_version_is_one_line(word, says, root, shell):
    answer = shell.inside("check", "lenet", "--runtime", word, "--mode", "forward")
    assert answer.returncode == 2
    assert says in only_line(answer.stderr)
    assert not root.exists() or not [*root.glob("*")]


def test_every_word_is_looked_at_before_an_environment_is_made(root, shell):
    answer = shell.inside("check", "lenet", "--runtime", f"{VERSION},nope", "--mode", "forward")
    assert answer.returncode == 2 and "unknown runtime 'nope'" in only_line(answer.stderr)
    assert not root.exists()


def test_a_runtime_without_a_version_is_asked_for_one(root, shell):
    (root / VERSION).mkdir(parents=True)
    for command in ("create", "remove"):
        answer = shell.inside("env", command, "onnxruntime")
        assert answer.returncode == 2
        assert f"which version of onnxruntime? Write onnxruntime==1.2.3; there is {VERSION}" in only_line(answer.stderr)


def test_a_version_is_no_path(root, tmp_path):
    """Not even to what looks like an environment."""
    evil = tmp_path / "evil"
    (evil / "bin").mkdir(parents=True)
    (evil / "bin" / "python").write_text("#!/bin/sh\n")
    (evil / "ready.json").write_text('{"versions": {}, "variables": {}}')
    (root / "onnxruntime==1").mkdir(parents=True)
    assert _environments.find("onnxruntime==1/../../evil") is None
    for use in (_configuration.worker, _configuration.own_environment):
        with pytest.raises(_configuration.Misconfigured, match="that is no version"):
            use("onnxruntime==1/../../evil")
    with pytest.raises(XBenchError, match="that is no version"):
        environment.ensure("onnxruntime==1/../../evil")


def test_a_version_whose_environment_is_gone_is_never_the_installed_one(root):
    with pytest.raises(_configuration.Misconfigured, match=f"there is no environment {VERSION}: xbench env create"):
        _configuration.worker(VERSION)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("1.20.99", "the nearest is 1.20.1 or 1.21.0"),
        ("9.9", "the nearest is 1.30.0"),
        ("0.1", "the nearest is 1.9.0"),
    ],
)
def test_the_neighbours_of_a_version_that_does_not_exist_are_named(wanted, says):
    known = ["1.9.0", "1.20.1", "1.21.0", "1.30.0"]
    assert installation._neighbours(f"onnxruntime=={wanted}", known) == says


def test_another_python_runs_our_code_without_having_it(tmp_path):
    """In a folder of links, made once though threads ask for it together."""
    places = []
    threads = [threading.Thread(target=lambda: places.append(own_code.variables(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each["PYTHONPATH"] for each in places}) == 1
    folder = tmp_path / "own-code" / "xbench"
    assert {path.name for path in folder.iterdir()} == {*own_code.PACKAGES, *(f"{n}.py" for n in own_code.MODULES)}
    code = "import xbench.workers.worker, xbench.workers.jobs.cell as cell; print(cell.__file__)"
    answer = subprocess.run(
        [sys.executable, "-P", "-c", code], env={**os.environ, **places[0]}, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip().startswith(str(folder))


def test_what_fails_leaves_nothing(root, monkeypatch):
    def fails(*_):
        raise XBenchError("no space left on device")

    monkeypatch.setattr(installation, "install", fails)
    with pytest.raises(XBenchError, match="no space left"):
        environment.ensure(VERSION)
    assert not (root / VERSION).exists()
    assert VERSION not in [row["name"] for row in environment.listed()]


def test_a_package_for_an_older_numpy_gets_one(root, monkeypatch):
    """The import fails once, and does not after the recipe's second choice."""
    spec, ran = environment.recipe(VERSION), []

    def run(command, otherwise, say, variables=None):
        ran.append(command)
        if sum(spec.check in each for each in ran) == 1 and spec.check in command:
            raise installation.StepFailed(otherwise, [])

    monkeypatch.setattr(installation, "run", run)
    installation.check("python", spec, lambda words: None, {})
    assert [command[-1] for command in ran] == [spec.check, "numpy<2", spec.check]


def test_two_versions_are_proved_and_timed_side_by_side(root, shell):
    """From nothing but the word: the environment is made when it is first used."""
    words = ("--runtime", f"{VERSION},onnxruntime", "--mode", "forward", "--batch", "2", "--budget", "0.2")
    answer = shell.run("time", "lenet", *words, "--out", "out")
    if answer.returncode and "onnxruntime==1.20.1" in answer.stderr and "there is no" in answer.stderr:
        pytest.skip("the package index does not have it")
    assert answer.returncode == 0, answer.stderr
    assert f"making the environment {VERSION}" in answer.stderr
    rows = {row["case"]["runtime"]: row for row in records(shell.folder / "out")}
    assert {name: row["status"] for name, row in rows.items()} == {VERSION: "PASS", "onnxruntime": "PASS"}
    assert rows[VERSION]["versions"]["onnxruntime"] == "1.20.1" != rows["onnxruntime"]["versions"]["onnxruntime"]
    assert f"--runtime {VERSION} " in rows[VERSION]["command"]
    trained = shell.run("check", "lenet", "--runtime", VERSION, "--mode", "step", "--json")
    assert json.loads(trained.stdout)[0]["status"] == "PASS" and "making" not in trained.stderr
    made = _environments.find(VERSION)
    site = next(made.folder.glob("lib/python3*/site-packages"))
    assert not [path.name for path in site.iterdir() if path.name.split("-")[0] in ("xbench", "torch")]
    listed = {row["name"]: row for row in json.loads(shell.run("env", "list", "--json").stdout)}
    assert listed[VERSION]["state"] == "ready" and listed[VERSION]["bytes"] > 50e6
    (made.folder / "ready.json").write_text("{")  # broken by hand
    assert {row["name"]: row["state"] for row in environment.listed()}[VERSION] == "half-built"
    assert shell.run("env", "remove", VERSION).returncode == 0 and not made.folder.exists()
    answer = shell.run("check", "lenet", "--runtime", "onnxruntime==1.20.99", "--mode", "forward")
    assert answer.returncode == 2
    assert "there is no onnxruntime==1.20.99 for this Python and machine: the nearest is" in answer.stderr
    assert [path.name for path in root.iterdir() if path.is_dir()] == []
