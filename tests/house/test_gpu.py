"""The report of `make gpu`, made on a CPU: every part runs, and parts without time left are named."""

import subprocess
import sys

import pytest
from fault_kit import Shell
from places import ROOT

SCRIPT = ROOT / "tools" / "pages" / "gpu.py"


@pytest.mark.parametrize(("seconds", "done"), [(240, True), (0, False)])
def test_the_report_is_made_with_whatever_runtime_there_is(seconds, done, shell: Shell, lenet):
    words = ("--device", "cpu", "--model", "lenet", "--runtime", "onnxruntime", "--seconds", str(seconds))
    answer = subprocess.run(
        [sys.executable, "-P", str(SCRIPT), *words],
        capture_output=True,
        text=True,
        env=shell.environment(),
        cwd=shell.folder,
        timeout=300,
    )
    assert answer.returncode == 0, answer.stderr
    parts = answer.stdout.split("\n## ")
    assert [part.split("\n")[0].split()[0] for part in parts[1:]] == ["Times", "Parity", "By", "Less", "What"]
    assert answer.stdout.count("Not done") == (0 if done else 5)
    if done:
        assert "| onnxruntime" in parts[1]
        assert parts[2].count("| PASS | fp32 |") == 3
        assert "cannot read the clock of cpu" in parts[3]
        assert "| PASS | tf32 |" in parts[4]
        assert "| onnxruntime | " in parts[5]
