"""Jobs that ask a runtime in a lower precision how much each of its nodes alone is off. The worker's cell is in that
precision; afterwards it is not as it was opened."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from xbench.host.clock import now
from xbench.parity import calls, candidate, verdict
from xbench.workers import samples
from xbench.workers.cell import CELL, Cell
from xbench.workers.jobs.answer_samples import run_cell


def narrow_nodes() -> list[list[str]]:
    """The nodes that the cell computes in the lower precision: the first tensor of each, and its operator."""
    (cell,) = CELL
    graph = onnx.load(cell.artifact.onnx, load_external_data=False).graph
    made = onnx.load(cell.artifact.inference, load_external_data=False).graph
    operators = {name: node.op_type for each in (made, graph) for node in each.node for name in node.output}
    return [[name, operators.get(name, "")] for name in calls.widened(cell.runtime, [])]


def node_errors(batch: str, outputs: list[int], size: int, nodes: list[str], skip: int, seconds: float) -> list[float]:
    """How far the outputs are off if one node alone is in the lower precision, relative to their size with all in
    float32: of the nodes after the first `skip`, at most until the seconds are over. Infinite if an output is not
    finite. `batch` is a file of samples."""
    (cell,) = CELL
    end, errors = now() + seconds, list[float]()
    _outputs(cell, batch, outputs, size)  # prepares for its shapes
    calls.widened(cell.runtime, nodes)
    exact = _outputs(cell, batch, outputs, size)
    for node in nodes[skip:]:
        calls.widened(cell.runtime, [each for each in nodes if each != node])
        errors.append(_off(_outputs(cell, batch, outputs, size), exact))
        if now() > end:
            break
    return errors


def _outputs(cell: Cell, batch: str, outputs: Sequence[int], size: int) -> list[np.ndarray]:
    """The chosen outputs for a file of samples."""
    given = zip(candidate.inputs_of(verdict.read(Path(batch))), samples.is_batched(batch), strict=True)
    inputs = [np.resize(array, (size, *array.shape[1:])) if of_sample else array for array, of_sample in given]
    made = run_cell(cell, inputs, size)
    return [np.array(made[place], np.float64) for place in outputs]


def _off(given: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> float:
    """The norm of the difference over that of the exact outputs."""
    if not all(np.isfinite(each).all() for each in given):
        return float("inf")
    off, size = (
        float(np.sqrt(sum(np.square(each).sum() for each in arrays)))
        for arrays in ([a - b for a, b in zip(given, exact, strict=True)], exact)
    )
    return off / size if size else off


JOBS = (narrow_nodes, node_errors)
