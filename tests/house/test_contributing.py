"""The diffs in CONTRIBUTING.md are all that is needed to add an operator, a runtime and a command."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from places import ROOT

BLOCKS = re.findall(r"^```diff\n(--- .*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)
OPERATOR, RUNTIME, COMMAND = (next(block for block in BLOCKS if f"+++ b/{file}" in block) for file in (
    "converters/ops/info.py", "runtimes/_rows.py", "cli/_app.py"
))  # fmt: skip
MAIN = ["-P", "-c", "from xbench.cli import main; main()"]


def apply(folder, diff, *options):
    command = ["git", "apply", *options]
    done = subprocess.run(command, cwd=folder, input=diff, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_diffs_fit_the_sources():
    apply(ROOT, OPERATOR, "--check", "--reverse")  # it is there
    apply(ROOT, RUNTIME + COMMAND, "--check")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The sources without Mish, with the new runtime and the new command."""
    copy = tmp_path_factory.mktemp("contributing") / "xbench"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, names)):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    apply(copy, OPERATOR, "--reverse")
    apply(copy, RUNTIME + COMMAND)
    subprocess.run(["make", "--silent", "types"], cwd=copy, check=True)
    return copy


def run(copy, *words):
    environment = os.environ | {"PYTHONPATH": str(copy / ".types")}
    done = subprocess.run([sys.executable, *words], cwd=copy, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_the_runtime_is_proved_and_timed(copy, tmp_path):
    words = ["time", "lenet", "--runtime", "reference", "--mode", "forward", "--batch", "2", "--budget", "0.1"]
    assert "reference (NumPy)  PASS" in run(copy, *MAIN, *words, "--out", str(tmp_path))


def test_the_command_and_the_operator_are_there(copy):
    before = run(copy, *MAIN, "operators", "jax").split()
    assert "Softsign" in before and "Mish" not in before
    apply(copy, OPERATOR)
    assert sorted({*run(copy, *MAIN, "operators", "jax").split()} - {*before}) == ["Mish"]
    files = [f"tests/converters/{n}.py" for n in ("ops/test_operators", "ops/test_info", "autodiff/test_gradient")]
    assert "8 passed" in run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "Mish", *files)


def test_the_rules_of_the_house_hold(copy):
    run(copy, "-m", "ruff", "check", "--no-cache", ".")
    run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/house/test_house.py")
