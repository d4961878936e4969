"""Jobs that run a network on a user's samples: a runtime in the worker of its cell, the oracle in PyTorch's. A job ends
with the batch in which its seconds are over, so that the caller can show the progress."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.data.own import fixed_batch
from xbench.errors import XBenchError
from xbench.host.clock import now
from xbench.parity import calls, candidate, verdict
from xbench.parity.verdict import Changed
from xbench.workers import samples
from xbench.workers.cell import CELL, Cell

Forward = Callable[[list[np.ndarray]], list[np.ndarray]]
_ORACLE: dict[str, Forward] = {}  # of the last artifact, by its folder


def answer_samples(batches: list[str], outputs: list[int], size: int, folder: str, seconds: float) -> int:
    """Runs the cell on files of samples, at most until the seconds are over, and writes the chosen outputs of each into
    a file of the same name in `folder`; returns the number of files.

    The last batch is filled up to `size` with its own samples: a new size is a new compilation.

    Raises:
        Changed: an output has no row for each sample.
    """
    (cell,) = CELL
    forward = partial(run_cell, cell, size=size)
    return _answered(cell.artifact, forward, batches, outputs, size, Path(folder), seconds)


def form_bytes(folder: str) -> int | None:
    """The size of the cell's network in the runtime's own form, which is written into `folder`; None if it has none."""
    (cell,) = CELL
    place = Path(folder)
    place.mkdir()
    calls.saved(cell.runtime, place, "form")
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) or None


def run_cell(cell: Cell, inputs: list[np.ndarray], size: int) -> list[np.ndarray]:
    """The outputs of a cell for `size` samples."""
    if (shapes := [array.shape for array in inputs]) != cell.prepared:
        cell.runtime.prepare(inputs, np.zeros(size, np.int64), dropout=False)
        cell.prepared = shapes
    result = cell.runtime.forward(*cell.runtime.put(inputs))
    cell.runtime.wait(result)
    return list(candidate.named(cell.artifact, calls.outputs(cell.runtime, result)).values())


def oracle_samples(
    artifact: str,
    batches: list[str],
    outputs: list[int],
    size: int,
    folder: str,
    seconds: float,
    order: list[int] | None = None,
) -> int:
    """As `answer_samples`, by the network in float64. The samples may be those of another network, whose inputs are in
    another order: `order` has the place among them of each input."""
    from xbench.parity import network

    model = Artifact.read(Path(artifact))
    if artifact not in _ORACLE:
        _ORACLE.clear()
        _ORACLE[artifact] = network.evaluated(model)
        _check_rows(model, _ORACLE[artifact], batches[0], outputs, order)
    return _answered(model, _ORACLE[artifact], batches, outputs, size, Path(folder), seconds, order)


def _given(samples: Mapping[str, np.ndarray], order: Sequence[int] | None) -> list[np.ndarray]:
    """The inputs in a file of samples, in another order if there is one."""
    inputs = candidate.inputs_of(samples)
    return inputs if order is None else [inputs[place] for place in order]


def _check_rows(
    model: Artifact, forward: Forward, path: str, outputs: Sequence[int], order: Sequence[int] | None
) -> None:
    """
    Raises:
        XBenchError: an output has another number of rows for one sample than one.
    """
    batched = samples.is_batched(path)
    if not any(batched) or fixed_batch(model.info):
        return
    inputs = _given(verdict.read(Path(path)), order)
    made = forward([array[:1] if own else array for array, own in zip(inputs, batched, strict=True)])
    for place in outputs:
        if np.ndim(made[place]) == 0 or len(made[place]) != 1:
            name, shape = model.info["outputs"][place], np.shape(made[place])
            raise XBenchError(
                f"output {name} has the shape {list(shape)} for one sample: its first axis is not the samples"
            )


def _answered(
    model: Artifact,
    forward: Forward,
    batches: Sequence[str],
    outputs: Sequence[int],
    size: int,
    folder: Path,
    seconds: float,
    order: Sequence[int] | None = None,
) -> int:
    end, done, batched = now() + seconds, 0, samples.is_batched(batches[0])
    has_rows = samples.rows_of(model.info, batched)
    while done < len(batches) and (not done or now() < end):
        path = Path(batches[done])
        given = verdict.read(path)
        count = len(given["names"])
        inputs = [
            np.resize(array, (size, *array.shape[1:])) if of_sample and count < size else array
            for array, of_sample in zip(_given(given, order), batched, strict=True)
        ]
        made = [np.asarray(a) if rows else np.asarray(a)[None] for a, rows in zip(forward(inputs), has_rows)]
        kept = {str(place): _rows(made[place], model.info["outputs"][place], count, size) for place in outputs}
        verdict.join(folder / path.name, kept)
        done += 1
    return done


def _rows(array: np.ndarray, name: str, count: int, size: int) -> np.ndarray:
    """The rows of an output that belong to samples."""
    if array.ndim == 0 or len(array) != size:
        shape = " x ".join(map(str, array.shape)) or "one number"
        raise Changed(f"output {name} is {shape} for {size} samples: it has no row for each")
    return array[:count]


JOBS = (answer_samples, form_bytes, oracle_samples)
