"""Real inputs of two networks that Python packages ship, as functions for `--inputs`, and one for `--post`:

xbench evaluate .../magika/models/standard_v3_3/model.onnx --inputs shipped.py:files
xbench evaluate .../rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx --shape x=batch,3,48,320 \
    --inputs shipped.py:lines --metric word-error --post shipped.py:decoded
"""

import functools
import io
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

KINDS = {".py": "python", ".so": "elf", ".pyc": "pythonbytecode", ".txt": "txt", ".json": "json", ".html": "html"}
WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "while", "seven", "wizards", "box", "many")
Sample = tuple[np.ndarray, np.ndarray | list[str]]


def files(most: int = 10) -> Iterator[Sample]:
    """The first and last bytes of files of Python's library, so many of each kind, and their kinds by their names."""
    from magika import Magika
    from magika.types.seekable import Seekable

    space = [str(each) for each in Magika()._model_config.target_labels_space]
    counts = dict.fromkeys(KINDS, 0)
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*")):
        if (kind := path.suffix) in KINDS and counts[kind] < most and path.is_file() and path.stat().st_size > 200:
            counts[kind] += 1
            content = Seekable(io.BytesIO(path.read_bytes()))
            read = Magika._extract_features_from_seekable(content, 1024, 0, 1024, 256, 4096, False)
            yield np.array([[*read.beg, *read.end]], np.int32), np.array([space.index(KINDS[kind])])


def many_files() -> Iterator[Sample]:
    return files(100)


def lines(count: int = 12) -> Iterator[Sample]:
    """Lines of three words, drawn black on white."""
    from PIL import Image, ImageDraw, ImageFont

    font, rng = ImageFont.load_default(size=30), np.random.default_rng(0)
    for _ in range(count):
        text, image = " ".join(rng.choice(WORDS, 3)), Image.new("RGB", (320, 48), "white")
        ImageDraw.Draw(image).text((4, 4), text, fill="black", font=font)
        yield ((np.asarray(image, np.float32) / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None], [text]


def many_lines() -> Iterator[Sample]:
    return lines(100)


@functools.cache
def letters() -> list[str]:
    """Those that the network knows, by their numbers: its file lists them. The first is none."""
    import onnx
    import rapidocr_onnxruntime

    path = next(Path(rapidocr_onnxruntime.__file__).parent.glob("models/*rec*.onnx"))
    facts = {each.key: each.value for each in onnx.load(path).metadata_props}
    return ["", *facts["character"].splitlines(), " "]


def decoded(scores: np.ndarray) -> list[str]:
    """The text of the most probable letters: repeated ones once, and no blanks."""
    rows = scores.argmax(-1)
    kept = [[each for n, each in enumerate(row) if each and (n == 0 or each != row[n - 1])] for row in rows]
    return ["".join(letters()[each] for each in row) for row in kept]
