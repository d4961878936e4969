"""A part of a model on which runtimes differ, as files that need no xbench: the graph, the arrays, and a script.

subgraph.onnx            the part, in ONNX's operators
subgraph_gradient.onnx   its loss and gradients, for runtimes without autodiff
subgraph_<framework>.py  the part for a framework that does not read ONNX, and its weights (codegen/standalone.py)
inputs.npz               the inputs, by name; for training, the parameters too
expected.npz             float64 results, and under `noise/<name>` the L2 norm and the peak of one noise floor
a.npz, b.npz             the results of the two runtimes
reproduce.py             runs the installed ones of the two, prints their errors; exit code 1 while they differ
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from xbench.converters import temporary
from xbench.converters.artifact import PARTS, WEIGHTS, Artifact, Names, names_of
from xbench.converters.codegen import standalone
from xbench.converters.printable import docstring, python
from xbench.errors import XBenchError
from xbench.parity import candidate, verdict
from xbench.runtimes import parse, row_of
from xbench.runtimes.scripts import reproduction
from xbench.workers.scripts import FAILED, RECORDED, REFERENCE, SCRIPT, TIMES

GRAPH, GRADIENT_GRAPH = "subgraph.onnx", "subgraph_gradient.onnx"
NAME = re.compile(r"^def (\w+)", re.MULTILINE)


def write(
    artifact: Artifact, reference: Path, mode: str, runtimes: Sequence[Mapping[str, Any]], title: str, out: Path
) -> list[str]:
    """Writes the files into a folder, which may have others, and returns their names. Each of `runtimes` has the `word`
    typed for it, its `answer` as a file or None, and its `device`, `threads` and `layout`."""
    with _settled(out) as (place, names):
        _write(artifact, reference, mode, runtimes, title, place)
    return names


@contextlib.contextmanager
def _settled(out: Path) -> Iterator[tuple[Path, list[str]]]:
    """A folder to write files in, which are moved to `out` once all are there; the list then has their names."""
    names: list[str] = []
    with temporary.folder(out, temporary.HIDDEN) as place:
        yield place, names
        names += sorted(path.name for path in place.iterdir() if path.is_file())
        for name in names:
            os.replace(place / name, out / name)


def _write(
    artifact: Artifact, reference: Path, mode: str, runtimes: Sequence[Mapping[str, Any]], title: str, out: Path
) -> None:
    expected = verdict.read(reference)
    _save_graph(artifact, mode, out)
    verdict.join(out / "inputs.npz", _fed(artifact, mode, expected))
    names = verdict.compared(expected)
    noise = {f"noise/{_plain(name)}": verdict.noise(expected, name) for name in names}
    verdict.join(out / "expected.npz", {**{_plain(name): expected[name] for name in names}, **noise})
    functions = []
    for letter, each in zip("ab", runtimes):
        if each["answer"]:
            answer = verdict.read(Path(each["answer"]))
            verdict.join(out / f"{letter}.npz", {_plain(name): array for name, array in answer.items()})
        functions.append(_function(artifact, mode, each, letter, out))
    words = [each["word"] for each in runtimes]
    if mode == "forward" and all("def run_" not in text for text in functions):
        functions.append(REFERENCE.replace("GRAPH", python(GRAPH)))
        words.append("onnx.reference")
    text = SCRIPT.format(
        title=docstring(title),
        limit=python(int(verdict.ALLOWED[verdict.narrow_of(expected)])),
        inputs=python([item["name"] for item in artifact.info["inputs"]]),
        outputs=python(artifact.info["outputs"]),
        functions="\n".join(dict.fromkeys(functions)),
        rows="".join(
            f"    ({python(word)}, {NAME.findall(text)[0]}),\n" for word, text in zip(words, functions, strict=True)
        ),
    )
    (out / "reproduce.py").write_text(text)


def write_times(
    artifact: Artifact,
    reference: Path,
    runtime: Mapping[str, Any],
    requirements: Sequence[str],
    title: str,
    out: Path,
) -> list[str]:
    """Writes a network, its inputs and a script that times it in two releases of a runtime, each installed by one of
    `requirements`; returns the names of the files, none for a runtime without such a script."""
    with _settled(out) as (place, names):
        function = _function(artifact, "forward", {**runtime, "answer": None}, "a", place)
        if "measured(" not in function:
            return []
        _save_graph(artifact, "forward", place)
        verdict.join(place / "inputs.npz", _fed(artifact, "forward", verdict.read(reference)))
        text = TIMES.format(
            title=docstring(title),
            good=docstring(requirements[0]),
            bad=docstring(requirements[1]),
            inputs=python([item["name"] for item in artifact.info["inputs"]]),
            outputs=python(artifact.info["outputs"]),
            function=function,
            name=NAME.findall(function)[0],
        )
        (place / "reproduce.py").write_text(text)
    return names


def _plain(name: str) -> str:
    """A tensor's name without its kind: a part has outputs, or gradients, or weights."""
    return name.partition("/")[2] or name


def _save_graph(artifact: Artifact, mode: str, out: Path) -> None:
    source = artifact.onnx if mode == "forward" else artifact.folder / "model.onnx"
    model = onnx.load(source, load_external_data=False)
    del model.metadata_props[:]
    if any(tensor.external_data for tensor in model.graph.initializer):
        shutil.copyfile(artifact.folder / WEIGHTS, out / WEIGHTS)
    onnx.save(model, out / GRAPH)
    onnx.checker.check_model(str(out / GRAPH))
    if mode != "forward" and (artifact.folder / PARTS[mode]).exists():
        shutil.copyfile(artifact.folder / PARTS[mode], out / GRADIENT_GRAPH)
        onnx.checker.check_model(str(out / GRADIENT_GRAPH))


def _fed(artifact: Artifact, mode: str, expected: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [item["name"] for item in artifact.info["inputs"]]
    fed = dict(zip(names, candidate.inputs_of(expected), strict=True))
    if mode == "forward":
        return fed
    program = artifact.program()
    own = _own_names(artifact, mode)
    added = {own.labels: expected["labels"], own.dropout: np.zeros((), np.float32)}
    return {**program.state, **program.params, **fed, **added}


def _own_names(artifact: Artifact, mode: str) -> Names:
    """The names of what a mode adds to the graph."""
    part = artifact.folder / PARTS.get(mode, "")
    return names_of(onnx.load(part, load_external_data=False)) if part.is_file() else Names()


def _function(artifact: Artifact, mode: str, runtime: Mapping[str, Any], letter: str, out: Path) -> str:
    """The text of a function that computes a runtime's results from the inputs by name."""
    name = parse(runtime["word"])[0]
    body = (RECORDED if runtime["answer"] else FAILED).replace("LETTER", letter)
    with contextlib.suppress(KeyError, XBenchError):  # its table lacks an operator; a plug-in's script is broken
        text = reproduction(runtime["word"], mode, runtime["device"]) if mode != "step" else None
        if text and (table := row_of(name).operators):
            layout = "nchw" if table == "torch" else runtime["layout"]  # to PyTorch it is the order in memory
            standalone.write(artifact.program(layout), table, f"subgraph_{table}", out, artifact.info["loss"])
        body = text or body
    words = {
        "WORD": docstring(runtime["word"]),
        "THREADS": python(runtime["threads"]),
        "LABELS": python(_own_names(artifact, mode).labels),
        "GRAPH": python(GRADIENT_GRAPH if mode == "gradient" else GRAPH),
    }
    return re.sub(rf"\b({'|'.join(words)})\b", lambda match: words[match[0]], body)
