"""A question: a folder with a network, inputs, and what float64 makes of them. Answers of any other program
are judged by it (`judge.py`).

Its layout is that of ONNX's own tests (`model.onnx`, `test_data_set_0/input_0.pb`). `reference/` is for the judge.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np

from xbench.case import SYNTHETIC
from xbench.converters import cache, files, temporary
from xbench.converters.artifact import Artifact
from xbench.converters.printable import markdown, markdown_table, shell, visible
from xbench.errors import XBenchError
from xbench.parity.arrays_file import join, read
from xbench.parity.candidate import inputs_of
from xbench.parity.element_types import type_in_graph
from xbench.parity.verdict import REFERENCE
from xbench.proof.prove import SEEDS
from xbench.store.command import VERSION
from xbench.store.fits import misfit
from xbench.workers.prepare import Exporter

FORMAT = 1  # of the folder
FACTS, MODEL, EVERY, TENSORS = "question.json", "model.onnx", "every_tensor.onnx", "tensors"
LONGEST = 1 << 26  # bytes of the facts: a graph may have many tensors
NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)  # one that may be the name of a file in an archive


class Tensor(TypedDict):
    """An input or output. `file` begins the name of its own files, `key` is its name in an `.npz`. The type is the
    graph's, and there is a shape for every set."""

    name: str
    key: str
    file: str
    dtype: str
    shapes: list[list[int]]


class Facts(TypedDict):
    """The content of `question.json`."""

    format: int
    xbench: str
    model: str
    digest: str
    precision: str
    batches: list[int]
    inputs: list[Tensor]
    outputs: list[Tensor]
    references: dict[str, str]


@dataclass(frozen=True)
class Question:
    """A question that was read from its folder."""

    folder: Path
    facts: Facts

    @property
    def sets(self) -> int:
        return len(self.facts["batches"])

    def reference(self, name: str) -> dict[str, np.ndarray]:
        """What float64 makes of a set, by its number, or of every tensor of the first, by `tensors`.

        Raises:
            XBenchError: it is missing or was changed.
        """
        path = _reference(self.folder, name)
        try:
            with files.opened(path) as file:
                if _digest(file.read()) != self.facts["references"].get(name):
                    raise XBenchError(f"{path} was changed since `xbench ask` wrote it: ask again")
            return read(path)
        except (OSError, ValueError) as error:
            raise XBenchError(f"{path} cannot be read ({visible(error)}): ask again") from error


def _reference(folder: Path, name: str) -> Path:
    return folder / "reference" / f"{name}.npz"


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def set_name(number: int) -> str:
    """The folder of a set of inputs, in a question and in answers."""
    return f"test_data_set_{number}"


def check_folder(folder: Path, option: str) -> None:
    """
    Raises:
        XBenchError: the folder cannot be written, or is not empty.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise XBenchError(f"{option} {folder}: it is no empty folder; name another")
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise XBenchError(f"{option} {folder}: {error.strerror}") from error


# ***** writing *****


def ask(
    artifact: Artifact, exporter: Exporter, folder: Path, batches: Sequence[int], precision: str, tensors: bool
) -> Facts:
    """Writes the question of a model, with a set of inputs for each batch size; with `tensors` also a model that gives
    all of its tensors.

    Raises:
        XBenchError: the oracle cannot compute it, or the folder cannot be written.
    """
    check_folder(folder, "--output")
    paths = [
        exporter.reference(artifact, "forward", batch, seed, SYNTHETIC, precision=precision)
        for seed, batch in zip(SEEDS, batches, strict=False)
    ]
    try:
        with temporary.folder(folder.parent, temporary.HIDDEN) as place:
            made = place / "question"
            (made / "reference").mkdir(parents=True)
            facts = _facts(artifact, [read(path) for path in paths], batches, precision)
            _copy_model(artifact, made)
            for number, path in enumerate(paths):
                shutil.copyfile(path, _reference(made, str(number)))
                _write_inputs(made / set_name(number), facts["inputs"], inputs_of(read(path)))
            if tensors:
                _write_tensors(artifact, exporter, paths[0], made, place / "marked")
            for path in sorted((made / "reference").iterdir()):
                facts["references"][path.stem] = _digest(path.read_bytes())
            (made / FACTS).write_text(json.dumps(facts, indent=1) + "\n")
            (made / "README.md").write_text(_readme(facts, tensors))
            folder.rmdir() if folder.exists() else None
            made.rename(folder)
    except OSError as error:
        raise XBenchError(f"--output {folder}: {error.strerror or error}") from error
    return facts


def _facts(
    artifact: Artifact, references: Sequence[Mapping[str, np.ndarray]], batches: Sequence[int], precision: str
) -> Facts:
    inputs = [inputs_of(each) for each in references]
    outputs: list[str] = artifact.info["outputs"]
    return {
        "format": FORMAT,
        "xbench": VERSION,
        "model": artifact.name,
        "digest": artifact.digest,
        "precision": precision,
        "batches": list(batches),
        "inputs": [
            _tensor("input", place, item["name"], item["dtype"], [each[place] for each in inputs])
            for place, item in enumerate(artifact.info["inputs"])
        ],
        "outputs": [
            _tensor(
                "output",
                place,
                name,
                type_in_graph(f"output/{name}", references[0]),
                [each[f"output/{name}"] for each in references],
            )
            for place, name in enumerate(outputs)
        ],
        "references": {},
    }


def _tensor(kind: str, place: int, name: str, dtype: str, arrays: Sequence[np.ndarray]) -> Tensor:
    file = f"{kind}_{place}"
    key = name if NAME.fullmatch(name) and len(name) < 200 else file
    return {"name": name, "key": key, "file": file, "dtype": dtype, "shapes": [list(each.shape) for each in arrays]}


def _copy_model(artifact: Artifact, folder: Path) -> None:
    """The user's own file, or the graph of an exported network, with its external weights."""
    for path in (artifact.onnx, *cache.external(artifact.onnx)):
        target = folder / (MODEL if path == artifact.onnx else path.relative_to(artifact.onnx.parent))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _write_inputs(folder: Path, inputs: Sequence[Tensor], arrays: Sequence[np.ndarray]) -> None:
    from onnx import numpy_helper

    folder.mkdir()
    for each, array in zip(inputs, arrays, strict=True):
        (folder / f"{each['file']}.bin").write_bytes(array.tobytes())
        proto = numpy_helper.from_array(array, each["name"])
        (folder / f"{each['file']}.pb").write_bytes(proto.SerializeToString())
    join(folder / "inputs.npz", {each["key"]: array for each, array in zip(inputs, arrays, strict=True)})


def _write_tensors(artifact: Artifact, exporter: Exporter, reference: Path, folder: Path, place: Path) -> None:
    """The model with every floating tensor as an output, and their values in float64 for the first set."""
    place.mkdir()
    exporter.call("mark", artifact=str(artifact.folder), reference=str(reference), folder=str(place))
    marked = Artifact.read(place)
    if cache.external(marked.onnx):
        raise XBenchError("--tensors: its weights are too large for one file")
    shutil.copyfile(marked.onnx, folder / EVERY)
    shutil.copyfile(place / REFERENCE, _reference(folder, TENSORS))


def _readme(facts: Facts, tensors: bool) -> str:
    """How to answer, in ten lines and a table."""
    first, last = set_name(0), set_name(len(facts["batches"]) - 1)
    lines = [
        f"# A question about {markdown(facts['model'])}",
        "",
        f"1. Run `{MODEL}`, or your form of it, on the inputs of `{first}` and `{last}`: `inputs.npz` (by name),",
        "   `input_0.pb` (ONNX's TensorProto) or `input_0.bin` (raw, little-endian, the last axis fastest).",
        "2. Write the outputs into folders of the same names: `outputs.npz` (by name), or for each of them",
        "   `output_0.npy`, `output_0.pb` or `output_0.bin`, in the order of this table.",
        '3. If you like, add the times of some runs: `times.json`, `{"runtime": "...", "seconds": [0.012, ...]}`.',
        f"4. `{shell('xbench', 'judge', 'QUESTION', 'ANSWERS')}` says whether it is the same network.",
    ]
    if tensors:
        lines += [
            f"5. To find the first wrong tensor, run `{EVERY}` on `{first}`; write its outputs, or some, into",
            f"   `{first}/{TENSORS}.npz`, by name.",
        ]
    lines += ["", "`reference` is for the judge: keep it, and send the rest.", ""]
    rows = [[each["name"], each["file"], each["dtype"], _shapes(each)] for each in _each(facts)]
    return "\n".join(lines + markdown_table(["tensor", "file", "type", "shape"], ["---"] * 4, rows)) + "\n"


def _each(facts: Facts) -> Iterator[Tensor]:
    yield from facts["inputs"]
    yield from facts["outputs"]


def _shapes(tensor: Tensor) -> str:
    return ", then ".join(dict.fromkeys(" x ".join(map(str, shape)) or "one number" for shape in tensor["shapes"]))


# ***** reading *****


def read_question(folder: Path) -> Question:
    """
    Raises:
        XBenchError: it is no question, or was written by a newer xbench.
    """
    path = folder / FACTS
    try:
        with files.opened(path) as file:
            facts: Any = json.loads(file.read(LONGEST))
    except OSError as error:
        raise XBenchError(f"{folder} is no question: {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise XBenchError(f"{path} is damaged: {visible(error)}") from error
    if not isinstance(facts, dict) or facts.keys() < Facts.__annotations__.keys() or misfit(facts, Facts):
        raise XBenchError(f"{path} is damaged: {misfit(facts, Facts) or 'facts are missing'}")
    if facts["format"] != FORMAT:
        raise XBenchError(f"{path} has format {facts['format']}, this xbench reads {FORMAT}: ask again")
    tensors: list[Tensor] = [*facts["inputs"], *facts["outputs"]]
    count = len(facts["batches"]) if facts["outputs"] else 0
    complete = all(each.keys() >= Tensor.__annotations__.keys() and len(each["shapes"]) == count for each in tensors)
    if not count or not complete:
        raise XBenchError(f"{path} is damaged: facts are missing")
    return Question(folder, cast(Facts, facts))
