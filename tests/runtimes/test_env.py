"""Environments of old frameworks: recipes, interpreters, settings, and that a half-built one does not count. Nothing
is downloaded here: a script in place of an interpreter does the work of `pip install`."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from xbench.errors import XBenchError
from xbench.runtimes import RUNTIMES, _configuration, _environments, version
from xbench.runtimes._configuration import Misconfigured
from xbench.workers import environment


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("XBENCH_ENVIRONMENTS", str(tmp_path / "environments"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "environments"


# `python -m venv DIR` copies it there; it installs each package as an empty folder with metadata.
STAND_IN = """#!/bin/sh
case "$*" in
  *version_info*) echo {version} ;;
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"pip install"*) echo installing; {install} ;;
  *pkg_resources*) echo '["{version}.1", {{"mxnet": "1.9.1", "numpy": "1.23.5", "pip": "1"}}]' ;;
  *) {check} ;;
esac
"""


@pytest.fixture
def stand_in(tmp_path):
    def make(version="3.8", install="true", check="true"):
        place = tmp_path / "old" / "bin" / "python"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(STAND_IN.format(version=version, install=install, check=check))
        place.chmod(place.stat().st_mode | stat.S_IXUSR)
        return str(place)

    return make


def build(name, python):
    lines = []
    return environment.create(name, python, lambda words: None, lines.append), lines


def test_every_recipe_is_pinned_and_belongs_to_a_runtime_that_is_asked_for_by_name():
    assert set(_environments.RECIPES) == {name for name, row in RUNTIMES.items() if row.environment}
    for name, recipe in _environments.RECIPES.items():
        words = [word for arguments in recipe.installs for word in arguments if not word.startswith("--")]
        assert words and all("==" in word for word in words), name
        assert RUNTIMES[name].named and RUNTIMES[name].packages == (recipe.package,)


def test_an_unknown_name_gets_the_nearest(root):
    with pytest.raises(XBenchError, match="did you mean theano"):
        environment.recipe("theno")
    with pytest.raises(XBenchError, match="there are mxnet, chainer"):
        environment.recipe("lasagne")


def test_an_environment_is_made_and_found_and_removed(root, stand_in):
    made, lines = build("mxnet", stand_in())
    assert made.versions == {"python": "3.8.1", "mxnet": "1.9.1", "numpy": "1.23.5"}
    assert len(lines) == environment.steps("mxnet")
    assert _environments.find("mxnet") == made
    assert _configuration.interpreter("mxnet") == str(root / "mxnet" / "bin" / "python")
    rows = {row["name"]: row for row in environment.listed()}
    assert (rows["mxnet"]["state"], rows["chainer"]["state"]) == ("ready", "missing")
    assert build("mxnet", "no/such/python")[1] == []  # it exists: nothing is done
    environment.remove("mxnet")
    assert _environments.find("mxnet") is None
    with pytest.raises(XBenchError, match="there is no environment mxnet"):
        environment.remove("mxnet")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"install": "echo 'ERROR: no such wheel' && exit 1"}, "cannot install mxnet==1.9.1 numpy==1.23.5: ERROR"),
        ({"check": "echo 'ImportError: libgomp' && exit 1"}, "cannot be imported: ImportError: libgomp"),
    ],
)  # fmt: skip
def test_what_fails_is_one_line_and_leaves_nothing_that_looks_ready(root, stand_in, fault, says):
    with pytest.raises(XBenchError, match=says):
        build("mxnet", stand_in(**fault))
    assert _environments.find("mxnet") is None
    assert {row["name"]: row["state"] for row in environment.listed()}["mxnet"] == "half-built"
    assert version(RUNTIMES["mxnet"], "mxnet") is None
    assert build("mxnet", stand_in())[0].name == "mxnet"  # and the next starts again


def test_a_build_that_is_killed_is_no_environment(root, stand_in):
    python = stand_in(install="sleep 60")
    command = [
        sys.executable,
        "-c",
        "from xbench.cli import main; main()",
        "env",
        "create",
        "mxnet",
        "--python",
        python,
    ]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not (root / "mxnet" / "bin" / "python").exists() and time.monotonic() < end:
            time.sleep(0.05)
        with pytest.raises(XBenchError, match="another process is at work"):
            build("mxnet", stand_in())
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert (root / "mxnet").exists() and _environments.find("mxnet") is None
    assert _released("mxnet"), "what it had started has died, too"
    assert build("mxnet", stand_in())[0].name == "mxnet"


def _released(name):
    """Whether the lock is free within some seconds: a process that was forked, and not yet executed, has it as well."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            with environment._locked(name):
                return True
        except XBenchError:
            time.sleep(0.05)
    return False


def test_a_missing_interpreter_is_one_line_and_exit_code_2(shell, root, tmp_path):
    bare = {"PATH": str(tmp_path), "PYENV_ROOT": str(tmp_path), "HOME": str(tmp_path)}
    answer = shell.run("env", "create", "cntk", XBENCH_ENVIRONMENTS=str(root), **bare)
    assert answer.returncode == 2
    assert answer.stderr.splitlines()[-1].startswith("xbench: CNTK 2.7 needs Python 3.6, and none is on the PATH")
    answer = shell.run("env", "create", "cntk", "--python", sys.executable, XBENCH_ENVIRONMENTS=str(root))
    assert answer.returncode == 2 and "CNTK 2.7 needs Python 3.6;" in answer.stderr
    assert not (root / "cntk").exists()


def test_a_runtime_without_its_environment_says_how_to_make_it(shell, root):
    answer = shell.run("check", "lenet", "--runtime", "mxnet", XBENCH_ENVIRONMENTS=str(root))
    assert answer.returncode == 2
    assert answer.stderr.strip() == "xbench: mxnet is not installed: xbench env create mxnet"
    rows = {row["name"]: row for row in json.loads(shell.run("list", "runtimes", "--json").stdout)}
    assert rows["mxnet"]["version"] is None
    rows = json.loads(shell.run("env", "list", "--json", XBENCH_ENVIRONMENTS=str(root)).stdout)
    assert {row["name"]: row["state"] for row in rows}["mxnet"] == "missing"


def test_originals_run_only_where_they_are_named(root, stand_in):
    from xbench.experiments.choose import choose_runtimes

    build("mxnet", stand_in())
    site = root / "mxnet" / "lib" / "python3.8" / "site-packages" / "mxnet-1.9.1.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: mxnet\nVersion: 1.9.1\n")
    assert version(RUNTIMES["mxnet"], "mxnet") == "1.9.1"
    assert not {"mxnet", "keras"} & set(choose_runtimes(None))
    assert choose_runtimes(["mxnet"]) == ["mxnet"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[runtimes.torch", "cannot be read"),
        ("[runtime.torch]\npython = 'x'", "unknown table 'runtime'"),
        ("runtimes = 1", "runtimes is no table"),
        ("[runtimes.torch]\npyton = 'x'", r"must say python"),
        ("[runtimes.torch]\npython = 3", r"must say python"),
        ("[runtimes.torch]\npython = 'no/such/python'", "there is no Python at no/such/python"),
        ("[runtimes.torch]\npython = 'python3'\nthreads = 2", "has no setting 'threads'"),
        ("[runtimes.torsh]\npython = 'python3'", "there is no such runtime"),
    ],
)
def test_settings_that_mean_nothing_are_one_line(root, tmp_path, shell, text, says):
    (tmp_path / "xbench.toml").write_text(text)
    with pytest.raises(Misconfigured, match=says) as error:
        _configuration.pythons()
    assert "\n" not in str(error.value) and "xbench.toml" in str(error.value)


def test_broken_settings_end_a_command_with_exit_code_2(shell):
    (shell.folder / "xbench.toml").write_text("[runtimes.torch]\npython = 'no/such/python'")
    for words in (("check", "lenet", "--runtime", "torch"), ("list", "runtimes"), ("doctor",)):
        answer = shell.run(*words)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr.strip() == "xbench: xbench.toml: [runtimes.torch]: there is no Python at no/such/python"


def test_settings_name_the_interpreter_of_any_runtime(root, tmp_path, stand_in):
    python = stand_in()
    assert _configuration.interpreter("torch") is None and _configuration.worker("torch") == sys.executable
    (tmp_path / "xbench.toml").write_text(
        "[runtimes.torch]\npython = 'old/bin/python'\n[runtimes.mxnet]\npython = 'old/bin/python'"
    )
    assert _configuration.worker("torch") == _configuration.worker("torch:x=1") == python
    assert _configuration.worker("torch:python=/usr/bin/env") == "/usr/bin/env"  # a word takes precedence over a file
    assert _configuration.worker("jax") == sys.executable
    assert _configuration.interpreter("mxnet") == python
    assert _configuration.worker("mxnet") == sys.executable  # which delegates to the other


def test_settings_of_the_home_count_where_the_folder_has_none(root, tmp_path, stand_in):
    place = tmp_path / "config" / "xbench" / "config.toml"
    place.parent.mkdir(parents=True)
    place.write_text(f"[runtimes.jax]\npython = {json.dumps(stand_in())}")
    assert _configuration.worker("jax") == stand_in()
    (tmp_path / "xbench.toml").write_text("")
    assert _configuration.worker("jax") == sys.executable


def test_a_library_that_is_nowhere_is_named(root, stand_in, monkeypatch):
    monkeypatch.setattr(environment, "_system_libraries", dict)
    monkeypatch.setattr(environment, "_unpacked", lambda *_: {})
    with pytest.raises(
        XBenchError, match=r"libmpi.so.40, libmpi_cxx.so.40 is not on this machine: apt-get install libopenmpi3"
    ):
        build("cntk", stand_in("3.6"))
    assert _environments.find("cntk") is None


def test_a_library_of_the_system_is_linked_under_its_old_name(root, stand_in, monkeypatch, tmp_path):
    known = {name: str(tmp_path / name) for name in ("libmpi.so.40", "libmpi_cxx.so.40")}
    monkeypatch.setattr(environment, "_system_libraries", lambda: known)
    made, _ = build("cntk", stand_in("3.6"))
    links = root / "cntk" / "libraries"
    assert made.variables == {"LD_LIBRARY_PATH": str(links)}
    assert {each.name: os.readlink(each) for each in links.iterdir()} == {
        "libmpi.so.12": known["libmpi.so.40"],
        "libmpi_cxx.so.1": known["libmpi_cxx.so.40"],
    }
