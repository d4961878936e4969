"""Jobs of a timing worker before its blocks (`block.py`): opening a cell and proving it.

Arguments and results are plain JSON; arrays travel as `.npz` files. A worker that times holds one cell (`CELL`): a
runtime made ready, the references it is proved on, the steps to time.
"""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.data.own import fixed_batch
from xbench.errors import XBenchError
from xbench.host import memory
from xbench.host.clock import now
from xbench.host.machine import versions
from xbench.parity import calls, candidate, certificate, verdict
from xbench.runtimes import Options, is_ours, load, row_of
from xbench.workers import pace, timing
from xbench.workers.cell import CELL, Cell, proving, steps_of

GIVEN = ("input/", "labels")  # of a reference: inputs of a step


def answer(
    artifact: str,
    runtime: str,
    mode: str,
    device: str,
    threads: int,
    layout: str,
    reference: str,
    path: str,
    precision: str = "fp32",
) -> str | None:
    """Writes all tensors of a reference that a runtime computes; returns the first wrong one."""
    model, expected = Artifact.read(artifact), expected_of(reference)
    ready = load(runtime, model, Options(mode, device, threads, layout=layout, precision=precision))
    ready.prepare(candidate.inputs_of(expected), expected["labels"], dropout=False)
    given = candidate.run(ready, model, mode, expected)
    outcome = candidate.judged(given, expected, precision)
    verdict.join(Path(path), given)
    return outcome.first_wrong


def convertible(artifact: str, runtime: str, device: str) -> dict[str, Any]:
    """Has a runtime load and read a converted model, or reports what is missing."""
    model = Artifact.read(artifact)
    load(runtime, model, Options("forward", device, 1)).read()
    return {"versions": versions(row_of(runtime).packages)}


def open_cell(
    artifact: str,
    runtime: str,
    mode: str,
    device: str,
    threads: int,
    layout: str,
    references: list[str],
    precision: str = "fp32",
    calibration: Sequence[str] = (),
) -> dict[str, Any]:
    """Loads, compiles and makes the first call, each timed separately. `calibration` are files of a user's samples."""
    row, model = row_of(runtime), Artifact.read(artifact)
    packages = (*row.packages, *(row.lower[precision].tool if precision in row.lower else ()))
    batches = [_by_name(model, path) for path in calibration]
    options = Options(mode, device, threads, layout=layout, precision=precision, calibration=batches)
    given = [expected_of(path, "" if mode == "forward" else GIVEN) for path in references]
    cell, times = made_ready(model, runtime, options, given)
    cell.paths = references
    CELL[:] = [cell]
    known, reported = versions((*packages, "numpy")), calls.versions(cell.runtime)
    known = known | reported if cell.remote else reported | known  # an adapter cannot override what is installed here
    facts = {"versions": known, "tuned": calls.tuned(cell.runtime)}
    calls.device_memory(cell.runtime)  # fails on nonsense now: it is recorded after the timing, too late
    return {"times": times, "recalled": calls.recalled(cell.runtime), **facts}


def _by_name(model: Artifact, path: str) -> dict[str, np.ndarray]:
    """A batch of a user's samples by the names of the inputs; filled up to the batch that the graph fixes."""
    names, given = [each["name"] for each in model.info["inputs"]], expected_of(path)
    arrays = dict(zip(names, candidate.inputs_of(given), strict=True))
    fixed = fixed_batch(model.info) if given["batched"].any() else None
    return {name: np.resize(a, (fixed, *a.shape[1:])) for name, a in arrays.items()} if fixed else arrays


def made_ready(
    model: Artifact, runtime: str, options: Options, arrays: list[dict[str, np.ndarray]]
) -> tuple[Cell, dict[str, float | None]]:
    """A cell after its first step, and the seconds of loading, compiling and that step."""
    for name in row_of(runtime).ours:
        importlib.import_module(name)
    start = now()
    ready = load(runtime, model, options)
    loaded = now()
    compiled = calls.prepared(ready, candidate.inputs_of(arrays[0]), arrays[0]["labels"], dropout=False)
    prepared = now()
    remote = is_ours(runtime) and ready.remote
    cell = Cell(model, ready, options.mode, arrays, options.precision, options.device, remote=remote)
    cell.prepared = [array.shape for array in candidate.inputs_of(arrays[0])]
    cell.steps = steps_of(cell, "resident")
    before = now()
    cell.steps[0]()
    first = now() - before
    if compiled:
        return cell, {"load_s": loaded - start, "compile_s": prepared - loaded, "first_s": first}
    return cell, {"load_s": loaded - start, "compile_s": None, "first_s": prepared - loaded + first}


def certify(given: bool = False) -> dict[str, Any]:
    """The certificate of the runtime's parameters; `given`: of the user's file."""
    (cell,) = CELL
    return certificate.certify(cell.artifact, calls.held(cell.runtime), given)


def save(
    artifact: str,
    runtime: str,
    device: str,
    layout: str,
    batch: int,
    folder: str,
    name: str,
    precision: str = "fp32",
    calibration: Sequence[str] = (),
    reference: str | None = None,
) -> dict[str, Any]:
    """Writes a model in a runtime's own form, with its certificate; returns the names of the files. The form is for
    inputs as in the `reference`, else for random ones. `calibration` are files of a user's samples."""
    model = Artifact.read(artifact)
    batches = [_by_name(model, path) for path in calibration]
    options = Options("forward", device, 1, layout=layout, precision=precision, calibration=batches)
    ready = load(runtime, model, options)
    inputs, labels = candidate.sample(model, batch, 0)
    if reference:
        inputs = candidate.inputs_of(expected_of(reference, GIVEN))
    ready.prepare(inputs, labels, dropout=False)
    files = calls.saved(ready, Path(folder), name)
    if files:
        held = calls.held(ready) if precision == "fp32" else None  # in less it holds other numbers
        contents = certificate.certify(model, held, _as_given(model, runtime))
        (Path(folder) / "certificate.json").write_text(json.dumps(contents, indent=1))
    return {
        "files": [*files, "certificate.json"] if files else [],
        "versions": versions(row_of(runtime).packages),
    }


def _as_given(model: Artifact, runtime: str) -> bool:
    return model.given is not None and row_of(runtime).reads_onnx


def expected_of(path: str, names: str | tuple[str, ...] = "") -> dict[str, np.ndarray]:
    """The arrays of a reference, by prefix of name.

    Raises:
        XBenchError: the file cannot be read.
    """
    try:
        return verdict.read(Path(path), names)
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise XBenchError(f"{path} is damaged: delete it") from error


def check(index: int) -> dict[str, Any]:
    """The verdict on one of the references that the cell was opened with."""
    (cell,) = CELL
    return check_more(cell.paths[index])


def check_more(path: str) -> dict[str, Any]:
    """The verdict on a reference, which is not kept."""
    (cell,) = CELL
    expected = expected_of(path)
    inputs = candidate.inputs_of(expected)
    with proving(cell):
        if (shapes := [a.shape for a in inputs]) != [a.shape for a in candidate.inputs_of(cell.references[0])]:
            cell.runtime.prepare(inputs, expected["labels"], dropout=False)  # another batch size
            cell.prepared = shapes
        given = candidate.run(cell.runtime, cell.artifact, cell.mode, expected)
    return candidate.judged(given, expected, cell.precision).as_dict()


def arm(plane: str) -> None:
    """Switches dropout on if there is any, and makes the timed steps. Memory of the proof is released first: it is not
    theirs."""
    (cell,) = CELL
    memory.give_back()
    dropout = cell.mode != "forward" and cell.artifact.has_dropout
    with proving(cell):
        if dropout:
            expected = cell.references[0]
            cell.runtime.prepare(candidate.inputs_of(expected), expected["labels"], dropout=True)
        cell.steps, cell.way = steps_of(cell, plane), pace.way(cell, plane)
        if dropout:
            cell.steps[0]()  # some compile again


def warm(seconds: float) -> list[float]:
    """Steps until the times are steady."""
    (cell,) = CELL
    return timing.warm(cell.steps, seconds)


JOBS = (answer, convertible, open_cell, check, check_more, certify, save, arm, warm)
