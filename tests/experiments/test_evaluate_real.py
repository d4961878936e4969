"""`xbench evaluate` on files that packages ship, with real inputs: what magika says of files of Python's library, and
what rapidocr reads in lines of text. The metric is that of ONNX Runtime's own API; no answer changes in float32."""

import json
import sys
from pathlib import Path

import jiwer
import numpy as np
import onnxruntime
import pytest
from fault_kit import Shell

magika = pytest.importorskip("magika")
rapidocr = pytest.importorskip("rapidocr_onnxruntime")

FUNCTIONS = '''
import io
import sysconfig
from pathlib import Path

import numpy as np

KINDS = {".py": "python", ".so": "elf", ".pyc": "pythonbytecode", ".txt": "txt", ".json": "json", ".html": "html"}
WORDS = "the quick brown fox jumps over lazy dog while seven wizards box many large jugs of vintage liquid".split()


def files():
    """The first and last bytes of files, and their kinds by their names."""
    from magika import Magika
    from magika.types.seekable import Seekable

    space = [str(each) for each in Magika()._model_config.target_labels_space]
    counts = dict.fromkeys(KINDS, 0)
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*")):
        if (kind := path.suffix) in KINDS and counts[kind] < 10 and path.is_file() and path.stat().st_size > 200:
            counts[kind] += 1
            content = Seekable(io.BytesIO(path.read_bytes()))
            read = Magika._extract_features_from_seekable(content, 1024, 0, 1024, 256, 4096, False)
            yield np.array([[*read.beg, *read.end]], np.int32), np.array([space.index(KINDS[kind])])


def lines():
    """Lines of three words, drawn black on white."""
    from PIL import Image, ImageDraw, ImageFont

    font, rng = ImageFont.load_default(size=30), np.random.default_rng(0)
    for _ in range(12):
        text, image = " ".join(rng.choice(WORDS, 3)), Image.new("RGB", (320, 48), "white")
        ImageDraw.Draw(image).text((4, 4), text, fill="black", font=font)
        yield ((np.asarray(image, np.float32) / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None], [text]


def decoded(scores):
    """The text of the most probable letters: repeated ones once, and no blanks."""
    letters = ["", *Path("letters.txt").read_text().splitlines(), " "]
    rows = scores.argmax(-1)
    kept = [[each for n, each in enumerate(row) if each and (n == 0 or each != row[n - 1])] for row in rows]
    return ["".join(letters[each] for each in row) for row in kept]
'''


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    (folder / "real.py").write_text(FUNCTIONS)
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
    (shell.folder / "letters.txt").write_text(session.get_modelmeta().custom_metadata_map["character"])
    images, texts = zip(*real.lines(), strict=True)
    read = real.decoded(session.run(None, {"x": np.concatenate(images)})[0])
    words = ("--shape", "x=batch,3,48,320", "--metric", "word-error", "--post", "real.py:decoded", "--batch", 4)
    for record in evaluated(shell, path, "--inputs", "real.py:lines", *words):
        found = record["evaluation"]
        assert (record["status"], found["verdict"], found["changed"]) == ("PASS", "same", 0), record["message"]
        assert found["value"] == pytest.approx(jiwer.wer([text for (text,) in texts], read))
        assert found["value"] < 0.2
