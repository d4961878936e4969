"""Writes the question of a model (`question.py`)."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from xbench.case import SYNTHETIC, data_in_words
from xbench.converters import cache, temporary
from xbench.converters.artifact import Artifact
from xbench.converters.frontends.validity import tensors as tensors_of
from xbench.converters.printable import markdown_code, markdown_table, shell, visible
from xbench.errors import XBenchError
from xbench.parity.arrays_file import join, read
from xbench.parity.candidate import inputs_of
from xbench.parity.element_types import type_in_graph
from xbench.parity.verdict import REFERENCE
from xbench.proof.prove import SEEDS
from xbench.proof.question import (
    EVERY,
    FACTS,
    FORMAT,
    MODEL,
    TENSORS,
    Facts,
    Tensor,
    check_folder,
    digest,
    in_words,
    reference_file,
    set_name,
)
from xbench.store.command import VERSION
from xbench.workers.prepare import Exporter

OURS = re.compile(r"(question\.json|README\.md|model\.onnx|every_tensor\.onnx|reference|test_data_set_\d+)($|/)")
NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)  # one that may be the name of a file in an archive


def ask(
    artifact: Artifact,
    exporter: Exporter,
    folder: Path,
    batches: Sequence[int],
    precision: str,
    tensors: bool,
    data: str = SYNTHETIC,
) -> Facts:
    """Writes the question of a model, with a set of inputs for each batch size; with `tensors` also a model that gives
    all of its tensors. `data` is what the inputs are, as in a cell; the exporter has the samples of a user.

    Raises:
        XBenchError: the oracle cannot compute it, or the folder cannot be written.
    """
    check_folder(folder, "--output")
    paths = [
        exporter.reference(artifact, "forward", batch, seed, data, precision=precision)
        for seed, batch in zip(SEEDS, batches, strict=False)
    ]
    try:
        with temporary.folder(folder.parent, temporary.HIDDEN) as place:
            made = place / "question"
            (made / "reference").mkdir(parents=True)
            facts = _facts(artifact, [read(path) for path in paths], batches, precision, data)
            _copy_model(artifact, made)
            for number, path in enumerate(paths):
                shutil.copyfile(path, reference_file(made, str(number)))
                _write_inputs(made / set_name(number), facts["inputs"], inputs_of(read(path)))
            if tensors:
                facts["tensors"] = _write_tensors(artifact, exporter, paths[0], made, place / "marked")
            for path in sorted((made / "reference").iterdir()):
                facts["references"][path.stem] = digest(path.read_bytes())
            (made / FACTS).write_text(json.dumps(facts, indent=1) + "\n")
            (made / "README.md").write_text(_readme(facts, tensors))
            folder.rmdir() if folder.exists() else None
            made.rename(folder)
    except OSError as error:
        raise XBenchError(f"--output {folder}: {error.strerror or error}") from error
    return facts


def _facts(
    artifact: Artifact,
    references: Sequence[Mapping[str, np.ndarray]],
    batches: Sequence[int],
    precision: str,
    data: str,
) -> Facts:
    inputs = [inputs_of(each) for each in references]
    given, outputs = [item["name"] for item in artifact.info["inputs"]], list[str](artifact.info["outputs"])
    return {
        "format": FORMAT,
        "xbench": VERSION,
        "model": artifact.name,
        "digest": artifact.digest,
        "precision": precision,
        "data": data,
        "batches": list(batches),
        "inputs": [
            _tensor("input", place, given, item["dtype"], [each[place] for each in inputs])
            for place, item in enumerate(artifact.info["inputs"])
        ],
        "outputs": [
            _tensor(
                "output",
                place,
                outputs,
                type_in_graph(f"output/{name}", references[0]),
                [each[f"output/{name}"] for each in references],
            )
            for place, name in enumerate(outputs)
        ],
        "tensors": [],
        "references": {},
    }


def _tensor(kind: str, place: int, names: Sequence[str], dtype: str, arrays: Sequence[np.ndarray]) -> Tensor:
    name, file = names[place], f"{kind}_{place}"
    key = name if NAME.fullmatch(name) and len(name) < 200 else file
    while key != name and key in names:
        key += "_"
    return {"name": name, "key": key, "file": file, "dtype": dtype, "shapes": [list(each.shape) for each in arrays]}


def _copy_model(artifact: Artifact, folder: Path) -> None:
    """The user's own file, or the graph of an exported network, with its external weights."""
    for path in (artifact.onnx, *_weights(artifact.onnx)):
        place = Path(MODEL) if path == artifact.onnx else path.relative_to(artifact.onnx.parent)
        if place != Path(MODEL) and OURS.match(str(place)):
            raise XBenchError(
                f"{artifact.name} has weights in {visible(place)}, where the question has a file of its own"
            )
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / place)


def _weights(path: Path) -> list[Path]:
    """The files of a model's external weights. Other words of the file that look like one are not believed: what is
    copied will be sent to others."""
    if not (files_named := cache.external(path)):
        return []
    import onnx

    model = onnx.load_model(path, load_external_data=False)
    every = (*model.graph.initializer, *tensors_of(model))
    named = {each.value for t in every for each in t.external_data if each.key == "location"}
    return [each for each in files_named if str(each.relative_to(path.parent)) in {str(Path(name)) for name in named}]


def _write_inputs(folder: Path, inputs: Sequence[Tensor], arrays: Sequence[np.ndarray]) -> None:
    from onnx import numpy_helper

    folder.mkdir()
    for each, array in zip(inputs, arrays, strict=True):
        (folder / f"{each['file']}.bin").write_bytes(array.tobytes())
        proto = numpy_helper.from_array(array, each["name"])
        (folder / f"{each['file']}.pb").write_bytes(proto.SerializeToString())
    join(folder / "inputs.npz", {each["key"]: array for each, array in zip(inputs, arrays, strict=True)})


def _write_tensors(artifact: Artifact, exporter: Exporter, reference: Path, folder: Path, place: Path) -> list[str]:
    """The model with every floating tensor as an output, and their values in float64 for the first set; returns their
    names in the order of the graph."""
    place.mkdir()
    exporter.call("mark", artifact=str(artifact.folder), reference=str(reference), folder=str(place))
    marked = Artifact.read(place)
    if cache.external(marked.onnx):
        raise XBenchError("--tensors: its weights are too large for one file")
    shutil.copyfile(marked.onnx, folder / EVERY)
    shutil.copyfile(place / REFERENCE, reference_file(folder, TENSORS))
    return [name.removeprefix("output/") for name in read(place / REFERENCE) if name.startswith("output/")]


def _readme(facts: Facts, tensors: bool) -> str:
    """How to answer, in ten lines and a table."""
    first, last = set_name(0), set_name(len(facts["batches"]) - 1)
    lines = [
        f"# A question about {markdown_code(facts['model'])}",
        "",
        f"1. Run `{MODEL}`, or your form of it, on the inputs of `{first}` and `{last}`: `inputs.npz` (by name),",
        "   `input_0.pb` (ONNX's TensorProto) or `input_0.bin` (raw, little-endian, the last axis fastest).",
        "2. Write the outputs into folders of the same names: `outputs.npz`, by name or in the order of this table, or",
        "   for each of them `output_0.npy`, `output_0.pb` or `output_0.bin`. Types are those of the table.",
        "3. If you like, add the seconds of some runs: `times.json` next to the folders,",
        '   `{"runtime": "...", "machine": "...", "seconds": [0.012, 0.013]}`.',
        f"4. `{shell('xbench', 'judge', 'QUESTION', 'ANSWERS')}` says whether it is the same network.",
    ]
    if (samples := data_in_words(facts["data"])) != facts["data"]:
        lines[1:1] = ["", f"The inputs are samples of {markdown_code(samples)}."]
    if facts["precision"] != "fp32":
        lines.append(f"   It may be off by what rounding to {facts['precision']} explains; more bits are as good.")
    if tensors:
        lines += [
            f"5. To find the first wrong tensor, run `{EVERY}` on `{first}`; write its outputs, or some, into",
            f"   `{first}/{TENSORS}.npz`, by the names in `{FACTS}` (`tensors`, in the order of the graph).",
        ]
    lines += ["", "`reference` is for the judge: keep it, and send the rest.", ""]
    rows = [[each["name"], each["file"], each["dtype"], _shapes(each)] for each in _each(facts)]
    return "\n".join(lines + markdown_table(["tensor", "file", "type", "shape"], ["---"] * 4, rows)) + "\n"


def _each(facts: Facts) -> Iterator[Tensor]:
    yield from facts["inputs"]
    yield from facts["outputs"]


def _shapes(tensor: Tensor) -> str:
    return ", then ".join(dict.fromkeys(in_words(shape) for shape in tensor["shapes"]))
