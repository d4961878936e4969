"""The path from a command to the first timed step crosses few modules, each once, never upwards."""

import subprocess
import sys

import pytest
import walk
from places import ROOT

MODULES = 15


@pytest.mark.parametrize("runtime", ["torch", "onnxruntime"])
def test_a_reader_crosses_few_modules(runtime, tmp_path):
    words = [sys.executable, "-P", str(ROOT / "tools/measure/walk.py"), "--runtime", runtime]
    done = subprocess.run(words, cwd=tmp_path, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    count, _, words = done.stdout.splitlines()[-1].partition(" ")
    assert int(count) <= MODULES and words == "modules, each once, never upwards"
    assert "  experiments/session.py" in done.stdout and f"  runtimes/{runtime}.py" in done.stdout


def test_a_call_upwards_or_a_module_that_is_crossed_twice_is_named():
    assert walk.problems(["cli/time.py", "experiments/session.py", "workers/worker.py"]) == []
    assert walk.problems(["cli/time.py", "workers/worker.py", "proof/prove.py"]) == [
        "workers/worker.py calls proof/prove.py, which is above it"
    ]
    assert walk.problems(["cli/a.py", "cli/b.py", "cli/a.py"]) == ["cli/a.py is crossed twice"]
