"""`xbench evaluate` on files that packages ship, with real inputs: what magika says of files of Python's library, and
what rapidocr reads in lines of text. The metric is that of ONNX Runtime's own API; no answer changes in float32."""

import json
import shutil
import sys
from pathlib import Path

import jiwer
import numpy as np
import onnxruntime
import pytest
from fault_kit import Shell
from places import ROOT

magika = pytest.importorskip("magika")
rapidocr = pytest.importorskip("rapidocr_onnxruntime")


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    shutil.copy(ROOT / "examples" / "shipped.py", folder / "real.py")
    return Shell(folder)


@pytest.fixture
def real(shell, monkeypatch):
    """The functions as a module of this process."""
    monkeypatch.chdir(shell.folder)
    monkeypatch.syspath_prepend(str(shell.folder))
    monkeypatch.delitem(sys.modules, "real", raising=False)
    import real

    return real


def evaluated(shell, path, *words):
    runtimes = [word for runtime in ("onnxruntime", "openvino", "torch") for word in ("--runtime", runtime)]
    answer = shell.run("evaluate", path, *words, *runtimes, "--json")
    assert answer.stdout, answer.stderr
    return json.loads(answer.stdout)


def test_magika_names_the_kinds_of_real_files(shell, real):
    path = next(Path(magika.__file__).parent.glob("models/*/model.onnx"))
    rows, labels = (np.concatenate(each) for each in zip(*real.files(), strict=True))
    said = onnxruntime.InferenceSession(path).run(None, {"bytes": rows})[0].argmax(1)
    for record in evaluated(shell, path, "--inputs", "real.py:files", "--batch", 10):
        found = record["evaluation"]
        assert (record["status"], found["verdict"], found["changed"]) == ("PASS", "same", 0), record["message"]
        assert found["value"] == np.mean(said == labels) > 0.8
        assert found["samples"] == len(labels) > 30


def test_rapidocr_reads_real_lines(shell, real):
    path = next(Path(rapidocr.__file__).parent.glob("models/*rec*.onnx"))
    session = onnxruntime.InferenceSession(path)
    images, texts = zip(*real.lines(), strict=True)
    read = real.decoded(session.run(None, {"x": np.concatenate(images)})[0])
    words = ("--shape", "x=batch,3,48,320", "--metric", "word-error", "--post", "real.py:decoded", "--batch", 4)
    for record in evaluated(shell, path, "--inputs", "real.py:lines", *words):
        found = record["evaluation"]
        assert (record["status"], found["verdict"], found["changed"]) == ("PASS", "same", 0), record["message"]
        assert found["value"] == jiwer.wer([text for (text,) in texts], read)
        assert found["value"] < 0.2
