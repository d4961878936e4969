"""A metric of three networks on real data, on every installed runtime and in every precision that it has on this CPU.

    python tools/quality/on_data.py > tools/quality/on_data.txt

The networks: the LeNet of examples/digits.py, and two that packages ship (examples/shipped.py): magika names the kinds
of files, and rapidocr reads lines of text. Every eighth sample, up to 128, is for calibration and is not evaluated.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import magika
import rapidocr_onnxruntime
from rich.console import Console

from xbench.reports.quality.evaluation import caption, cells, header, reference
from xbench.reports.tables import Table, show
from xbench.runtimes import RUNTIMES, version

EXAMPLES = Path(__file__).parents[2] / "examples"
PRECISIONS = ("fp32", "bf16", "fp16", "int8", "int4")
READER = ("--shape", "x=batch,3,48,320", "--metric", "word-error", "--post", "shipped.py:decoded")


def runtimes() -> list[str]:
    return [name for name, row in RUNTIMES.items() if not (row.hidden or row.environment) and version(row)]


def evaluated(folder: Path, model: str, *words: str) -> list[dict[str, Any]]:
    """The records of all cells but those of a precision that a runtime lacks."""
    chosen = ["--runtime", ",".join(runtimes()), "--precision", ",".join(PRECISIONS), "--batch", "16", "--json"]
    command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", "evaluate", model, *words, *chosen]
    answer = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    return [each for each in json.loads(answer.stdout) if "no switch" not in (each["message"] or "")]


def table(records: list[dict[str, Any]]) -> Table:
    """A line per cell, and what is said of those that did not pass."""
    first = next(each for each in records if each["evaluation"]["reference"] is not None)
    lines = [["float64", "", "", reference(first), "", "", ""], *(cells(each) for each in records)]
    said = [each for each in records if each["message"]]
    notes = [f"{each['case']['runtime']} {each['case']['precision']}: {each['message']}" for each in said]
    return Table(caption([first]), header(first), lines, words=2, notes=notes)


def main() -> None:
    path = {"files": next(Path(magika.__file__).parent.glob("models/*/model.onnx"))}
    path["lines"] = next(Path(rapidocr_onnxruntime.__file__).parent.glob("models/*rec*.onnx"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, EXAMPLES / "digits.py", folder], check=True, stdout=subprocess.DEVNULL)
        (folder / "shipped.py").write_text((EXAMPLES / "shipped.py").read_text())
        for target, file in {"magika.onnx": path["files"], "rapidocr.onnx": path["lines"]}.items():
            (folder / target).write_bytes(file.read_bytes())
        found = [
            evaluated(folder, "digits.onnx", "--inputs", "digits.npz"),
            evaluated(folder, "magika.onnx", "--inputs", "shipped.py:many_files"),
            evaluated(folder, "rapidocr.onnx", "--inputs", "shipped.py:many_lines", *READER),
        ]
    show(map(table, found), Console(width=160))


if __name__ == "__main__":
    main()
