"""`xbench evaluate` gives the metric of a plain script with the runtime's own API, to the last digit, on every runtime
and in every precision that it has."""

import json
import subprocess
import sys

import plain_scripts
import pytest
from fault_kit import Shell

PRECISIONS = ("fp32", "bf16", "fp16", "int8", "int4")


@pytest.fixture(scope="module")
def evaluated(digits):
    """The evaluations of all runtimes, by runtime and precision."""
    words = [word for each in plain_scripts.SCRIPTS for word in ("--runtime", each)]
    words += ["--precision", ",".join(PRECISIONS), "--batch", plain_scripts.BATCH, "--json"]
    answer = Shell(digits).run("evaluate", "digits.onnx", "--inputs", "digits.npz", *words, "--out", "plain")
    records = json.loads(answer.stdout)
    return {(each["case"]["runtime"], each["case"]["precision"]): each for each in records}


@pytest.mark.parametrize("runtime", plain_scripts.SCRIPTS)
def test_the_metric_is_that_of_a_plain_script(runtime, evaluated, digits, tmp_path):
    for name in (plain_scripts.FILE, plain_scripts.DATA):
        (tmp_path / name).symlink_to(digits / name)
    words = [sys.executable, "-P", plain_scripts.__file__, runtime, str(tmp_path)]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    shares = json.loads(answer.stdout.splitlines()[-1])
    found = {name: record for (word, name), record in evaluated.items() if word == runtime}
    computed = {name: each["evaluation"]["value"] for name, each in found.items() if each["status"] != "UNSUPPORTED"}
    assert computed == {name: shares[name] for name in computed}
    assert (found["fp32"]["status"], found["fp32"]["evaluation"]["changed"]) == ("PASS", 0)
