"""The script that runs a runtime without xbench is in its own file, which needs no framework; a plug-in's may fail."""

import subprocess
import sys
from dataclasses import replace

import pytest

from xbench.errors import XBenchError
from xbench.runtimes import RUNTIMES, scripts
from xbench.workers import reproduce

NAMED = {name: row.scripts for name, row in RUNTIMES.items() if row.scripts}
BROKEN = """
def reproduce(mode, options, device):
    return 5 if device == "cuda" else 1 / 0

def deploy(options):
    raise RuntimeError("a line\\nand another \\x1b[2J")
"""


def test_every_file_is_a_row_s_and_imports_no_framework():
    names = ", ".join(NAMED.values())
    program = f"import {names}, sys; print(*sorted({{'torch', 'jax', 'tensorflow', 'tvm'}} & {{*sys.modules}}))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []
    assert {place.rpartition(".")[2] for place in NAMED.values()} == {*NAMED}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("mode", ["forward", "gradient"])
def test_what_it_gives_is_a_program(name, mode):
    text = scripts.reproduction(name, mode, "cpu")
    assert f"def run_{name}(given):" in text
    compile(text, name, "exec")
    form = scripts.deployment(name)
    assert "outputs = " in form.lines and all(form.packages)


def test_the_options_of_a_word_are_in_the_script():
    assert "ORT_ENABLE_BASIC" in scripts.reproduction("onnxruntime:level=basic", "forward", "cpu")
    assert "ORT_ENABLE_ALL" in scripts.reproduction("onnxruntime", "forward", "cpu")


def test_a_runtime_without_scripts_is_answered_from_its_records():
    assert scripts.reproduction("null", "forward", "cpu") is None
    with pytest.raises(XBenchError, match=r"null is not deployed: there is a script of torch, torch_compile,"):
        scripts.deployment("null")


@pytest.fixture
def stranger(monkeypatch, tmp_path):
    """A row whose `scripts` is the module of this name."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_scripts.py").write_text(BROKEN)

    def named(module):
        row = replace(RUNTIMES["tvm"], scripts=module)
        for place in (scripts, reproduce):
            monkeypatch.setattr(place, "row_of", lambda word: row)

    return named


def test_a_plug_in_s_broken_file_is_one_line(stranger):
    stranger("broken_scripts")
    with pytest.raises(XBenchError, match=r"^broken_scripts: a line$"):
        scripts.deployment("mine")
    with pytest.raises(XBenchError, match=r"broken_scripts: its `reproduce` gives a int"):
        scripts.reproduction("mine", "forward", "cuda")
    stranger("nowhere_at_all")
    with pytest.raises(XBenchError, match=r"No module named 'nowhere_at_all'"):
        scripts.deployment("mine")


@pytest.mark.parametrize(("answer", "word"), [("a.npz", "recorded"), (None, "failed")])
def test_a_bisection_falls_back_to_what_was_recorded(stranger, answer, word, lenet, tmp_path):
    stranger("broken_scripts")
    runtime = {"word": "mine", "answer": answer, "device": "cpu", "threads": 1, "layout": "nchw"}
    assert f"def {word}_a(given):" in reproduce._function(lenet, "forward", runtime, "a", tmp_path)
