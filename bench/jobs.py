"""What a worker can be asked to do, beside the jobs of `tuning_jobs.py`, `audit_jobs.py`, `load_jobs.py`,
`cost_jobs.py`, `export_jobs.py`, `train_jobs.py` and `bisect_jobs.py`.

Arguments and results are plain JSON; arrays travel as `.npz` files. A worker that times holds one cell (`CELL`): a
runtime made ready, the references it is proved on, the steps to time.
"""

import importlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from xbench.bench import XBenchError, health, machine, timing, usage
from xbench.bench.cell import CELL, Cell, proving, steps_of
from xbench.bench.machine import versions
from xbench.converters.artifact import Artifact
from xbench.parity import candidate, certificate, verdict
from xbench.runtimes import Options, Trainer, load, parse, table

LEAD = 4  # steps at most, of which a block does not count the times


def answer(
    artifact: str, runtime: str, mode: str, device: str, threads: int, layout: str, reference: str, path: str
) -> str | None:
    """Writes every tensor that a runtime computes of those a reference holds; returns the first wrong one."""
    model, expected = Artifact.read(artifact), expected_of(reference)
    ready = load(runtime, model, Options(mode, device, threads, layout=layout))
    ready.prepare(candidate.inputs_of(expected), expected["labels"], dropout=False)
    given = candidate.run(ready, model, mode, expected)
    verdict.join(Path(path), given)
    return verdict.judge(given, expected).first_wrong


def convertible(artifact: str, runtime: str, device: str) -> dict[str, Any]:
    """Makes a runtime load and compile a converted model for a batch of 2, or says what is missing."""
    model = Artifact.read(artifact)
    name, _ = parse(runtime)
    load(runtime, model, Options("forward", device, 1))
    return {"versions": versions(table()[name].packages)}


def open_cell(
    artifact: str,
    runtime: str,
    mode: str,
    device: str,
    threads: int,
    layout: str,
    references: list[str],
    precision: str = "fp32",
) -> dict[str, Any]:
    """Loads, compiles and makes the first call, each timed by itself."""
    packages = table()[parse(runtime)[0]].packages
    options = Options(mode, device, threads, layout=layout, precision=precision)
    cell, times = made_ready(Artifact.read(artifact), runtime, options, [expected_of(path) for path in references])
    CELL[:] = [cell]
    return {"times": times, "versions": versions((*packages, "numpy")), "tuned": cell.runtime.tuned()}


def made_ready(
    model: Artifact, runtime: str, options: Options, arrays: list[dict[str, np.ndarray]]
) -> tuple[Cell, dict[str, float | None]]:
    """A cell that has made its first step, and the seconds of loading, compiling and that step."""
    if not table()[parse(runtime)[0]].operators:
        importlib.import_module("onnx_ir")  # what edits the graph for it is ours: no part of the runtime's loading
    start = time.perf_counter()
    ready = load(runtime, model, options)
    loaded = time.perf_counter()
    compiled = ready.prepare(candidate.inputs_of(arrays[0]), arrays[0]["labels"], dropout=False)
    prepared = time.perf_counter()
    cell = Cell(model, ready, options.mode, arrays, options.precision)
    cell.steps = steps_of(cell, "resident")
    before = time.perf_counter()
    cell.steps[0]()
    first = time.perf_counter() - before
    compile_s = prepared - loaded if compiled else None
    return cell, {"load_s": loaded - start, "compile_s": compile_s, "first_s": first}


def certify() -> dict[str, Any]:
    """What the runtime holds of the model."""
    (cell,) = CELL
    return certificate.certify(cell.artifact, cell.runtime.held())


def save(artifact: str, runtime: str, device: str, layout: str, batch: int, folder: str, name: str) -> dict[str, Any]:
    """Writes a model in a runtime's own form, with its certificate; returns the names of the files."""
    model = Artifact.read(artifact)
    ready = load(runtime, model, Options("forward", device, 1, layout=layout))
    inputs, labels = candidate.sample(model, batch, 0)
    ready.prepare(inputs, labels, dropout=False)
    files = ready.save(Path(folder), name)
    if files:
        (Path(folder) / "certificate.json").write_text(json.dumps(certificate.certify(model, ready.held()), indent=1))
    return {
        "files": [*files, "certificate.json"] if files else [],
        "versions": versions(table()[parse(runtime)[0]].packages),
    }


def expected_of(path: str) -> dict[str, np.ndarray]:
    """The arrays of a reference.

    Raises:
        XBenchError: the file cannot be read.
    """
    try:
        return verdict.read(Path(path))
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise XBenchError(f"{path} is damaged: delete it") from error


def check(index: int) -> dict[str, Any]:
    """The verdict on one reference."""
    (cell,) = CELL
    expected, first = cell.references[index], cell.references[0]
    inputs = candidate.inputs_of(expected)
    if [a.shape for a in inputs] != [a.shape for a in candidate.inputs_of(first)]:
        with proving(cell):
            cell.runtime.prepare(inputs, expected["labels"], dropout=False)  # another batch size
    return _judged(cell, expected)


def _judged(cell: Cell, expected: Mapping[str, np.ndarray]) -> dict[str, Any]:
    with proving(cell):
        given = candidate.run(cell.runtime, cell.artifact, cell.mode, expected)
    return verdict.judge(given, expected, cell.precision).as_dict()


def check_more(path: str) -> dict[str, Any]:
    """The verdict on one more reference, which is not kept."""
    (cell,) = CELL
    return _judged(cell, expected_of(path))


def arm(plane: str) -> None:
    """Switches dropout on where there is any, and makes the steps that are timed."""
    (cell,) = CELL
    dropout = cell.mode != "forward" and cell.artifact.has_dropout
    with proving(cell):
        if dropout:
            expected = cell.references[0]
            cell.runtime.prepare(candidate.inputs_of(expected), expected["labels"], dropout=True)
        cell.steps = steps_of(cell, plane)
        if dropout:
            cell.steps[0]()  # some compile again


def warm(seconds: float) -> list[float]:
    """Steps until the times are steady."""
    (cell,) = CELL
    return timing.warm(cell.steps, seconds)


def block(seconds: float, limit: int) -> dict[str, Any]:
    """A few steps that do not count, as the caches are cold, then timed ones; then looks at what the last one computed.

    Behind a single one the first that is timed is still slower than the others, most where a step takes some
    milliseconds. Of long steps there is no time for four in half a block.
    """
    (cell,) = CELL
    if isinstance(cell.runtime, Trainer) and cell.mode == "step":
        cell.runtime.reset()  # so that no weight drifts to infinity or to denormals over thousands of steps
    begun, cpus = usage.begin(), machine.allowed()
    before = health.look(cpus, time.process_time())
    lead = timing.sample(cell.steps, seconds / 2, LEAD, cell.turn)
    samples = timing.sample(cell.steps, seconds, limit, cell.turn + len(lead))
    after = health.look(cpus, time.process_time())
    cell.usage.append(usage.end(begun, len(lead) + len(samples)))
    cell.turn += len(lead) + len(samples)
    verify(cell)
    found = {"cpu_s": after.own - before.own, "wall_s": after.wall - before.wall}
    return {"samples": samples, "lead": lead, **found, "health": health.between(before, after, cpus)}


def verify(cell: Cell) -> None:
    """Proves that the last timed step did the work: its outputs are the oracle's, its loss is finite.

    Raises:
        verdict.Changed: it did not.
    """
    index = (cell.turn - 1) % len(cell.steps)
    if cell.mode == "forward":
        given = candidate.named(cell.artifact, cell.runtime.get(cell.last))
        found = verdict.judge(given, cell.references[index], cell.precision)
        if found.status == "FAIL":
            raise verdict.Changed(f"while it was timed {found.message}")
    else:
        loss = float(np.asarray(cell.runtime.get(cell.last[:1])[0]))
        if not np.isfinite(loss):
            raise verdict.Changed("the loss became infinite while it was timed")


JOBS = (answer, convertible, open_cell, check, check_more, certify, save, arm, warm, block)
